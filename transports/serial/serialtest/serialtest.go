// Package serialtest drives in tests the two sides of a protocol that carries one
// exchange at a time: over real sockets, in each of the ways that a stream can be
// driven.
package serialtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/stream"
)

// Mode is one way to drive the same two sides.
type Mode struct {
	Name string
	// Portable keeps out of read callbacks, as on platforms that have none.
	Portable bool
	TLS      bool
}

// Modes are all of them, those in the clear first.
var Modes = []Mode{
	{"callback in the clear", false, false},
	{"portable in the clear", true, false},
	{"callback over TLS", false, true},
	{"portable over TLS", true, true},
}

// EachMode runs a test in each mode, side by side.
func EachMode(t *testing.T, f func(t *testing.T, m Mode)) {
	t.Helper()
	for _, m := range Modes {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			f(t, m)
		})
	}
}

// Config is the TLS configuration of a server with a certificate of its own making.
func Config(alpn ...string) *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"a"}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: alpn}
}

// Options are the usual ones of a server.
func Options(w *deadline.Watch, h exchange.Handler) serial.Options {
	return serial.Options{
		Handler: h, Watch: w, Limits: exchange.Limits{HeadBytes: 32 << 10, Fields: 128, BodyBytes: 1 << 30},
		HeadTimeout: 10 * time.Second, IdleTimeout: time.Minute, StreamIdle: time.Minute,
	}
}

// Conn is the server's side of one connection.
type Conn interface {
	Serve() error
	Shutdown()
	Close()
}

// Server is a listener whose connections run the loop under test.
type Server struct {
	t    testing.TB
	ln   net.Listener
	mode Mode
	cfg  *tls.Config
	make func(s *stream.Stream, info *exchange.Conn) Conn
	wg   sync.WaitGroup
	mu   sync.Mutex
	live map[Conn]bool
}

// Start serves, until the test ends, with the connections that conn makes.
func Start(t testing.TB, m Mode, conn func(s *stream.Stream, info *exchange.Conn) Conn, alpn ...string) *Server {
	t.Helper()
	s := &Server{t: t, ln: listen(t), mode: m, make: conn, live: map[Conn]bool{}}
	if m.TLS {
		s.cfg = Config(alpn...)
	}
	s.wg.Go(s.accept)
	t.Cleanup(func() {
		_ = s.ln.Close()
		s.each(Conn.Close)
		s.wg.Wait()
	})
	return s
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func (s *Server) accept() {
	for {
		nc, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() { s.serve(nc) })
	}
}

func (s *Server) serve(nc net.Conn) {
	st := &stream.Stream{Sock: stream.NewSocket(nc, s.mode.Portable, nil)}
	info := &exchange.Conn{ClientText: "127.0.0.1"}
	if s.mode.TLS {
		st.TLS = tls.Server(st.Sock, s.cfg)
		if st.TLS.Handshake() != nil {
			_ = nc.Close()
			return
		}
		info.Facts.ALPN = st.TLS.ConnectionState().NegotiatedProtocol
	}
	c := s.make(st, info)
	s.mu.Lock()
	s.live[c] = true
	s.mu.Unlock()
	_ = c.Serve()
	s.mu.Lock()
	delete(s.live, c)
	s.mu.Unlock()
}

func (s *Server) each(f func(Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.live {
		f(c)
	}
}

// Shutdown lets every connection there is end in good order.
func (s *Server) Shutdown() { s.each(Conn.Shutdown) }

// Len is how many connections there are.
func (s *Server) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// Address is where it listens.
func (s *Server) Address() string { return s.ln.Addr().String() }

// Mode is the way it is driven.
func (s *Server) Mode() Mode { return s.mode }

// Dial connects as a stranger does: on TLS without ALPN.
func (s *Server) Dial() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.Address())
	if err != nil {
		s.t.Fatal(err)
	}
	if s.mode.TLS {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test's own server
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}
