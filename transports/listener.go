// Package transports turns sockets into exchanges and back: listeners that
// accept, shake hands and hand each connection to the protocol that was agreed
// on, and dialers towards upstreams. One subpackage speaks each protocol.
package transports

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/telemetry"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/http1"
	"github.com/hanzoai/pqgw/transports/http2"
	"github.com/hanzoai/pqgw/transports/http3"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/zap"
	"github.com/hanzoai/pqgw/transports/zaprpc"
)

// Protocols by the names of configuration.
const (
	H1  = "h1"
	H2  = "h2"
	H2C = "h2c"
	ZAP = "zap"
	H3  = "h3"

	ZAPRPC = "zap-rpc"
)

// ALPN gives the protocol ids to offer for protocols of a TLS listener, first
// choice first (RFC 7301).
func ALPN(protocols []string) []string {
	var ids []string
	for _, p := range [...]struct{ name, id string }{{H2, alpnH2}, {H1, alpnH1}, {ZAP, zap.ALPN}, {ZAPRPC, zaprpc.ALPN}} {
		for _, have := range protocols {
			if have == p.name {
				ids = append(ids, p.id)
			}
		}
	}
	return ids
}

const (
	alpnH2 = "h2"
	alpnH1 = "http/1.1"
)

// Settings are what a listener does with connections. They are replaced as a
// whole; a connection keeps those that it was accepted under.
type Settings struct {
	// Protocols that are spoken: H1, H2, H3, ZAP, ZAPRPC with TLS; H1, H2C without,
	// or ZAP or ZAPRPC alone.
	Protocols []string
	// TLS is nil in the clear.
	TLS *handshake.Server
	// Handler serves the exchanges.
	Handler exchange.Handler
	// RPC routes the calls of ZAPRPC.
	RPC exchange.RPCRouter
	// RPCCalls is the most calls in flight on one connection, RPCFrameBytes the most
	// bytes of one frame; 0 for the defaults of package zaprpc.
	RPCCalls, RPCFrameBytes int
	// Portable keeps HTTP/1 and ZAP out of read callbacks.
	Portable bool
	// ProxyFrom are the networks whose connections begin with a PROXY header.
	ProxyFrom []netip.Prefix
	// Trusted are the networks whose forwarding fields are believed.
	Trusted []netip.Prefix
	// Limits on requests.
	Limits exchange.Limits
	// Connections is the most at a time; 0 for any number.
	Connections int
	// Handshakes limits those under way; nil does not.
	Handshakes *handshake.Limiter
	// Timeouts of connections, see serial.Options.
	HandshakeTimeout, HeadTimeout, IdleTimeout, StreamIdle time.Duration
	// BodyMinRate in bytes per second.
	BodyMinRate int64
	// MaxRequests on one connection; 0 for any number.
	MaxRequests int
	// Streams is the most at a time on one HTTP/2 or HTTP/3 connection.
	Streams int
	// QUIC is for the protocols that run over it; nil where there are none.
	QUIC *QUICSettings
}

// Listener accepts connections on one address. It is made by Listen and ended by
// Drain or Close.
type Listener struct {
	name    string
	address string
	ln      net.Listener // nil where all is QUIC
	early   *EarlyGuard
	quic    atomic.Pointer[quicSide] // nil where nothing is
	watch   *deadline.Watch
	series  *telemetry.ListenerSeries
	log     atomic.Pointer[telemetry.AccessLog]
	logger  *slog.Logger
	inForce atomic.Pointer[inForce]

	mu       sync.Mutex
	conns    map[conn]struct{}
	draining bool
	serving  bool
	wg       sync.WaitGroup // the accept loop and all connections
	idle     chan accepted  // to workers that wait for a handshake
}

// inForce is a set of settings with what is derived from them.
type inForce struct {
	Settings
	h1                http1.Options
	h2                http2.Options
	zap               zap.Options
	h3                http3.Options
	quic              *quic.Config // nil without QUIC, as is quicTLS
	quicTLS           *tls.Config
	speaks1, speaks2c bool
	speaks3           bool
	speaksZAP         bool
	rpc               zaprpc.Options
	speaksRPC         bool
}

// conn is a connection of any protocol, as drain sees it.
type conn interface {
	// Shutdown lets what runs end and takes nothing new.
	Shutdown()
	// Close cuts.
	Close()
}

// Environment is what all listeners of a process share.
type Environment struct {
	Watch   *deadline.Watch
	Metrics *telemetry.Metrics
	Log     *telemetry.AccessLog // nil is off
	Logger  *slog.Logger
	// Early guards early data; nil stands for one of the listener's own.
	Early *EarlyGuard
	// From is a listener on the same address that the new one follows: its TCP socket is
	// taken over instead of bound again. Nil for none.
	From *Listener
}

// BindError tells that an address cannot be listened on.
type BindError struct {
	Listener, Address string
	Err               error
}

func (e *BindError) Error() string {
	hint := ""
	switch {
	case errors.Is(e.Err, os.ErrPermission):
		hint = "; ports below 1024 need root or CAP_NET_BIND_SERVICE"
	case strings.Contains(e.Err.Error(), "in use"):
		hint = "; another process has it, or another listener of this one"
	}
	return fmt.Sprintf("listener %s: cannot listen on %s: %v%s", e.Listener, e.Address, e.Err, hint)
}

// Unwrap gives the system's error.
func (e *BindError) Unwrap() error { return e.Err }

