package remotesign

import (
	"bufio"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/kms"
	"github.com/hanzoai/pqgw/zapcodec"
)

// Limits of a server: edges are few, and each has one connection.
const (
	maxConnections   = 1024
	maxCalls         = 64 // at a time on one connection
	handshakeTimeout = 10 * time.Second
	writeTimeout     = 10 * time.Second
	acceptPause      = 50 * time.Millisecond
	keyRest          = time.Second // in which it is not opened again, whoever asks
	keyLife          = time.Minute // after which a key is opened again, for a new version
)

// ServerSettings are what a server has.
type ServerSettings struct {
	// Keys to sign with.
	Keys kms.Keys
	// Allow says who may use them.
	Allow *Allow
	// Certificates, ClientCAs and Identity are the TLS side: as handshake.Settings has them.
	Certificates []handshake.Source
	ClientCAs    []*x509.Certificate
	Identity     *handshake.Identity
	// Logger gets refusals. Nil discards.
	Logger *slog.Logger
}

// Server signs for peers.
type Server struct {
	keys   kms.Keys
	tls    *handshake.Server
	logger *slog.Logger
	limit  *handshake.Limiter
	allow  atomic.Pointer[Allow]

	mu     sync.Mutex
	open   map[use]*openKey
	conns  map[net.Conn]struct{}
	ln     []net.Listener
	closed bool
	wg     sync.WaitGroup
}

// use is one peer's use of a key; the audit of the store names it.
type use struct{ name, purpose, peer string }

type openKey struct {
	signer      kms.Signer
	fingerprint [32]byte
	at          time.Time
}

// NewServer makes one. Post-quantum key exchange and a certificate of each
// peer are required.
func NewServer(s ServerSettings) (*Server, error) {
	t, err := handshake.NewServer(handshake.Settings{
		Sources: s.Certificates, PQ: handshake.Require, NextProtos: []string{ALPN}, Identity: s.Identity,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: s.ClientCAs,
	})
	if err != nil {
		return nil, err
	}
	srv := &Server{
		keys: s.Keys, tls: t, logger: s.Logger, open: map[use]*openKey{}, conns: map[net.Conn]struct{}{},
		limit: handshake.NewLimiter(handshake.Limits{Total: 128, PerAddress: 32}),
	}
	if srv.logger == nil {
		srv.logger = slog.New(slog.DiscardHandler)
	}
	srv.SetAllow(s.Allow)
	return srv, nil
}

// SetAllow puts another list in force, at once.
func (s *Server) SetAllow(a *Allow) { s.allow.Store(a) }

// Serve takes connections until Close, and then returns nil.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	s.ln = append(s.ln, ln)
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return ln.Close()
	}
	for {
		nc, err := ln.Accept()
		if err != nil {
			if s.isClosed() {
				return nil
			}
			if !short(err) {
				return err
			}
			s.logger.Error("no connection can be taken; it is tried again", "error", err, "pause", acceptPause)
			time.Sleep(acceptPause)
			continue
		}
		if !s.track(nc) {
			_ = nc.Close()
			continue
		}
		s.wg.Go(func() {
			s.serve(nc)
			s.mu.Lock()
			delete(s.conns, nc)
			s.mu.Unlock()
			_ = nc.Close()
		})
	}
}

// short tells of want of something that others will give back: to end all signing for that
// would take every gateway's certificates away.
func short(err error) bool {
	for _, want := range [...]syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *Server) track(nc net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.conns) >= maxConnections {
		return false
	}
	s.conns[nc] = struct{}{}
	return true
}

// Close cuts all connections, waits for their goroutines and closes the keys.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for _, ln := range s.ln {
		_ = ln.Close()
	}
	for nc := range s.conns {
		_ = nc.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, k := range s.open {
		errs = append(errs, k.signer.Close())
	}
	clear(s.open)
	return errors.Join(errs...)
}

// serve shakes hands and answers calls until the connection ends.
func (s *Server) serve(nc net.Conn) {
	conn, peer, err := s.shake(nc)
	if err != nil {
		s.logger.Warn("connection refused", "client", nc.RemoteAddr().String(), "error", err)
		return
	}
	c := &serverConn{s: s, conn: conn, peer: peer}
	defer c.calls.Wait()
	slots := make(chan struct{}, maxCalls)
	r := bufio.NewReader(conn)
	for {
		frame, err := zapcodec.FramingRPC.Read(r, nil, maxFrame)
		if err != nil || frame.Tag != zapcodec.DirectionRequest {
			return
		}
		slots <- struct{}{}
		c.calls.Go(func() {
			c.answer(frame.Bytes)
			<-slots
		})
	}
}

func (s *Server) shake(nc net.Conn) (conn *tls.Conn, peer string, err error) {
	var addr net.TCPAddr
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		addr = *a
	}
	permit, err := s.limit.Acquire(addr.AddrPort().Addr())
	if err != nil {
		return nil, "", err
	}
	defer permit.Release()
	if err := nc.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, "", err
	}
	conn = s.tls.Conn(nc)
	facts, err := s.tls.Handshake(context.Background(), conn)
	if err != nil {
		return nil, "", err
	}
	return conn, facts.PeerName, nc.SetDeadline(time.Time{})
}

