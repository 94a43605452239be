package zap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/stream"
)

// Defaults of a Client.
const (
	defaultConnectTime = 10 * time.Second
	defaultIdleConns   = 64
	idleConnTime       = 90 * time.Second // less than servers' idle timeouts
	customaryPort      = "9999"
)

// Client calls services that speak HTTP over ZAP: with the shape of fasthttp's
// client by Do, and as the http.RoundTripper of an http.Client. The schemes of
// its URLs are zap and zap+tls; http and https mean the same, for programs that have
// their URLs already. The port is 9999 where none is given.
//
// The zero value is ready. It is safe for concurrent use; its fields must not
// be changed once it is in use, and Close ends it.
type Client struct {
	// TLS is for zap+tls; nil is Go's defaults, which offer a post-quantum group.
	TLS *tls.Config
	// Dial connects, where it is set; for unix sockets and the like.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// ConnectTimeout bounds connecting and the handshake; 0 means 10 seconds.
	ConnectTimeout time.Duration
	// Timeouts of each call; zero fields mean none.
	Timeouts exchange.Timeouts
	// IdleConns is how many connections are kept for later to each endpoint; 0 means
	// 64, negative none.
	IdleConns int
	// Limits on answers' heads; zero fields mean 64 KiB and 256 fields.
	Limits exchange.Limits
	// MessageBytes is the most bytes of one message; 0 is DefaultMessageBytes.
	MessageBytes int

	mu        sync.Mutex
	endpoints map[string]*endpoint
	watch     *deadline.Watch
	live      sync.WaitGroup
	closed    bool
}

// ErrClientClosed is the error of a call after Close.
var ErrClientClosed = errors.New("zap: client closed")

// endpoint is where connections go to.
type endpoint struct {
	address string
	tls     *tls.Config // nil in the clear
	options ClientOptions

	mu   sync.Mutex
	idle []*lease
}

// lease is a connection, and the call that it is used for.
type lease struct {
	*ClientConn
	at     *endpoint
	client *Client
	since  time.Time // idle since
	fresh  bool      // never used before
	body   exchange.Source
	sent   chan error // what became of a body that is sent beside; nil for none
	stop   func() bool
}

// endpointOf finds the endpoint of a scheme and a host; key is both.
func (c *Client) endpointOf(key []byte) (*endpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClientClosed
	}
	if e := c.endpoints[string(key)]; e != nil {
		return e, nil
	}
	e, err := c.newEndpoint(string(key))
	if err != nil {
		return nil, err
	}
	if c.endpoints == nil {
		c.endpoints = map[string]*endpoint{}
	}
	c.endpoints[string(key)] = e
	return e, nil
}

func (c *Client) newEndpoint(key string) (*endpoint, error) {
	scheme, host, _ := strings.Cut(key, "://")
	if host == "" {
		return nil, fmt.Errorf("zap: the URL names no host: %q", key)
	}
	name, _, err := net.SplitHostPort(host)
	address := host
	if err != nil {
		name = strings.Trim(host, "[]")
		address = net.JoinHostPort(name, customaryPort)
	}
	if c.watch == nil {
		c.watch = deadline.New()
	}
	e := &endpoint{address: address}
	e.options.Watch, e.options.Limits, e.options.MessageBytes = c.watch, c.Limits, c.MessageBytes
	e.options.Limits.HeadBytes = orDefault(e.options.Limits.HeadBytes, defaultHeadBytes)
	e.options.Limits.Fields = orDefault(e.options.Limits.Fields, defaultFields)
	switch scheme {
	case "zap", "http":
	case "zap+tls", "https":
		e.tls = c.tlsFor(name)
	default:
		return nil, fmt.Errorf("zap: scheme %q is none of zap, zap+tls", scheme)
	}
	return e, nil
}

// sessionsKept is how many sessions an endpoint remembers for resumption.
const sessionsKept = 8

func (c *Client) tlsFor(name string) *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS13}
	if c.TLS != nil {
		cfg = c.TLS.Clone()
	}
	cfg.NextProtos = []string{ALPN}
	if cfg.ServerName == "" {
		cfg.ServerName = name
	}
	if cfg.ClientSessionCache == nil {
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(sessionsKept)
	}
	return cfg
}

// acquire gives a connection that has lain idle, or a new one.
func (e *endpoint) acquire(ctx context.Context, c *Client, fresh bool) (*lease, error) {
	for !fresh {
		e.mu.Lock()
		n := len(e.idle)
		if n == 0 {
			e.mu.Unlock()
			break
		}
		l := e.idle[n-1]
		e.idle[n-1] = nil
		e.idle = e.idle[:n-1]
		e.mu.Unlock()
		if l.Usable() {
			return l, nil
		}
		l.drop()
	}
	return e.dial(ctx, c)
}