// Listen binds address: "host:port" or "unix:/path"; for QUIC the UDP port of the
// same number. The error is a *BindError. Connections wait until Serve.
func Listen(name, address string, s Settings, env Environment) (*Listener, error) {
	l := &Listener{
		name: name, address: address, watch: env.Watch, logger: env.Logger, early: env.Early,
		series: env.Metrics.Listeners.Series(name),
		conns:  map[conn]struct{}{}, idle: make(chan accepted),
	}
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	if l.early == nil {
		l.early = NewEarlyGuard()
	}
	if overTCP(s.Protocols) {
		l.ln = inherit(env.From)
	}
	if err := l.bind(&s); err != nil {
		return nil, &BindError{Listener: name, Address: address, Err: err}
	}
	l.log.Store(env.Log)
	l.Update(s)
	return l, nil
}

// portTries is how often another port is tried where the system chose one for TCP that
// is taken for UDP.
const portTries = 8

func (l *Listener) bind(s *Settings) error {
	for try := 1; ; try++ {
		err := l.bindBoth(s)
		if err == nil || try == portTries || !isAny(l.address) {
			return err
		}
	}
}

func (l *Listener) bindBoth(s *Settings) (err error) {
	if overTCP(s.Protocols) && l.ln == nil {
		if l.ln, err = bind(l.address); err != nil {
			return err
		}
	}
	if s.QUIC == nil {
		return nil
	}
	q, err := l.bindQUIC(udpOf(l.address, l.ln))
	if err != nil {
		if l.ln != nil {
			_ = l.ln.Close()
			l.ln = nil
		}
		return err
	}
	l.quic.Store(q)
	return nil
}

// overTCP tells whether one of the protocols runs over TCP or a unix socket.
func overTCP(protocols []string) bool {
	for _, p := range protocols {
		if p != H3 {
			return true
		}
	}
	return len(protocols) == 0
}

// Addr is the address that was bound, of TCP where there is both.
func (l *Listener) Addr() net.Addr {
	if l.ln == nil {
		return l.UDPAddr()
	}
	return l.ln.Addr()
}

// Update puts other settings in force for connections to come. A UDP socket that
// they do not need stays bound and refuses.
func (l *Listener) Update(s Settings) {
	f := &inForce{Settings: s}
	for _, p := range s.Protocols {
		f.speaks1 = f.speaks1 || p == H1
		f.speaks3 = f.speaks3 || p == H3
		f.speaks2c = f.speaks2c || p == H2C
		f.speaksZAP = f.speaksZAP || p == ZAP
		f.speaksRPC = f.speaksRPC || p == ZAPRPC && s.RPC != nil
	}
	shared := serial.Options{
		Handler: s.Handler, Watch: l.watch, Limits: s.Limits, HeadTimeout: s.HeadTimeout, IdleTimeout: s.IdleTimeout,
		StreamIdle: s.StreamIdle, WriteTimeout: writeTimeout, BodyMinRate: s.BodyMinRate, MaxRequests: s.MaxRequests,
	}
	f.h1 = http1.Options{Options: shared, H2C: f.speaks2c && s.TLS == nil}
	f.zap = zap.Options{Options: shared}
	f.h2 = http2Options(&s)
	f.rpc = zaprpc.Options{
		Router: s.RPC, Watch: l.watch, Calls: s.RPCCalls, FrameBytes: s.RPCFrameBytes, IdleTimeout: s.IdleTimeout, StreamIdle: s.StreamIdle,
		WriteTimeout: writeTimeout,
	}
	if s.QUIC != nil {
		f.h3, f.quic = http3Options(&s, l), quicConfig(&s)
		f.quicTLS = s.QUIC.TLS.Config().Clone()
		f.quicTLS.GetConfigForClient = nil // it has been asked by then
		if s.QUIC.EarlyData {
			l.early.guard(f.quicTLS, s.QUIC.TLS.Config())
		}
	}
	l.inForce.Store(f)
	l.mu.Lock()
	started := l.serving
	l.mu.Unlock()
	if started {
		l.serveQUIC()
	}
}

// SetAccessLog puts another log in place; nil is off.
func (l *Listener) SetAccessLog(a *telemetry.AccessLog) { l.log.Store(a) }

// Serve accepts connections in goroutines of the listener's own.
func (l *Listener) Serve() {
	l.mu.Lock()
	l.serving = true
	l.mu.Unlock()
	if l.ln != nil {
		l.wg.Go(l.accept)
	}
	l.serveQUIC()
}

// stop accepts no more.
func (l *Listener) stop() {
	if l.ln != nil {
		_ = l.ln.Close()
	}
	if q := l.quic.Load(); q != nil {
		q.stop()
	}
}

// track remembers c until it ends; false when the listener has been closed.
func (l *Listener) track(c conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		return false
	}
	l.conns[c] = struct{}{}
	if l.draining {
		c.Shutdown()
	}
	return true
}

func (l *Listener) untrack(c conn) {
	l.mu.Lock()
	delete(l.conns, c)
	l.mu.Unlock()
}

// Drain stops accepting, lets what runs end, and cuts what is left when ctx ends.
// The error is ctx's where it had to cut.
func (l *Listener) Drain(ctx context.Context) error {
	l.stop()
	l.mu.Lock()
	l.draining = true
	for c := range l.conns {
		c.Shutdown()
	}
	l.mu.Unlock()
	done := make(chan struct{})
	go func() {
		l.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		l.closeQUIC()
		return nil
	case <-ctx.Done():
		l.Close()
		<-done
		return context.Cause(ctx)
	}
}

// Close stops accepting and cuts every connection. It waits for them to end.
func (l *Listener) Close() {
	l.stop()
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	for c := range conns {
		c.Close()
	}
	if q := l.quic.Load(); q != nil {
		q.cut() // those that shake hands are not among conns
	}
	l.wg.Wait()
	l.closeQUIC()
}
