package serial

import (
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/stream"
)

// ClientOptions are what all connections to an endpoint share.
type ClientOptions struct {
	// Watch keeps the deadlines.
	Watch *deadline.Watch
	// Limits on answers' heads and trailers; BodyBytes is not heeded.
	Limits exchange.Limits
}

// Caller is a protocol's own part of a ClientConn, which it completes to an
// exchange.Call.
type Caller interface {
	exchange.Call
	// Parse takes in an answer's head, once it is there, into Head: it sets Used, and for the
	// final head Final, and starts the body if there is one. It returns false where more must be
	// read.
	Parse() (done bool, err error)
}

// ClientConn is the client's side of one connection: an exchange.ClientConn of
// capacity 1 whose only call is part of it. What is exported besides is for the
// protocol that it is part of.
type ClientConn struct {
	// Stream is the connection.
	Stream *stream.Stream
	// X is the call's exchange; nil while there is none.
	X *exchange.Exchange
	// Out is where the request's head is written.
	Out *[]byte
	// Head is where the answer's head is wanted.
	Head *exchange.Head
	// Used is how much of Pending the answer has used, up to its body.
	Used int
	// Final: the final head has come.
	Final bool
	// Reuse is cleared where the connection must not be used after this call; Extra is set where
	// bytes came that belong to no answer.
	Reuse, Extra bool
	// Bare: the answer had no body, and what follows it was not looked for.
	Bare bool
	// HasBody: the answer has a body, which is Answer.
	HasBody bool
	Answer  Body

	caller   Caller
	o        *ClientOptions
	info     *exchange.Conn
	entry    deadline.Entry
	timeouts exchange.Timeouts
	buf      *buffer.Buffer // what was read: buf.B[r:w]
	r, w     int
	idleFrom int64 // by the watch

	rest      []byte      // a whole body, in the caller's memory, behind Out
	pending   bool        // Out and rest wait for ReadHead
	untouched bool        // nothing of the request has been sent
	duplex    bool        // SendBody runs beside the reading: no callbacks
	cleared   atomic.Bool // the streamed request was sent to its end
	begun     atomic.Bool // Final, for the goroutine that sends
	answered  bool        // bytes of an answer have come
	err       error

	step, bodyStep func() bool
	readInto       []byte
	readN          int
	readErr        error

	canceller exchange.Canceller
	cancelled atomic.Pointer[error]
	refused   atomic.Pointer[error] // why SendBody gave up, for ReadHead to tell
	closed    atomic.Bool
	gone      atomic.Bool // the peer has ended its direction: what it sent before can be read
}

// Init makes the client's side of s, as part of caller.
func (c *ClientConn) Init(caller Caller, s *stream.Stream, info *exchange.Conn, o *ClientOptions) {
	c.caller, c.Stream, c.info, c.o, c.Reuse = caller, s, info, o, true
	c.step, c.bodyStep = c.stepOnce, c.stepBody
	c.Answer.Use(c.readBody, nil)
	c.canceller.Cancel = c.cancel
	c.entry = deadline.Entry{Expire: c.wake, Gone: c.peerGone, FD: -1}
	if s.Sock.CanStep() {
		c.entry.FD = s.Sock.FD()
	}
	c.idleFrom = o.Watch.Now()
	o.Watch.Add(&c.entry)
}

func (c *ClientConn) wake() { _ = c.Stream.Sock.SetDeadline(time.Unix(1, 0)) }

// peerGone wakes a callback whose request was written behind the connection's end: no edge
// tells of that any more.
func (c *ClientConn) peerGone() {
	c.gone.Store(true)
	_ = c.Stream.Sock.SetReadDeadline(time.Unix(1, 0))
}