func (e *endpoint) dial(ctx context.Context, c *Client) (*lease, error) {
	ctx, stop := context.WithTimeout(ctx, orDefault(c.ConnectTimeout, defaultConnectTime))
	defer stop()
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	nc, err := dial(ctx, "tcp", e.address)
	if err != nil {
		return nil, &exchange.UpstreamError{Op: "dial", Err: err}
	}
	s := &stream.Stream{Sock: stream.NewSocket(nc, false, nil)}
	info := &exchange.Conn{Protocol: exchange.ZAP, ClientText: e.address}
	if e.tls != nil {
		s.TLS = tls.Client(s.Sock, e.tls)
		if err := s.TLS.HandshakeContext(ctx); err != nil {
			_ = nc.Close()
			return nil, &exchange.UpstreamError{Op: "handshake", Err: err}
		}
		cs := s.TLS.ConnectionState()
		info.Secure, info.Facts = true, handshake.FactsOf(&cs)
	}
	l := &lease{ClientConn: NewClientConn(s, info, &e.options), at: e, client: c, fresh: true}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		l.ClientConn.Close()
		return nil, ErrClientClosed
	}
	c.live.Add(1)
	return l, nil
}

// drop ends the connection.
func (l *lease) drop() {
	l.ClientConn.Close()
	l.client.live.Done()
}

// keep puts the connection back for later, or ends it. Those that have lain idle
// for long are ended with it.
func (l *lease) keep() {
	e, most := l.at, orDefault(l.client.IdleConns, defaultIdleConns)
	l.fresh, l.since = false, time.Now()
	var old *lease
	e.mu.Lock()
	kept := len(e.idle) < most
	if kept {
		e.idle = append(e.idle, l)
		if first := e.idle[0]; l.since.Sub(first.since) > idleConnTime {
			old = first
			e.idle = append(e.idle[:0], e.idle[1:]...)
		}
	}
	e.mu.Unlock()
	if old != nil {
		old.drop()
	}
	if !kept {
		l.drop()
	}
}

// carry begins an exchange: the final head has come when it returns nil. src must be whole
// to be sent again on another connection, where one that had lain idle turns out to be
// closed.
func (e *endpoint) carry(ctx context.Context, c *Client, x *exchange.Exchange, src exchange.Source, t exchange.Timeouts) (*lease, error) {
	whole := src == nil
	if !whole {
		_, whole = src.Whole()
	}
	for fresh := false; ; fresh = true {
		l, err := e.acquire(ctx, c, fresh)
		if err != nil {
			return nil, err
		}
		if err = l.begin(ctx, x, src, whole, t); err == nil {
			return l, nil
		}
		again := !l.fresh && whole && mayRepeat(x, err) && ctx.Err() == nil
		l.end(err)
		if !again {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, err
		}
	}
}

// mayRepeat tells whether a request that failed on a connection that had lain idle may
// be sent again (RFC 9110, section 9.2.2).
func mayRepeat(x *exchange.Exchange, err error) bool {
	var up *exchange.UpstreamError
	if !errors.As(err, &up) || up.Answered || errors.Is(err, exchange.ErrTimeout) {
		return errors.Is(err, exchange.ErrNotSent)
	}
	return x.Request.Method.Idempotent() || errors.Is(err, exchange.ErrNotSent)
}

func (l *lease) begin(ctx context.Context, x *exchange.Exchange, src exchange.Source, whole bool, t exchange.Timeouts) error {
	l.sent, l.stop, l.body = nil, nil, src
	if ctx.Done() != nil {
		l.stop = context.AfterFunc(ctx, func() { l.Canceller().Cancel(context.Cause(ctx)) })
	}
	if err := l.Send(x, src, t); err != nil {
		return err
	}
	if !whole {
		l.sent = make(chan error, 1)
		go l.upload(src)
	}
	for {
		if err := l.ReadHead(&x.Response); err != nil {
			return err
		}
		if x.Response.Status >= 200 {
			return nil
		}
	}
}

// upload sends a body beside the wait for the answer; end waits for it.
func (l *lease) upload(src exchange.Source) {
	err := l.SendBody(src)
	var up *exchange.UpstreamError
	var refusal *exchange.Refusal
	if err != nil && !errors.As(err, &up) && !errors.As(err, &refusal) {
		l.Canceller().Cancel(err) // the caller's reader failed
	}
	src.Close(err)
	l.sent <- err
}

// end ends the exchange, err being why it is not complete, and keeps the
// connection if it may be used again.
func (l *lease) end(err error) {
	ok := err == nil
	if l.sent != nil {
		select {
		case e := <-l.sent:
			ok = ok && e == nil
		default:
			// Answered early, or failed: nobody wants the rest.
			ok = false
			l.Canceller().Cancel(serial.ErrGivenUp)
			l.body.Close(serial.ErrGivenUp)
			<-l.sent
		}
	}
	if l.stop != nil && !l.stop() {
		ok = false
	}
	l.sent, l.stop, l.body = nil, nil, nil
	if ok = l.Finish() && ok; ok {
		l.keep()
		return
	}
	l.drop()
}

// CloseIdleConnections ends the connections that no call uses.
func (c *Client) CloseIdleConnections() {
	c.mu.Lock()
	all := make([]*endpoint, 0, len(c.endpoints))
	for _, e := range c.endpoints {
		all = append(all, e)
	}
	c.mu.Unlock()
	for _, e := range all {
		e.mu.Lock()
		idle := e.idle
		e.idle = nil
		e.mu.Unlock()
		for _, l := range idle {
			l.drop()
		}
	}
}

// Close ends the client: no call begins any more. It waits for those under way.
func (c *Client) Close() {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if !first {
		return
	}
	c.CloseIdleConnections()
	c.live.Wait()
	if c.watch != nil {
		c.watch.Close()
	}
}
