package transports

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/http1"
	"github.com/hanzoai/pqgw/transports/http2"
	"github.com/hanzoai/pqgw/transports/http3"
	"github.com/hanzoai/pqgw/transports/stream"
	"github.com/hanzoai/pqgw/transports/zap"
)

// DialSettings are what the connections to one endpoint have in common.
type DialSettings struct {
	// TLS is for the schemes that use it.
	TLS *handshake.Client
	// Watch keeps the deadlines.
	Watch *deadline.Watch
	// Limits on answers' heads.
	Limits exchange.Limits
	// Portable keeps HTTP/1 and ZAP out of read callbacks.
	Portable bool
}

// ErrScheme: no transport speaks the endpoint's scheme.
var ErrScheme = errors.New("no transport for this scheme")

// NewDialer makes the dialer of an endpoint: scheme is one of the
// configuration's, address "host:port" or the path of a unix socket.
func NewDialer(scheme, address string, s DialSettings) (exchange.Dialer, error) {
	d := &dialer{address: address, network: "tcp", settings: s}
	d.h1 = http1.ClientOptions{Watch: s.Watch, Limits: s.Limits}
	d.h2Options = http2.ClientOptions{Limits: s.Limits}
	switch scheme {
	case "http":
	case "unix":
		d.network = "unix"
	case "https":
		d.secure = true
	case "h2c":
		d.h2 = true
	case "zap":
		d.zap = true
	case "zap+unix":
		d.network, d.zap = "unix", true
	case "zap+tls":
		d.secure, d.zap = true, true
	case "h3", "zap+quic":
		if s.TLS == nil {
			return nil, noTLS(scheme, address)
		}
		alpn := http3.ALPN
		if scheme != "h3" {
			alpn = zap.ALPN
		}
		return newQUICDialer(address, alpn, s), nil
	default:
		return nil, fmt.Errorf("%w: %s", ErrScheme, scheme)
	}
	if d.secure && s.TLS == nil {
		return nil, noTLS(scheme, address)
	}
	if d.secure {
		d.tls = s.TLS.Config(address)
	}
	if d.secure && d.zap {
		d.offer(zap.ALPN)
	}
	d.zapOptions.ClientOptions = d.h1
	return d, nil
}

func noTLS(scheme, address string) error {
	return fmt.Errorf("endpoint %s://%s: TLS settings are missing", scheme, address)
}

// offer sets the protocol that is asked for: an upstream's endpoints share the TLS
// settings, not that.
func (d *dialer) offer(alpn string) { d.tls = d.settings.TLS.Offer(d.address, alpn) }

type dialer struct {
	network, address string
	secure, h2, zap  bool
	settings         DialSettings
	tls              *tls.Config // nil in the clear
	h1               http1.ClientOptions
	h2Options        http2.ClientOptions
	zapOptions       zap.ClientOptions
}

// tcp sets no keep-alive of its own per connection but the kernel's: an
// upstream that is silent is the business of the call's timeouts.
var tcp = net.Dialer{KeepAlive: keepAlive}

// Dial implements exchange.Dialer. Errors are *exchange.UpstreamError; one of a
// handshake wraps a *handshake.RefusedError.
func (d *dialer) Dial(ctx context.Context) (exchange.ClientConn, error) {
	s, info, err := d.connect(ctx)
	if err != nil {
		return nil, err
	}
	if d.zap {
		info.Protocol = exchange.ZAP
		return zap.NewClientConn(s, info, &d.zapOptions), nil
	}
	if d.h2 || info.Secure && info.Facts.ALPN == alpnH2 {
		info.Protocol = exchange.HTTP2
		return http2.NewClientConn(newPlainConn(s), info, &d.h2Options), nil
	}
	info.Protocol = exchange.HTTP1
	return http1.NewClientConn(s, info, &d.h1), nil
}

// connect makes the byte stream, its handshake complete.
func (d *dialer) connect(ctx context.Context) (*stream.Stream, *exchange.Conn, error) {
	nc, err := tcp.DialContext(ctx, d.network, d.address)
	if err != nil {
		return nil, nil, dialError(ctx, err)
	}
	info := &exchange.Conn{Client: addrPort(nc.RemoteAddr()), Local: addrPort(nc.LocalAddr()), ClientText: d.address}
	s := &stream.Stream{Sock: stream.NewSocket(nc, d.settings.Portable, nil)}
	if d.secure {
		if err := d.handshake(ctx, s, info); err != nil {
			_ = nc.Close()
			return nil, nil, err
		}
	}
	return s, info, nil
}

func dialError(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", exchange.ErrTimeout, err)
	}
	return &exchange.UpstreamError{Op: "dial", Err: err}
}

func (d *dialer) handshake(ctx context.Context, s *stream.Stream, info *exchange.Conn) error {
	s.TLS = tls.Client(s.Sock, d.tls)
	facts, err := d.settings.TLS.Handshake(ctx, s.TLS, d.address)
	if err != nil {
		if ctx.Err() != nil {
			return dialError(ctx, err)
		}
		return &exchange.UpstreamError{Op: "handshake", Err: err}
	}
	info.Secure, info.Facts = true, facts
	return nil
}
