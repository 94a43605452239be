package zaprpc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/stream"
)

// ClientConn is the client's side of one connection: an exchange.RPCConn. A
// goroutine of its own reads it until it is closed.
type ClientConn struct {
	w       port
	info    *exchange.Conn
	next    atomic.Uint32
	release func(c *ClientConn, reusable bool)
	done    chan struct{} // the reader has ended
	closed  atomic.Bool
	kept    *time.Timer // ends it where it is idle for too long; under the upstream's lock

	mu      sync.Mutex
	receive func(f *exchange.RPCFrame)
	lost    func(err error)
	err     error // why the reader ended
}

// NewClientConn makes the client's side of s. release takes it back at the end of a
// lease; it is to keep it or to Close it.
func NewClientConn(s *stream.Stream, info *exchange.Conn, frameBytes int, release func(c *ClientConn, reusable bool)) *ClientConn {
	return newClientConn(newWire(s, frameBytes), info, release)
}

func newClientConn(w port, info *exchange.Conn, release func(c *ClientConn, reusable bool)) *ClientConn {
	c := &ClientConn{w: w, info: info, release: release, done: make(chan struct{})}
	go c.read()
	return c
}

// errUnasked: a frame came while no lease was on.
var errUnasked = errors.New("the upstream sent a frame that nothing asked for")

func (c *ClientConn) read() {
	defer close(c.done)
	var f exchange.RPCFrame
	for {
		err := c.w.read(&f)
		c.mu.Lock()
		receive, lost := c.receive, c.lost
		if err == nil && receive == nil {
			err = errUnasked
		}
		if err != nil {
			c.err, c.receive, c.lost = err, nil, nil
		}
		c.mu.Unlock()
		if err == nil {
			receive(&f)
			continue
		}
		if lost != nil {
			lost(err)
		}
		c.closeSocket()
		return
	}
}

// Attach implements exchange.RPCConn.
func (c *ClientConn) Attach(receive func(f *exchange.RPCFrame), lost func(err error)) {
	c.mu.Lock()
	err := c.err
	if err == nil {
		c.receive, c.lost = receive, lost
	}
	c.mu.Unlock()
	if err != nil {
		lost(err)
	}
}

// NextPromise implements exchange.RPCConn.
func (c *ClientConn) NextPromise() uint32 {
	for {
		if n := c.next.Add(1); n != 0 {
			return n
		}
	}
}

// Send implements exchange.RPCConn.
func (c *ClientConn) Send(f *exchange.RPCFrame) error {
	if err := c.w.send(f); err != nil {
		return &exchange.UpstreamError{Op: "send", Err: err}
	}
	return nil
}

// Abandon implements exchange.RPCConn.
func (c *ClientConn) Abandon(promise uint32, open bool) { c.w.abandon(promise, open) }

// Info implements exchange.RPCConn.
func (c *ClientConn) Info() *exchange.Conn { return c.info }

// Release implements exchange.RPCConn.
func (c *ClientConn) Release(reusable bool) {
	c.mu.Lock()
	c.receive, c.lost = nil, nil
	reusable = reusable && c.err == nil
	c.mu.Unlock()
	c.release(c, reusable)
}

// Usable tells whether the connection is not known to have ended.
func (c *ClientConn) Usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil && !c.closed.Load()
}

func (c *ClientConn) closeSocket() {
	if !c.closed.Swap(true) {
		c.w.wake()
		c.w.close()
	}
}

// Close ends the connection, and does not wait for its reader, which may be what
// calls it.
func (c *ClientConn) Close() { c.closeSocket() }

// Upstream is a set of endpoints that take calls in turn: an
// exchange.RPCUpstream. Make it with NewUpstream; Close ends it.
type Upstream struct {
	dials []Dial
	s     UpstreamSettings
	next  atomic.Uint32

	mu     sync.Mutex
	idle   [][]*ClientConn // of each endpoint
	live   map[*ClientConn]struct{}
	closed bool
}

// Dial connects to one endpoint.
type Dial func(ctx context.Context, release func(c *ClientConn, reusable bool)) (*ClientConn, error)