// serverConn is one peer's.
type serverConn struct {
	s     *Server
	conn  *tls.Conn
	peer  string
	calls sync.WaitGroup
	mu    sync.Mutex // of writes
}

func (c *serverConn) answer(frame []byte) {
	var call zapcodec.RPCRequest
	if zapcodec.ParseRPCRequest(frame, &call) != nil {
		_ = c.conn.NetConn().Close() // it speaks something else
		return
	}
	status, body := c.run(&call)
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if writeAnswer(c.conn, call.Promise, status, body) != nil {
		_ = c.conn.NetConn().Close()
	}
}

// run gives the status and the body of the answer. The body of one that is not 200
// is a sentence for the peer's log, which tells nothing that it may not know.
func (c *serverConn) run(call *zapcodec.RPCRequest) (status uint32, body []byte) {
	var r request
	if err := parseRequest(call.Payload, &r); err != nil {
		return zapcodec.RPCBadRequest, []byte(err.Error())
	}
	if call.Method == methodPublic {
		r.purpose = ""
	}
	if !c.s.allow.Load().allows(r.name, c.peer, r.purpose) || call.Method == methodSign && r.purpose == "" {
		c.s.logger.Warn("use of a key refused", "key", r.name, "peer", c.peer, "purpose", r.purpose)
		return zapcodec.RPCForbidden, []byte("the list of the signing server does not allow this")
	}
	k, err := c.s.key(use{r.name, r.purpose, c.peer}, &r.fingerprint, call.Method == methodPublic)
	if err != nil {
		c.s.logger.Warn("key cannot be opened", "key", r.name, "peer", c.peer, "error", err)
		return zapcodec.RPCNotFound, []byte("the signing server has no such key")
	}
	switch call.Method {
	case methodPublic:
		body, err = marshalPublic(k.signer.Public())
	case methodSign:
		if k.fingerprint != r.fingerprint {
			return zapcodec.RPCNotFound, []byte("the certificate is for another key than the signing server has")
		}
		if why := r.unfit(k.signer.Public()); why != "" {
			c.s.logger.Warn("use of a key refused", "key", r.name, "peer", c.peer, "purpose", r.purpose, "error", why)
			return zapcodec.RPCForbidden, []byte(why)
		}
		body, err = k.signer.Sign(rand.Reader, r.input, r.options())
	default:
		return zapcodec.RPCBadRequest, []byte("no such method")
	}
	if err != nil {
		c.s.logger.Error("signing failed", "key", r.name, "peer", c.peer, "error", err)
		return zapcodec.RPCError, []byte("the signing server failed; its log says why")
	}
	return zapcodec.RPCOK, body
}

// key opens a key, or gives the one that is open for this use. One that is not
// the one asked for is opened again: there may be a newer version.
func (s *Server) key(u use, fingerprint *[32]byte, fresh bool) (*openKey, error) {
	s.mu.Lock()
	k := s.open[u]
	s.mu.Unlock()
	if k != nil {
		age := time.Since(k.at)
		if age < keyRest || !fresh && k.fingerprint == *fingerprint && age < keyLife {
			return k, nil
		}
	}
	purpose := u.purpose
	if purpose == "" {
		purpose = "public key"
	}
	signer, err := s.keys.Signer(context.Background(), u.name, purpose+" for "+u.peer)
	if err != nil {
		return nil, err
	}
	k = &openKey{signer: signer, at: time.Now()}
	if k.fingerprint, err = Fingerprint(signer.Public()); err != nil {
		return nil, errors.Join(err, signer.Close())
	}
	// The one before is left to the collector: a call may be signing with it. Signers
	// that hold something outside are closed by their own store.
	s.mu.Lock()
	s.open[u] = k
	s.mu.Unlock()
	return k, nil
}

// contexts begin what TLS 1.3 has signed (RFC 8446, section 4.4.3).
var contexts = map[string]string{
	PurposeServer: strings.Repeat(" ", 64) + "TLS 1.3, server CertificateVerify\x00",
	PurposeClient: strings.Repeat(" ", 64) + "TLS 1.3, client CertificateVerify\x00",
}

// unfit says why the input is not what TLS has signed, "" where it can be. Of a
// digest nothing but its length can be told.
func (r *request) unfit(key crypto.PublicKey) string {
	digest := r.hash == crypto.SHA256 || r.hash == crypto.SHA384 || r.hash == crypto.SHA512
	switch key.(type) {
	case *ecdsa.PublicKey:
		if digest && !r.pss && len(r.input) == r.hash.Size() {
			return ""
		}
	case *rsa.PublicKey:
		if digest && r.pss && len(r.input) == r.hash.Size() {
			return ""
		}
	default: // Ed25519 and ML-DSA sign the message itself
		if r.hash == 0 && strings.HasPrefix(string(r.input), contexts[r.purpose]) {
			return ""
		}
	}
	return "this is not what TLS signs with such a key"
}
