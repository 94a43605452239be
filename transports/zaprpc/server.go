package zaprpc

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/stream"
	"github.com/hanzoai/pqgw/zapcodec"
)

// Options are what all connections of a listener share.
type Options struct {
	// Router decides where calls go.
	Router exchange.RPCRouter
	// Watch keeps the deadlines.
	Watch *deadline.Watch
	// Calls is the most in flight on one connection, streams among them; 0 is
	// DefaultCalls.
	Calls int
	// FrameBytes is the most bytes of one frame; 0 is DefaultFrameBytes.
	FrameBytes int
	// IdleTimeout closes a connection without a call.
	IdleTimeout time.Duration
	// StreamIdle closes one whose calls and streams stand still, both ways.
	StreamIdle time.Duration
	// DialTimeout bounds the wait for a connection to an upstream; 0 is 10
	// seconds.
	DialTimeout time.Duration
}

// DefaultCalls is how many calls may be in flight on one connection.
const DefaultCalls = 256

const defaultDialTime = 10 * time.Second

// answeredKept is how many answered calls of a connection may still be the
// target of another.
const answeredKept = 256

// Conn is the server's side of one connection. Serve runs it; Shutdown and Close
// may be called from elsewhere.
type Conn struct {
	o     *Options
	w     port
	info  *exchange.Conn
	entry deadline.Entry

	mu       sync.Mutex
	lanes    map[exchange.RPCUpstream]*lane
	calls    map[uint32]*call // in flight, by the caller's promise
	answered map[uint32]place // by the caller's promise
	order    []uint32         // of answered, oldest first, as a ring
	oldest   int
	over     bool

	draining atomic.Bool
}

// place is where a call went.
type place struct {
	lane *lane
	id   uint32 // its promise there
}

// call is one in flight.
type call struct {
	place
	promise    uint32 // the caller's
	method     uint32
	stream     bool
	ours, peer bool // on a stream: the caller, the upstream has ended
	start      time.Time
	in, out    int64
}

// lane is the connection to one upstream.
type lane struct {
	c     *Conn
	conn  exchange.RPCConn
	calls map[uint32]*call // by the promise there; under the connection's lock
	dead  bool             // the connection has ended; under the lock too
}

// NewConn makes the server's side of s.
func NewConn(s *stream.Stream, info *exchange.Conn, o *Options) *Conn {
	return newConn(newWire(s, o.FrameBytes), info, o)
}

func newConn(w port, info *exchange.Conn, o *Options) *Conn {
	c := &Conn{
		o: o, w: w, info: info, lanes: map[exchange.RPCUpstream]*lane{},
		calls: map[uint32]*call{}, answered: map[uint32]place{},
	}
	c.entry = deadline.Entry{Expire: c.w.wake, FD: -1} // the reader finds out itself that the peer is gone
	return c
}

// Shutdown closes the connection once no call is in flight.
func (c *Conn) Shutdown() {
	c.mu.Lock()
	idle := len(c.calls) == 0
	c.draining.Store(true)
	c.mu.Unlock()
	if idle {
		c.w.grace()
	}
}

// graceWhileDraining is how long a connection without a call may stay once we want to
// stop: a call that is on its way then still gets its answer.
const graceWhileDraining = time.Second

// Close cuts the connection.
func (c *Conn) Close() { c.w.cut() }

// Serve forwards calls until the connection ends, and closes it. An end in good
// order, between frames, is no error.
func (c *Conn) Serve() error {
	c.o.Watch.Add(&c.entry)
	c.o.Watch.Set(&c.entry, c.o.IdleTimeout)
	var err error
	var f exchange.RPCFrame
	for err == nil {
		if err = c.w.read(&f); err == nil {
			err = c.take(&f)
		}
		var bad *MalformedError
		if errors.As(err, &bad) && bad.Known {
			c.o.Router.RPCDone(&exchange.RPCRecord{Conn: c.info, Status: zapcodec.RPCBadRequest, Start: time.Now(), Err: bad})
			err = c.refuse(bad.Promise, zapcodec.RPCBadRequest, "the envelope is malformed")
		}
	}
	c.end()
	c.o.Watch.Remove(&c.entry)
	c.w.close()
	if errors.Is(err, io.EOF) || c.draining.Load() || c.entry.Expired() {
		return nil
	}
	return err
}

// take acts on a frame of the caller's.
func (c *Conn) take(f *exchange.RPCFrame) error {
	switch f.Kind {
	case exchange.RPCRequest, exchange.RPCOpen:
		return c.begin(f)
	case exchange.RPCMessage, exchange.RPCEnd:
		return c.forward(f)
	}
	return &MalformedError{Err: errors.New("an answer to a call that we did not make")}
}