// UpstreamSettings are what the connections of an upstream have in common.
type UpstreamSettings struct {
	// Connect bounds the making of one connection, the handshake included; 0 does not.
	Connect time.Duration
	// MaxIdle is how many connections that nobody leases are kept to each endpoint.
	MaxIdle int
	// Idle is for how long they are kept; 0 for ever.
	Idle time.Duration
}

// NewUpstream makes an upstream of its endpoints' dialers; there is at least one.
func NewUpstream(s UpstreamSettings, endpoints ...Dial) *Upstream {
	return &Upstream{dials: endpoints, s: s, idle: make([][]*ClientConn, len(endpoints)), live: map[*ClientConn]struct{}{}}
}

// Lease implements exchange.RPCUpstream: an endpoint that cannot be reached is
// passed over.
func (u *Upstream) Lease(ctx context.Context) (exchange.RPCConn, error) {
	first := int(u.next.Add(1) % uint32(len(u.dials)))
	var err error
	for i := range u.dials {
		at := (first + i) % len(u.dials)
		if c := u.kept(at); c != nil {
			return c, nil
		}
		var c *ClientConn
		if c, err = u.dial(ctx, at); err == nil {
			return u.add(c)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

func (u *Upstream) dial(ctx context.Context, at int) (*ClientConn, error) {
	if u.s.Connect > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, u.s.Connect)
		defer stop()
	}
	return u.dials[at](ctx, func(c *ClientConn, reusable bool) { u.release(at, c, reusable) })
}

func (u *Upstream) add(c *ClientConn) (exchange.RPCConn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		c.Close()
		return nil, &exchange.UpstreamError{Op: "dial", Err: exchange.ErrConnClosed}
	}
	u.live[c] = struct{}{}
	return c, nil
}

// kept takes a connection that lies idle.
func (u *Upstream) kept(at int) *ClientConn {
	for {
		u.mu.Lock()
		n := len(u.idle[at])
		if n == 0 {
			u.mu.Unlock()
			return nil
		}
		c := u.idle[at][n-1]
		u.idle[at] = u.idle[at][:n-1]
		if c.kept != nil {
			c.kept.Stop()
		}
		u.mu.Unlock()
		if c.Usable() {
			return c
		}
		u.drop(c)
	}
}

func (u *Upstream) release(at int, c *ClientConn, reusable bool) {
	u.mu.Lock()
	reusable = reusable && !u.closed && len(u.idle[at]) < u.s.MaxIdle
	if reusable {
		u.idle[at] = append(u.idle[at], c)
		if u.s.Idle > 0 {
			c.kept = time.AfterFunc(u.s.Idle, func() { u.expire(at, c) })
		}
	}
	u.mu.Unlock()
	if !reusable {
		u.drop(c)
	}
}

// expire closes a connection that is still idle after its time.
func (u *Upstream) expire(at int, c *ClientConn) {
	u.mu.Lock()
	i := slices.Index(u.idle[at], c)
	if i >= 0 {
		u.idle[at] = slices.Delete(u.idle[at], i, i+1)
	}
	u.mu.Unlock()
	if i >= 0 {
		u.drop(c)
	}
}

func (u *Upstream) drop(c *ClientConn) {
	c.Close()
	u.mu.Lock()
	if c.kept != nil {
		c.kept.Stop()
	}
	delete(u.live, c)
	u.mu.Unlock()
}

// Retire implements exchange.RPCUpstream.
func (u *Upstream) Retire() {
	u.mu.Lock()
	u.closed = true
	var idle []*ClientConn
	for at := range u.idle {
		idle = append(idle, u.idle[at]...)
		u.idle[at] = nil
	}
	u.mu.Unlock()
	for _, c := range idle {
		u.drop(c)
		<-c.done
	}
}

// Close ends all connections, leased ones too, and waits for their readers.
func (u *Upstream) Close() {
	u.mu.Lock()
	u.closed = true
	all := make([]*ClientConn, 0, len(u.live))
	for c := range u.live {
		all = append(all, c)
	}
	u.mu.Unlock()
	for _, c := range all {
		u.drop(c)
		<-c.done
	}
}
