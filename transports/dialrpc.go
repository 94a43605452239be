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

// RPCSettings are those of an upstream that takes calls.
type RPCSettings struct {
	DialSettings
	zaprpc.UpstreamSettings
	// FrameBytes is the most bytes of one frame; 0 is zaprpc.DefaultFrameBytes.
	FrameBytes int
}

// NewRPCUpstream makes the upstream of endpoints that take calls. The error wraps
// ErrScheme where no transport speaks a scheme. Its Close ends the connections.
func NewRPCUpstream(endpoints []RPCEndpoint, s RPCSettings) (*zaprpc.Upstream, error) {
	dials := make([]zaprpc.Dial, len(endpoints))
	for i, e := range endpoints {
		d := &dialer{network: "tcp", address: e.Address, settings: s.DialSettings}
		switch {
		case e.Scheme == "zap-rpc+quic" && s.TLS != nil:
			dials[i] = dialQUICCalls(e, &s)
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
			return zaprpc.NewClientConn(st, info, s.FrameBytes, release), nil
		}
	}
	return zaprpc.NewUpstream(s.UpstreamSettings, dials...), nil
}

func dialQUICCalls(e RPCEndpoint, s *RPCSettings) zaprpc.Dial {
	d := newQUICDialer(e.Address, zaprpc.ALPN, s.DialSettings)
	return func(ctx context.Context, release func(*zaprpc.ClientConn, bool)) (*zaprpc.ClientConn, error) {
		qc, info, err := d.connect(ctx)
		if err != nil {
			return nil, err
		}
		info.Protocol, info.ClientText = exchange.ZAP, e.Scheme+"://"+e.Address
		return zaprpc.NewQUICClientConn(qc, info, s.FrameBytes, release), nil
	}
}