// refuse answers a call that goes nowhere.
func (c *Conn) refuse(promise, status uint32, why string) error {
	return c.w.send(&exchange.RPCFrame{Kind: exchange.RPCResponse, Promise: promise, Status: status, Payload: []byte(why)})
}

// begin sends a call on to its upstream.
func (c *Conn) begin(f *exchange.RPCFrame) error {
	start := time.Now()
	promise := f.Promise
	u, status := c.o.Router.RouteRPC(c.info, f.Method)
	if u == nil {
		c.o.Router.RPCDone(&exchange.RPCRecord{Conn: c.info, Method: f.Method, Stream: f.Kind == exchange.RPCOpen, Status: status, Start: start, In: int64(len(f.Payload))})
		return c.refuse(promise, status, "no upstream takes this method")
	}
	l, err := c.lane(u)
	if err != nil {
		c.o.Router.RPCDone(&exchange.RPCRecord{Conn: c.info, Method: f.Method, Stream: f.Kind == exchange.RPCOpen, Status: zapcodec.RPCError, Start: start, In: int64(len(f.Payload)), Err: err})
		return c.refuse(promise, zapcodec.RPCError, "the service could not be reached")
	}
	k, status, why := c.register(f, l, start)
	if k == nil {
		c.o.Router.RPCDone(&exchange.RPCRecord{Conn: c.info, Method: f.Method, Stream: f.Kind == exchange.RPCOpen, Status: status, Start: start, In: int64(len(f.Payload)), Upstream: l.conn.Info()})
		return c.refuse(promise, status, why)
	}
	c.o.Watch.Set(&c.entry, c.o.StreamIdle)
	if err := l.conn.Send(f); err != nil {
		l.lost(err) // answers this call as the others
	}
	return nil
}

// lane is the connection to u, a new one where there is none.
func (c *Conn) lane(u exchange.RPCUpstream) (*lane, error) {
	c.mu.Lock()
	l := c.lanes[u]
	c.mu.Unlock()
	if l != nil {
		return l, nil
	}
	limit := c.o.DialTimeout
	if limit == 0 {
		limit = defaultDialTime
	}
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	conn, err := u.Lease(ctx)
	if err != nil {
		return nil, err
	}
	l = &lane{c: c, conn: conn, calls: map[uint32]*call{}}
	c.mu.Lock()
	c.lanes[u] = l
	c.mu.Unlock()
	conn.Attach(l.receive, l.lost)
	return l, nil
}

// register gives the call its number on the lane, and f the upstream's numbers; where
// it cannot be made, a status and why.
func (c *Conn) register(f *exchange.RPCFrame, l *lane, start time.Time) (k *call, status uint32, why string) {
	most := c.o.Calls
	if most <= 0 {
		most = DefaultCalls
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.calls) >= most:
		return nil, zapcodec.RPCError, "too many calls in flight on this connection"
	case c.calls[f.Promise] != nil:
		return nil, zapcodec.RPCBadRequest, "a call with this promise is in flight"
	case l.dead:
		return nil, zapcodec.RPCError, "the connection to the service was lost"
	}
	target := uint32(0)
	if f.Target != 0 {
		p, ok := c.find(f.Target)
		switch {
		case !ok:
			return nil, zapcodec.RPCBadRequest, "the target is no call of this connection, or an old one"
		case p.lane != l:
			return nil, zapcodec.RPCBadRequest, "the target went to another service"
		}
		target = p.id
	}
	id := l.conn.NextPromise()
	for l.calls[id] != nil {
		id = l.conn.NextPromise()
	}
	k = &call{place: place{l, id}, promise: f.Promise, method: f.Method, stream: f.Kind == exchange.RPCOpen, start: start, in: int64(len(f.Payload))}
	c.calls[f.Promise], l.calls[id] = k, k
	f.Promise, f.Target = id, target
	return k, 0, ""
}

// find tells where a call went that is in flight or was answered not long ago.
func (c *Conn) find(promise uint32) (place, bool) {
	if k := c.calls[promise]; k != nil {
		return k.place, true
	}
	p, ok := c.answered[promise]
	return p, ok
}

// forget takes a call out of those in flight; a call that was answered may still be
// the target of another.
func (c *Conn) forget(k *call) {
	delete(c.calls, k.promise)
	delete(k.lane.calls, k.id)
	if k.stream {
		return
	}
	if _, again := c.answered[k.promise]; !again {
		if len(c.order) < answeredKept {
			c.order = append(c.order, k.promise)
		} else {
			delete(c.answered, c.order[c.oldest])
			c.order[c.oldest] = k.promise
			c.oldest = (c.oldest + 1) % answeredKept
		}
	}
	c.answered[k.promise] = k.place
}

