package transports

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports/http3"
	"github.com/hanzoai/pqgw/transports/zap"
)

// quicDialer connects to an endpoint over QUIC.
type quicDialer struct {
	address  string
	settings DialSettings
	tls      *tls.Config
	h3       http3.ClientOptions
	zap      zap.ClientOptions
	tokens   quic.TokenStore
}

// quicClient keeps a connection alive while a service thinks: what is silent for
// longer than QUIC's idle time is lost. How long an unused one is kept is the
// pool's to say. Servers open no streams but the three of HTTP/3 and such like.
var quicClient = quic.Config{
	KeepAlivePeriod:       10 * time.Second,
	MaxIdleTimeout:        30 * time.Second,
	MaxIncomingStreams:    -1,
	MaxIncomingUniStreams: uniStreams,
}

// tokensKept is how many of an endpoint's address validation tokens are kept: with one
// a new connection needs no Retry (RFC 9000, section 8.1.3).
const tokensKept = 4

func newQUICDialer(address, alpn string, s DialSettings) *quicDialer {
	d := &quicDialer{address: address, settings: s, tls: s.TLS.Offer(address, alpn)}
	d.h3 = http3.ClientOptions{Watch: s.Watch, Limits: s.Limits}
	d.zap.Watch, d.zap.Limits = s.Watch, s.Limits
	d.tokens = quic.NewLRUTokenStore(1, tokensKept)
	return d
}

// Dial implements exchange.Dialer. Errors are *exchange.UpstreamError; one of a
// handshake wraps a *handshake.RefusedError.
func (d *quicDialer) Dial(ctx context.Context) (exchange.ClientConn, error) {
	qc, info, err := d.connect(ctx)
	if err != nil {
		return nil, err
	}
	if info.Facts.ALPN == zap.ALPN {
		info.Protocol = exchange.ZAP
		return newZAPClient(qc, info, &d.zap), nil
	}
	info.Protocol = exchange.HTTP3
	c, err := http3.NewClientConn(qc, info, &d.h3)
	if err != nil {
		return nil, &exchange.UpstreamError{Op: "dial", Err: err}
	}
	return c, nil
}

// connect makes a connection on a socket of its own.
func (d *quicDialer) connect(ctx context.Context) (*quic.Conn, *exchange.Conn, error) {
	quietQUIC()
	cfg := quicClient
	cfg.TokenStore = d.tokens
	if at, ok := ctx.Deadline(); ok {
		cfg.HandshakeIdleTimeout = max(time.Until(at), 0) + time.Second // ctx is to end it, whose error says why
	}
	qc, err := dialQUIC(ctx, d.address, d.tls, &cfg)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, dialError(ctx, err)
		}
		return nil, nil, &exchange.UpstreamError{Op: "handshake", Err: d.settings.TLS.Refuse(alertOf(err))}
	}
	state := qc.ConnectionState().TLS
	info := &exchange.Conn{
		Client: udpAddrPort(qc.RemoteAddr()), Local: udpAddrPort(qc.LocalAddr()), ClientText: d.address,
		Secure: true, Facts: handshake.FactsOf(&state),
	}
	if err := d.identify(ctx, qc, info); err != nil {
		if ctx.Err() != nil {
			return nil, nil, dialError(ctx, err)
		}
		return nil, nil, &exchange.UpstreamError{Op: "handshake", Err: err}
	}
	return qc, info, nil
}

// dialQUIC makes a connection on a socket of its own, which ends with it.
func dialQUIC(ctx context.Context, address string, secure *tls.Config, cfg *quic.Config) (*quic.Conn, error) {
	to, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	from := &net.UDPAddr{IP: net.IPv4zero}
	if to.IP.To4() == nil {
		from.IP = net.IPv6unspecified
	}
	udp, err := net.ListenUDP("udp", from)
	if err != nil {
		return nil, err
	}
	qc, err := quic.Dial(ctx, grouped(udp, dialGroups), to, secure, cfg)
	if err != nil {
		_ = udp.Close()
		return nil, err
	}
	context.AfterFunc(qc.Context(), func() { _ = udp.Close() })
	return qc, nil
}
