package zap

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/stream"
)

// Defaults of a Server.
const (
	defaultHeadBytes = 64 << 10
	defaultFields    = 256
	defaultBodyBytes = 64 << 20
	defaultHeadTime  = 10 * time.Second
	defaultIdleTime  = 2 * time.Minute
	defaultStreamIdl = 5 * time.Minute
	handshakeTime    = 10 * time.Second
)

// ErrServerClosed is what Serve returns after Shutdown or Close.
var ErrServerClosed = errors.New("zap: server closed")

// Server serves HTTP over ZAP to a handler in this process. Only Handler must be
// set; the fields must not be changed once it serves.
type Server struct {
	// Handler answers; FastHTTP and HTTP make one of the handlers of those
	// libraries.
	Handler exchange.Handler
	// TLS, where set, is what connections begin with; ALPN zap-http/1 is offered, and
	// a client that sends no ALPN is served. TLS 1.3 with a post-quantum group is
	// what Go offers unless the configuration narrows it.
	TLS *tls.Config
	// Limits on requests; zero fields mean 64 KiB of head, 256 fields, 64 MiB of body.
	Limits exchange.Limits
	// MessageBytes is the most bytes of one message; 0 is DefaultMessageBytes.
	MessageBytes int
	// HeadTimeout, IdleTimeout and StreamIdle are those of Options; 0 means 10
	// seconds, 2 minutes and 5 minutes.
	HeadTimeout, IdleTimeout, StreamIdle time.Duration
	// Connections is the most at a time; 0 for any number.
	Connections int

	mu        sync.Mutex
	opts      *Options // nil until it serves
	tls       *tls.Config
	listeners map[net.Listener]struct{}
	conns     map[ending]struct{}
	closed    bool
	draining  bool
	wg        sync.WaitGroup
}

// ending is a connection as Shutdown and Close see it.
type ending interface {
	Shutdown()
	Close()
}

// ListenAndServe listens on a TCP address and serves.
func (s *Server) ListenAndServe(address string) error {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return s.Serve(ln)
}

// Serve accepts connections until Shutdown or Close; then it returns
// ErrServerClosed. It closes ln.
func (s *Server) Serve(ln net.Listener) error {
	if !s.begin(ln) {
		_ = ln.Close()
		return ErrServerClosed
	}
	defer func() {
		_ = ln.Close()
		s.mu.Lock()
		delete(s.listeners, ln)
		s.mu.Unlock()
	}()
	for {
		nc, err := ln.Accept()
		if err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.draining {
				return ErrServerClosed
			}
			return err
		}
		s.take(nc)
	}
}

// begin registers a listener, and makes what all connections share.
func (s *Server) begin(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	if s.opts == nil {
		s.listeners, s.conns = map[net.Listener]struct{}{}, map[ending]struct{}{}
		s.opts = s.options()
		if s.TLS != nil {
			s.tls = s.TLS.Clone()
			s.tls.NextProtos = []string{ALPN}
		}
	}
	s.listeners[ln] = struct{}{}
	return true
}

func (s *Server) options() *Options {
	o := &Options{MessageBytes: s.MessageBytes, Options: serial.Options{
		Handler: s.Handler, Watch: deadline.New(), Limits: s.Limits,
		HeadTimeout: orDefault(s.HeadTimeout, defaultHeadTime), IdleTimeout: orDefault(s.IdleTimeout, defaultIdleTime),
		StreamIdle: orDefault(s.StreamIdle, defaultStreamIdl),
	}}
	o.Limits.HeadBytes = orDefault(o.Limits.HeadBytes, defaultHeadBytes)
	o.Limits.Fields = orDefault(o.Limits.Fields, defaultFields)
	o.Limits.BodyBytes = orDefault(o.Limits.BodyBytes, defaultBodyBytes)
	return o
}

func orDefault[T int | int64 | time.Duration](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}

// take serves a connection in a goroutine of its own, which ends with it.
func (s *Server) take(nc net.Conn) {
	o := &opening{nc}
	s.mu.Lock()
	ok := !s.draining && (s.Connections == 0 || len(s.conns) < s.Connections)
	if ok {
		s.conns[o] = struct{}{}
		s.wg.Add(1)
	}
	s.mu.Unlock()
	if !ok {
		_ = nc.Close()
		return
	}
	go func() {
		defer s.wg.Done()
		s.serve(nc, o)
	}()
}

// opening is a connection that shakes hands.
type opening struct{ nc net.Conn }

func (o *opening) Shutdown() { _ = o.nc.Close() }
func (o *opening) Close()    { _ = o.nc.Close() }

func (s *Server) serve(nc net.Conn, o *opening) {
	st := &stream.Stream{Sock: stream.NewSocket(nc, false, nil)}
	info := &exchange.Conn{Protocol: exchange.ZAP, Client: addrPort(nc.RemoteAddr()), Local: addrPort(nc.LocalAddr()), ClientText: "unix"}
	if info.Client.IsValid() {
		info.ClientText = info.Client.Addr().String()
	}
	if s.tls != nil {
		st.TLS = tls.Server(st.Sock, s.tls)
		ctx, stop := context.WithTimeout(context.Background(), handshakeTime)
		err := st.TLS.HandshakeContext(ctx)
		stop()
		if err != nil {
			_ = nc.Close()
			s.swap(o, nil)
			return
		}
		cs := st.TLS.ConnectionState()
		info.Secure, info.Facts = true, handshake.FactsOf(&cs)
	}
	c := NewConn(st, info, st.Sock.FD(), s.opts)
	if !s.swap(o, c) {
		_ = nc.Close()
		return
	}
	_ = c.Serve() // how a connection ends is its client's matter
	s.swap(c, nil)
}

// swap puts another state of a connection in the place of one; false when the
// server has been closed.
func (s *Server) swap(old, c ending) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, old)
	if s.closed {
		return false
	}
	if c != nil {
		s.conns[c] = struct{}{}
		if s.draining {
			c.Shutdown()
		}
	}
	return true
}

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// Shutdown stops accepting and lets what runs end, until ctx does; then it cuts
// and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop(ending.Shutdown)
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.Close()
	<-done
	return err
}

// Close cuts every connection and waits for the handlers to return.
func (s *Server) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	s.stop(ending.Close)
	s.wg.Wait()
	if first && s.opts != nil {
		s.opts.Watch.Close()
	}
}

func (s *Server) stop(end func(ending)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for ln := range s.listeners {
		_ = ln.Close()
	}
	for c := range s.conns {
		end(c)
	}
}