// forward sends a stream's bytes on. A stream that the upstream has ended with an
// answer may still be sent to: such bytes are dropped.
func (c *Conn) forward(f *exchange.RPCFrame) error {
	c.mu.Lock()
	k := c.calls[f.Promise]
	if k == nil || !k.stream {
		c.mu.Unlock()
		return nil
	}
	if k.ours {
		c.mu.Unlock()
		return &MalformedError{Err: errors.New("bytes on a stream after its end")}
	}
	k.in += int64(len(f.Payload))
	id := k.id
	ended := false
	if f.Kind == exchange.RPCEnd {
		k.ours = true
		if ended = k.peer; ended {
			c.forget(k)
		}
	}
	c.mu.Unlock()
	f.Promise = id
	c.o.Watch.Set(&c.entry, c.o.StreamIdle)
	err := k.lane.conn.Send(f)
	if err != nil {
		k.lane.lost(err)
	}
	if ended {
		c.done(k, zapcodec.RPCOK, nil)
	}
	return nil
}

// receive passes an upstream's frame on to the caller.
func (l *lane) receive(f *exchange.RPCFrame) {
	c := l.c
	c.mu.Lock()
	k := l.calls[f.Promise]
	if k == nil || c.over {
		c.mu.Unlock()
		return // of a call that the caller has been told the end of
	}
	if !k.stream && f.Kind != exchange.RPCResponse {
		c.mu.Unlock()
		l.lost(&MalformedError{Err: errors.New("bytes of a stream where an answer is due")})
		return
	}
	k.out += int64(len(f.Payload))
	ended := l.ends(k, f)
	if ended {
		c.forget(k)
	}
	c.mu.Unlock()
	f.Promise = k.promise
	c.o.Watch.Set(&c.entry, c.o.StreamIdle)
	err := c.w.send(f)
	if ended {
		status := f.Status
		if f.Kind != exchange.RPCResponse {
			status = zapcodec.RPCOK
		}
		c.done(k, status, err)
	}
}

// ends tells whether the frame is the last of its call.
func (l *lane) ends(k *call, f *exchange.RPCFrame) bool {
	switch f.Kind {
	case exchange.RPCResponse:
		return !k.stream || f.Status != zapcodec.RPCOK // an answer of 200 to an opening is no end
	case exchange.RPCEnd:
		k.peer = true
		return k.ours
	}
	return false
}

// lost answers every call of the lane: its connection has ended.
func (l *lane) lost(err error) {
	c := l.c
	c.mu.Lock()
	calls := make([]*call, 0, len(l.calls))
	for _, k := range l.calls {
		calls = append(calls, k)
		delete(c.calls, k.promise)
	}
	clear(l.calls)
	for u, have := range c.lanes {
		if have == l {
			delete(c.lanes, u)
		}
	}
	for p, at := range c.answered {
		if at.lane == l {
			at.lane = nil // no call can follow it there
			c.answered[p] = at
		}
	}
	l.dead = true
	over := c.over
	c.mu.Unlock()
	if over {
		return
	}
	l.conn.Release(false)
	for _, k := range calls {
		_ = c.refuse(k.promise, zapcodec.RPCError, "the connection to the service was lost")
		c.done(k, zapcodec.RPCError, err)
	}
}

// done records the end of a call, and ends a connection that waits for it.
func (c *Conn) done(k *call, status uint32, err error) {
	c.mu.Lock()
	idle := len(c.calls) == 0
	c.mu.Unlock()
	if idle {
		c.o.Watch.Set(&c.entry, c.o.IdleTimeout)
	}
	c.record(k, status, err)
	if idle && c.draining.Load() {
		c.w.grace()
	}
}

func (c *Conn) record(k *call, status uint32, err error) {
	c.o.Router.RPCDone(&exchange.RPCRecord{
		Conn: c.info, Method: k.method, Stream: k.stream, Status: status, Start: k.start, Duration: time.Since(k.start),
		In: k.in, Out: k.out, Upstream: k.lane.conn.Info(), Err: err,
	})
}

// end gives the lanes back: one with calls in flight cannot serve another, since their
// answers are still to come.
func (c *Conn) end() {
	c.mu.Lock()
	c.over = true
	var calls []*call
	for _, k := range c.calls {
		calls = append(calls, k)
	}
	lanes := make(map[*lane]bool, len(c.lanes))
	for _, l := range c.lanes {
		lanes[l] = len(l.calls) == 0
	}
	c.mu.Unlock()
	for l, reusable := range lanes {
		l.conn.Release(reusable)
	}
	for _, k := range calls {
		c.record(k, 0, exchange.ErrClientGone)
	}
}