// goneOnly tells whether a read was interrupted for no more than that the peer has ended its
// direction: what it sent before, and the end, are there to be read. Other reasons are noted before
// they interrupt, and looked for once the deadline was taken back.
func (c *ClientConn) goneOnly(err error) bool {
	if err == nil || !c.gone.Load() || !IsTimeout(err) {
		return false
	}
	_ = c.Stream.Sock.SetReadDeadline(time.Time{})
	return c.cancelled.Load() == nil && c.refused.Load() == nil && !c.entry.Expired()
}

func (c *ClientConn) cancel(reason error) {
	c.cancelled.Store(&reason)
	c.wake()
}

// Call implements exchange.ClientConn.
func (c *ClientConn) Call() (exchange.Call, error) {
	if c.closed.Load() || !c.Reuse {
		return nil, exchange.ErrConnClosed
	}
	if c.X != nil {
		return nil, exchange.ErrConnBusy
	}
	return c.caller, nil
}

// Capacity implements exchange.ClientConn.
func (c *ClientConn) Capacity() int { return 1 }

// Usable implements exchange.ClientConn.
func (c *ClientConn) Usable() bool {
	if c.closed.Load() || c.gone.Load() || !c.Reuse {
		return false
	}
	// Between requests that follow each other at once a look would be a system call
	// too many. But a body that belongs to no answer, to HEAD as a rule, must not be
	// taken for the next client's answer.
	if !c.Bare && c.o.Watch.Now() == c.idleFrom {
		return true
	}
	return c.Stream.Quiet()
}

// Info implements exchange.ClientConn.
func (c *ClientConn) Info() *exchange.Conn { return c.info }

// Close implements exchange.ClientConn.
func (c *ClientConn) Close() {
	if c.closed.Swap(true) {
		return
	}
	c.o.Watch.Remove(&c.entry)
	if c.Stream.TLS != nil && c.cancelled.Load() == nil {
		_ = c.Stream.Close()
		return
	}
	_ = c.Stream.Sock.Close()
}

// Canceller implements exchange.Call.
func (c *ClientConn) Canceller() *exchange.Canceller { return &c.canceller }

// Cancelled tells whether the call was cancelled.
func (c *ClientConn) Cancelled() bool { return c.cancelled.Load() != nil }

// Fail ends the connection's use and names what was being done.
func (c *ClientConn) Fail(op string, err error) error {
	c.Reuse = false
	switch {
	case c.refused.Load() != nil:
		return *c.refused.Load()
	case c.cancelled.Load() != nil:
		err = *c.cancelled.Load()
	case IsTimeout(err):
		err = exchange.ErrTimeout
	}
	return &exchange.UpstreamError{Op: op, Answered: c.answered, Err: err}
}

func (c *ClientConn) limit(d time.Duration) { c.o.Watch.Set(&c.entry, d) }

// Extend moves the deadline of a call in which something has moved.
func (c *ClientConn) Extend() { c.limit(c.timeouts.Idle) }

// Finish implements exchange.Call.
func (c *ClientConn) Finish() bool {
	c.limit(0)
	complete := c.untouched || c.Final && c.AnswerRead() && (!c.duplex || c.cleared.Load())
	reusable := complete && c.Reuse && c.err == nil && !c.Extra &&
		!c.entry.Expired() && c.cancelled.Load() == nil && c.refused.Load() == nil && !c.closed.Load() && !c.gone.Load()
	c.forget()
	if c.Out != nil {
		PutScratch(c.Out)
		c.Out = nil
	}
	c.X, c.Head, c.rest = nil, nil, nil
	c.cleared.Store(false)
	c.Extra = false
	c.Reuse = reusable
	c.idleFrom = c.o.Watch.Now()
	return reusable
}

// AnswerRead tells whether nothing of the answer is still to come.
func (c *ClientConn) AnswerRead() bool { return !c.HasBody || c.Answer.AtEnd() }

// forget gives up what was read.
func (c *ClientConn) forget() {
	c.Answer.Rest()
	c.Answer.Free()
	c.buf.Put()
	c.buf, c.r, c.w, c.Used = nil, 0, 0, 0
}
