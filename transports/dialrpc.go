package transports

import (
	"context"
	"fmt"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/zaprpc"
)

// RPCEndpoint is where calls go: scheme zap-rpc+tls or zap-rpc+quic, or zap-rpc in
// the clear for loopback and tests.
type RPCEndpoint struct{ Scheme, Address string }

// NewRPCUpstream makes the upstream of endpoints that take calls, frameBytes being
// the most bytes of one frame, or 0. The error wraps ErrScheme where no transport
// speaks a scheme. Its Close ends the connections.
func NewRPCUpstream(endpoints []RPCEndpoint, s DialSettings, frameBytes int) (*zaprpc.Upstream, error) {
	dials := make([]zaprpc.Dial, len(endpoints))
	for i, e := range endpoints {
		d := &dialer{network: "tcp", address: e.Address, settings: s}
		switch {
		case e.Scheme == "zap-rpc+quic" && s.TLS != nil:
			dials[i] = dialQUICCalls(e, s, frameBytes)
			continue
		case e.Scheme == "zap-rpc":
		case e.Scheme == "zap-rpc+tls" && s.TLS != nil:
			d.secure, d.tls = true, s.TLS.Config(e.Address)
			d.offer(zaprpc.ALPN)
		case e.Scheme == "zap-rpc+tls", e.Scheme == "zap-rpc+quic":
			return nil, noTLS(e.Scheme, e.Address)
		default:
			return nil, fmt.Errorf("%w: %s", ErrScheme, e.Scheme)
		}
		dials[i] = func(ctx context.Context, release func(*zaprpc.ClientConn, bool)) (*zaprpc.ClientConn, error) {
			st, info, err := d.connect(ctx)
			if err != nil {
				return nil, err
			}
			info.Protocol, info.ClientText = exchange.ZAP, e.Scheme+"://"+e.Address
			return zaprpc.NewClientConn(st, info, frameBytes, release), nil
		}
	}
	return zaprpc.NewUpstream(dials...), nil
}

func dialQUICCalls(e RPCEndpoint, s DialSettings, frameBytes int) zaprpc.Dial {
	d := newQUICDialer(e.Address, zaprpc.ALPN, s)
	return func(ctx context.Context, release func(*zaprpc.ClientConn, bool)) (*zaprpc.ClientConn, error) {
		qc, info, err := d.connect(ctx)
		if err != nil {
			return nil, err
		}
		info.Protocol, info.ClientText = exchange.ZAP, e.Scheme+"://"+e.Address
		return zaprpc.NewQUICClientConn(qc, info, frameBytes, release), nil
	}
}
