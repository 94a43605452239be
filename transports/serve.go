package transports

import (
	"errors"
	"net"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/http1"
	"github.com/hanzoai/pqgw/transports/stream"
	"github.com/hanzoai/pqgw/transports/zap"
	"github.com/hanzoai/pqgw/transports/zaprpc"
)

// serve hands an open connection to its protocol.
func (l *Listener) serve(s *stream.Stream, info *exchange.Conn, f *inForce) {
	defer l.series.Closed()
	switch {
	case info.Secure && info.Facts.ALPN == alpnH2:
		l.serveHTTP2(s, nil, info, f)
	case info.Secure && info.Facts.ALPN == zap.ALPN:
		l.serveZAP(s, info, f)
	case info.Secure && info.Facts.ALPN == zaprpc.ALPN && f.speaksRPC:
		l.serveRPC(s, info, f)
	case f.speaks1 && (!info.Secure || info.Facts.ALPN == alpnH1 || info.Facts.ALPN == ""):
		l.serveHTTP1(s, info, f)
	case !info.Secure && f.speaks2c:
		l.serveHTTP2(s, nil, info, f)
	case f.speaksZAP && info.Facts.ALPN == "":
		l.serveZAP(s, info, f) // public peers agree on no ALPN
	case f.speaksRPC && info.Facts.ALPN == "":
		l.serveRPC(s, info, f) // neither do these
	default:
		l.series.Refused("no_shared_protocol")
		_ = s.Close()
	}
}

func (l *Listener) serveHTTP1(s *stream.Stream, info *exchange.Conn, f *inForce) {
	info.Protocol = exchange.HTTP1
	c := http1.NewConn(s, info, s.Sock.FD(), &f.h1)
	if !l.track(c) {
		_ = s.Close()
		return
	}
	err := c.Serve()
	l.untrack(c)
	if errors.Is(err, http1.ErrPreface) {
		l.serveHTTP2(s, c.Pending(), info, f)
		return
	}
	l.ended(err, info)
}

func (l *Listener) serveZAP(s *stream.Stream, info *exchange.Conn, f *inForce) {
	info.Protocol = exchange.ZAP
	c := zap.NewConn(s, info, s.Sock.FD(), &f.zap)
	if !l.track(c) {
		_ = s.Close()
		return
	}
	err := c.Serve()
	l.untrack(c)
	l.ended(err, info)
}

func (l *Listener) serveRPC(s *stream.Stream, info *exchange.Conn, f *inForce) {
	info.Protocol = exchange.ZAP
	c := zaprpc.NewConn(s, info, &f.rpc)
	if !l.track(c) {
		_ = s.Close()
		return
	}
	_ = c.Serve()
	l.untrack(c)
}

// plainConn is the connection under HTTP/2: the stream's plaintext with the
// socket's deadlines and corking.
type plainConn struct {
	net.Conn // the socket, or TLS over it
	sock     *stream.Socket
}

func (p *plainConn) Cork()         { p.sock.Cork() }
func (p *plainConn) Uncork() error { return p.sock.Uncork() }
func newPlainConn(s *stream.Stream) *plainConn {
	if s.TLS != nil {
		return &plainConn{Conn: s.TLS, sock: s.Sock}
	}
	return &plainConn{Conn: s.Sock, sock: s.Sock}
}
