package zaprpc

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
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
	// WriteTimeout ends a connection whose client takes nothing of what waits for it, whatever it
	// sends meanwhile; over QUIC a call's stream alone. 0 leaves that to StreamIdle.
	WriteTimeout time.Duration
}

// DefaultCalls is how many calls may be in flight on one connection.
const DefaultCalls = 256

// Conn is the server's side of one connection. Serve runs it; Shutdown and Close
// may be called from elsewhere.
type Conn struct {
	o     *Options
	w     port
	info  *exchange.Conn
	entry deadline.Entry
	ctx   context.Context //nolint:containedctx // Close ends it: nobody waits for an upstream any more
	stop  context.CancelFunc
	work  sync.WaitGroup // the clock's goroutine, and that of Close

	mu       sync.Mutex
	lanes    map[exchange.RPCUpstream]*lane
	calls    map[uint32]*call // in flight, by the caller's promise
	answered map[uint32]place // by the caller's promise
	order    []uint32         // of answered, oldest first, as a ring
	oldest   int
	over     bool
	closed   bool        // by Close: no lane serves another
	begun    uint64      // how many calls have
	clock    *time.Timer // nil until a call has a timeout
	rings    time.Time   // when it calls expire; zero where it does not

	draining atomic.Bool
}

// NewConn makes the server's side of s.
func NewConn(s *stream.Stream, info *exchange.Conn, o *Options) *Conn {
	w := newWire(s, o.FrameBytes)
	w.hurry(o.Watch, o.WriteTimeout)
	return newConn(w, info, o)
}

func newConn(w port, info *exchange.Conn, o *Options) *Conn {
	c := &Conn{
		o: o, w: w, info: info, lanes: map[exchange.RPCUpstream]*lane{},
		calls: map[uint32]*call{}, answered: map[uint32]place{},
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.entry = deadline.Entry{Expire: c.w.wake, FD: -1} // the reader finds out itself that the peer is gone
	return c
}

// Shutdown closes the connection once no call is in flight.
func (c *Conn) Shutdown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining.Store(true)
	c.mayLeave()
}

// graceWhileDraining is how long a connection without a call may stay once we want to
// stop: a call that is on its way then still gets its answer.
const graceWhileDraining = time.Second

// mayLeave ends a connection that drains in a while, unless a call is in flight or has begun by
// then. c.mu is held.
func (c *Conn) mayLeave() {
	if !c.draining.Load() || len(c.calls) > 0 {
		return
	}
	begun := c.begun
	time.AfterFunc(graceWhileDraining, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.begun == begun && !c.over {
			c.w.leave()
		}
	})
}

// Close cuts the connection.
func (c *Conn) Close() {
	c.stop()
	c.w.cut()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.over || len(c.lanes) == 0 {
		return
	}
	lanes := slices.Collect(maps.Values(c.lanes))
	c.work.Go(func() {
		for _, l := range lanes {
			l.conn.Release(false) // the reader may be waiting for that service to take a call
		}
	})
}

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
	c.stop()
	c.work.Wait()
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
	r, status := c.o.Router.RouteRPC(c.info, f.Method)
	if r.Upstream == nil {
		c.o.Router.RPCDone(&exchange.RPCRecord{Conn: c.info, Method: f.Method, Stream: f.Kind == exchange.RPCOpen, Status: status, Start: start, In: int64(len(f.Payload))})
		return c.refuse(promise, status, "no upstream takes this method")
	}
	l, err := c.lane(r.Upstream)
	if err != nil {
		c.o.Router.RPCDone(&exchange.RPCRecord{Conn: c.info, Method: f.Method, Stream: f.Kind == exchange.RPCOpen, Status: zapcodec.RPCError, Start: start, In: int64(len(f.Payload)), Err: err})
		return c.refuse(promise, zapcodec.RPCError, "the service could not be reached")
	}
	k, status, why := c.register(f, l, r.Timeouts, start)
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
	k.moved = time.Now()
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

// done records the end of a call, and ends a connection that waits for it.
func (c *Conn) done(k *call, status uint32, err error) {
	c.record(k, status, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) == 0 {
		c.o.Watch.Set(&c.entry, c.o.IdleTimeout)
	}
	c.mayLeave()
}

func (c *Conn) record(k *call, status uint32, err error) {
	c.o.Router.RPCDone(&exchange.RPCRecord{
		Conn: c.info, Method: k.method, Stream: k.stream, Status: status, Start: k.start, Duration: time.Since(k.start),
		In: k.in, Out: k.out, Upstream: k.lane.conn.Info(), Err: err,
	})
}

// end gives the lanes back: one where answers are still to come cannot serve another.
func (c *Conn) end() {
	c.mu.Lock()
	c.over = true
	if c.clock != nil {
		c.clock.Stop()
	}
	var calls []*call
	for _, k := range c.calls {
		calls = append(calls, k)
	}
	lanes := make(map[*lane]bool, len(c.lanes))
	for _, l := range c.lanes {
		lanes[l] = len(l.calls) == 0 && !l.late && !c.closed
	}
	c.mu.Unlock()
	for l, reusable := range lanes {
		l.conn.Release(reusable)
	}
	for _, k := range calls {
		c.record(k, 0, exchange.ErrClientGone)
	}
}
