package http2

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

// ClientOptions are what all connections to an endpoint share.
type ClientOptions struct {
	// Limits on answers' heads and trailers; BodyBytes is not heeded.
	Limits exchange.Limits
	// MaxStreams is the most calls at a time on a connection, where the upstream
	// allows as many; 0 stands for DefaultMaxStreams.
	MaxStreams int
	// StreamWindow and ConnWindow are how many bytes of answers one stream and all
	// together may send ahead of their readers; 0 stands for DefaultClientStreamWindow and
	// DefaultClientConnWindow.
	StreamWindow, ConnWindow int
	// PingAfter is for how long nothing may come while calls are under way before
	// the upstream is asked whether it is still there; 0 stands for DefaultPingAfter.
	PingAfter time.Duration
	// PingTimeout is how long it may take to answer; 0 stands for DefaultPingTimeout.
	PingTimeout time.Duration
	// WriteTimeout ends a connection that the upstream does not read from; 0
	// stands for DefaultWriteTimeout.
	WriteTimeout time.Duration
}

// Defaults of ClientOptions.
const (
	DefaultClientStreamWindow = 1 << 20
	DefaultClientConnWindow   = 8 << 20
	DefaultPingAfter          = 15 * time.Second
	DefaultPingTimeout        = 15 * time.Second
	DefaultWriteTimeout       = time.Minute
)

const (
	// assumedStreams is how many calls a connection carries before the upstream's
	// SETTINGS have told.
	assumedStreams = 100
	// quietPings is how long after a PING the next follows while nothing but its
	// answer came: gRPC servers end connections for more than one in five minutes.
	quietPings = 5*time.Minute + 5*time.Second
	// maxClientResets: upstreams may reset what they like.
	maxClientResets = 1 << 30
)

// Dialer is an exchange.Dialer for endpoints that speak HTTP/2 alone: h2c with
// prior knowledge, or TLS whose ALPN offers nothing else.
type Dialer struct {
	// Connect opens the connection, TLS included.
	Connect func(ctx context.Context) (net.Conn, *exchange.Conn, error)
	Options *ClientOptions
}

// Dial implements exchange.Dialer.
func (d *Dialer) Dial(ctx context.Context) (exchange.ClientConn, error) {
	nc, info, err := d.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return NewClientConn(nc, info, d.Options), nil
}

// ClientConn is the client's side of one connection. Its reader is a goroutine
// that ends with the connection.
type ClientConn struct {
	conn
	o          *ClientOptions
	info       *exchange.Conn
	maxStreams int
	usable     atomic.Bool
	known      chan struct{} // closed when the upstream's SETTINGS have come
	over       chan struct{} // closed when the reader has ended

	// Under mu.
	next     uint32 // id of the next stream
	open     int    // calls under way
	peerMax  int
	connects bool // extended CONNECT is offered (RFC 8441, section 3)
	away     bool // GOAWAY has come
	pingedAt int64
	pinging  bool
}

// NewClientConn makes the client's side of nc and begins to read from it.
func NewClientConn(nc net.Conn, info *exchange.Conn, o *ClientOptions) *ClientConn {
	c := &ClientConn{
		o: o, info: info, next: 1, maxStreams: orDefault(o.MaxStreams, DefaultMaxStreams), peerMax: assumedStreams,
		known: make(chan struct{}), over: make(chan struct{}),
	}
	c.conn.limits = &o.Limits
	c.conn.streamWindow = int64(orDefault(o.StreamWindow, DefaultClientStreamWindow))
	c.conn.connWindow = max(initialWindow, int64(orDefault(o.ConnWindow, DefaultClientConnWindow)))
	c.conn.writeTimeout = durationOr(o.WriteTimeout, DefaultWriteTimeout)
	c.conn.budget.maxReset = maxClientResets
	c.conn.period = sweepPeriod(o.PingAfter, o.PingTimeout, o.WriteTimeout)
	c.conn.init(nc, c)
	c.usable.Store(true)
	_ = c.out.end(c.appendPreface(c.out.begin())) // cannot fail yet
	c.arm()
	go c.read()
	return c
}

func durationOr(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

func (c *ClientConn) appendPreface(b []byte) []byte {
	const settings = 3
	b = append(b, preface...)
	b = appendFrameHeader(b, settings*settingLen, frameSettings, 0, connectionStream)
	b = appendSetting(b, settingEnablePush, 0)
	b = appendSetting(b, settingInitialWindow, uint32(c.streamWindow))
	b = appendSetting(b, settingMaxHeaderListSize, c.headerListSize())
	if n := c.connWindow - initialWindow; n > 0 {
		b = appendWindowUpdate(b, connectionStream, uint32(n))
	}
	return b
}

// read is the reader's goroutine.
func (c *ClientConn) read() {
	defer close(c.over)
	var err error
	for err == nil {
		if err = c.readFrame(); err == nil {
			c.heard.Store(c.clock.Load())
		}
	}
	c.usable.Store(false)
	c.mu.Lock()
	if c.fatal != nil {
		err = c.fatal
	}
	c.mu.Unlock()
	c.sayGoAway(0, err)
	c.die(err)
	c.out.fail(errConnClosed)
	c.nc.Close()
	c.work.Wait()
	c.in.releaseBig()
}

// Call implements exchange.ClientConn.
func (c *ClientConn) Call() (exchange.Call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.dead != nil, c.fatal != nil, c.away, c.next > maxStreamID:
		return nil, exchange.ErrConnClosed
	case c.open >= min(c.peerMax, c.maxStreams):
		return nil, exchange.ErrConnBusy
	}
	c.rouse()
	if c.open++; c.open == 1 {
		c.heard.Store(c.clock.Load())
	}
	return newCall(c), nil
}

// Capacity implements exchange.ClientConn.
func (c *ClientConn) Capacity() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return min(c.peerMax, c.maxStreams)
}

// Usable implements exchange.ClientConn.
func (c *ClientConn) Usable() bool { return c.usable.Load() }

// Info implements exchange.ClientConn.
func (c *ClientConn) Info() *exchange.Conn { return c.info }

// Close implements exchange.ClientConn.
func (c *ClientConn) Close() {
	c.usable.Store(false)
	c.mu.Lock()
	if c.fatal == nil {
		c.fatal = exchange.ErrConnClosed
	}
	c.mu.Unlock()
	c.nc.Close()
	<-c.over
}

// settled implements endpoint.
func (c *ClientConn) settled() { close(c.known) }

// setting implements endpoint.
func (c *ClientConn) setting(id settingID, v uint32) {
	switch id {
	case settingMaxStreams:
		c.peerMax = int(min(v, maxStreamID))
	case settingEnableConnect:
		c.connects = v == 1
	}
}

// idle implements endpoint.
func (c *ClientConn) idle(id uint32) bool { return id%2 == 0 || id >= c.next }

// bodyEnded implements endpoint.
func (c *ClientConn) bodyEnded(*stream) {}

// tookData implements endpoint.
func (c *ClientConn) tookData() {}

// refuseBody implements endpoint.
func (c *ClientConn) refuseBody(*stream, *exchange.Refusal) bool { return false }

// unlisted implements endpoint.
func (c *ClientConn) unlisted(*stream) {
	c.open--
	c.closeIfDone()
}

// closeIfDone ends a connection that the upstream wants to end, once no call is
// left on it. Under mu.
func (c *ClientConn) closeIfDone() {
	if c.away && c.open == 0 && c.dead == nil {
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// goAway implements endpoint: what the upstream has not acted on may be sent
// again (RFC 9113, section 6.8).
func (c *ClientConn) goAway(last uint32, code ErrCode, reason string) {
	c.usable.Store(false)
	err := notSent(&ConnError{Code: code, Reason: reason, Remote: true})
	var lost []*stream
	c.mu.Lock()
	c.away = true
	for id, s := range c.streams {
		if id > last {
			s.refs.Add(1)
			lost = append(lost, s)
		}
	}
	c.mu.Unlock()
	for _, s := range lost {
		c.lose(s, err, noReset)
		s.unref()
	}
	c.mu.Lock()
	c.closeIfDone()
	c.mu.Unlock()
}

// notSent marks an error as one after which any request may be sent again.
func notSent(err error) error { return &notSentError{err} }

type notSentError struct{ err error }

func (e *notSentError) Error() string        { return exchange.ErrNotSent.Error() + ": " + e.err.Error() }
func (e *notSentError) Is(target error) bool { return target == exchange.ErrNotSent }
func (e *notSentError) Unwrap() error        { return e.err }

// pong implements endpoint.
func (c *ClientConn) pong([]byte) {
	c.mu.Lock()
	c.pinging = false
	c.mu.Unlock()
}

var (
	healthPing = []byte("are you?")
	errNoPong  = errors.New("http2: the upstream does not answer PING")
)

// sweep implements endpoint.
func (c *ClientConn) sweep() time.Duration {
	now := c.clock.Load()
	c.mu.Lock()
	var list []*clientStream
	for _, st := range c.streams {
		s := st.own.(*clientStream)
		if s.late(now) {
			s.refs.Add(1)
			list = append(list, s)
		}
	}
	ask, silent := c.askAlive(now)
	next := c.period
	if c.open == 0 && !c.out.busy() {
		next = never
	}
	c.mu.Unlock()
	for _, s := range list {
		c.lose(&s.stream, exchange.ErrTimeout, Cancel)
		s.unref()
	}
	if ask {
		_ = c.out.end(appendPing(c.out.begin(), 0, healthPing))
	}
	if ask || len(list) > 0 {
		c.flushBeside() // a write that waits would keep the look at deadlines from being taken
	}
	if silent {
		c.usable.Store(false)
		c.abort(errNoPong)
	}
	return next
}

// askAlive decides whether to send a PING, and whether one has stayed without
// an answer for too long. Under mu.
func (c *ClientConn) askAlive(now int64) (ask, silent bool) {
	heard := c.heard.Load()
	switch {
	case c.pinging && heard > c.pingedAt:
		c.pinging = false
	case c.pinging:
		return false, now-c.pingedAt > int64(durationOr(c.o.PingTimeout, DefaultPingTimeout))
	case c.open == 0 || now-heard < int64(durationOr(c.o.PingAfter, DefaultPingAfter)):
		return false, false
	}
	// The answer to the last PING is itself heard, a moment after it.
	if quiet := heard-c.pingedAt < int64(c.period)*2; c.pingedAt > 0 && quiet && now-c.pingedAt < int64(quietPings) {
		return false, false
	}
	c.pinging, c.pingedAt = true, now
	return true, false
}
