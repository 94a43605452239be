package zap

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/stream"
	"github.com/hanzoai/pqgw/zapcodec"
)

// ClientOptions are what all connections to an endpoint share, and what they
// learn of it. They must not be copied once in use.
type ClientOptions struct {
	// Watch keeps the deadlines.
	Watch *deadline.Watch
	// Limits on answers' heads and trailers; BodyBytes is not heeded.
	Limits exchange.Limits
	// MessageBytes is the most bytes of one message, read or written; 0 is
	// DefaultMessageBytes.
	MessageBytes int

	peer atomic.Int32 // what the endpoint is known to be: one of the kinds below
}

// Kinds of peers.
const (
	peerUnknown int32 = iota
	peerExtended
	peerPublic
)

// RefuseUnstreamable is what becomes of a request whose body the upstream's
// protocol cannot carry: it is the client's 413, given by Send or ReadHead.
var RefuseUnstreamable = &exchange.Refusal{
	Status: 413, Reason: "body_over_message_limit",
	Text: "the service takes a request as one ZAP message only, and this body is larger than a message may be",
}

// ClientConn is the client's side of one connection: an exchange.ClientConn of
// capacity 1 whose only call is part of it.
type ClientConn struct {
	o     *ClientOptions
	s     *stream.Stream
	info  *exchange.Conn
	entry deadline.Entry
	enc   encoder

	buf  *buffer.Buffer // what was read: buf.B[r:w]
	r, w int
	view zapcodec.ResponseView

	x         *exchange.Exchange
	timeouts  exchange.Timeouts
	out       *[]byte // the request's head, and a small body behind it, until they are sent
	rest      []byte  // a larger whole body, in the caller's memory
	mode      sendMode
	length    int64 // of the body that SendBody sends, where it is known; else -1
	pending   bool  // out and rest wait for ReadHead
	duplex    bool  // SendBody runs beside the reading: no callbacks
	untouched bool  // nothing of the request has been sent
	expect    bool  // a 100 is owed to the caller
	extended  bool  // the peer speaks our extension
	head      *exchange.Head
	used      int // bytes of the message that was read last, from r
	body      serial.Body
	framing   framing
	hasBody   bool
	extra     bool        // bytes came that belong to no answer
	cleared   atomic.Bool // the streamed request was sent to its end
	answered  bool        // bytes of an answer have come
	final     bool        // the final head has come
	reuse     bool
	err       error
	step      func() bool
	bodyStep  func() bool
	readInto  []byte
	readN     int
	readErr   error
	idleFrom  int64

	canceller exchange.Canceller
	cancelled atomic.Pointer[error]
	refused   atomic.Pointer[error] // why SendBody gave up, for ReadHead to tell
	closed    atomic.Bool
}

// idleCheck is after how long without use a connection is looked at before its
// next request, in milliseconds: what closed meanwhile is then not tried.
const idleCheck = 1000

// NewClientConn makes the client's side of s.
func NewClientConn(s *stream.Stream, info *exchange.Conn, o *ClientOptions) *ClientConn {
	c := &ClientConn{o: o, s: s, info: info, reuse: true}
	c.extended = info.Facts.ALPN == ALPN
	c.enc.opt = newOptions(info.Facts.ALPN)
	c.step = c.stepOnce
	c.bodyStep = c.stepBody
	c.body.Use(c.readBody, nil)
	c.canceller.Cancel = c.cancel
	c.entry = deadline.Entry{Expire: c.wake, FD: -1}
	c.idleFrom = o.Watch.Now()
	o.Watch.Add(&c.entry)
	return c
}

func (c *ClientConn) wake() { _ = c.s.Sock.SetDeadline(time.Unix(1, 0)) }

func (c *ClientConn) cancel(reason error) {
	c.cancelled.Store(&reason)
	c.wake()
}

// Call implements exchange.ClientConn.
func (c *ClientConn) Call() (exchange.Call, error) {
	if c.closed.Load() || !c.reuse {
		return nil, exchange.ErrConnClosed
	}
	if c.x != nil {
		return nil, exchange.ErrConnBusy
	}
	return c, nil
}

// Capacity implements exchange.ClientConn.
func (c *ClientConn) Capacity() int { return 1 }

// Usable implements exchange.ClientConn.
func (c *ClientConn) Usable() bool {
	if c.closed.Load() || !c.reuse {
		return false
	}
	if c.o.Watch.Now()-c.idleFrom < idleCheck {
		return true
	}
	return c.s.Sock.Quiet()
}

// Info implements exchange.ClientConn.
func (c *ClientConn) Info() *exchange.Conn { return c.info }

// Close implements exchange.ClientConn.
func (c *ClientConn) Close() {
	if c.closed.Swap(true) {
		return
	}
	c.o.Watch.Remove(&c.entry)
	if c.s.TLS != nil && c.cancelled.Load() == nil {
		_ = c.s.Close()
		return
	}
	_ = c.s.Sock.Close()
}

// Canceller implements exchange.Call.
func (c *ClientConn) Canceller() *exchange.Canceller { return &c.canceller }

// fail ends the connection's use and names what was being done.
func (c *ClientConn) fail(op string, err error) error {
	c.reuse = false
	switch {
	case c.refused.Load() != nil:
		return *c.refused.Load()
	case c.cancelled.Load() != nil:
		err = *c.cancelled.Load()
	case serial.IsTimeout(err):
		err = exchange.ErrTimeout
	}
	return &exchange.UpstreamError{Op: op, Answered: c.answered, Err: err}
}

func (c *ClientConn) limit(d time.Duration) { c.o.Watch.Set(&c.entry, d) }

var errAfterFinal = errors.New("the final answer was read already")

// ReadHead implements exchange.Call.
func (c *ClientConn) ReadHead(h *exchange.Head) error {
	if c.final {
		return c.fail("read head", errAfterFinal)
	}
	if c.expect {
		// Nothing that the peer says will come before the body, so it is asked for here.
		c.expect = false
		h.Reset(nil)
		h.Status = 100
		return nil
	}
	c.r, c.used = c.r+c.used, 0
	c.head = h
	if !c.duplex || c.cleared.Load() {
		c.limit(c.timeouts.FirstByte)
	} else {
		c.limit(c.timeouts.Idle)
	}
	if c.s.Sock.CanStep() && !c.duplex {
		if err := c.s.Sock.Step(c.step); err != nil && c.err == nil {
			c.err = err
		}
	} else {
		c.stepOnce()
	}
	if c.err != nil {
		return c.fail("read head", c.err)
	}
	return nil
}

// stepOnce sends the request if it waits to be, and reads until a head is
// there: true then, or on an error; false where it has to wait, inside a
// callback.
func (c *ClientConn) stepOnce() bool {
	if c.pending {
		if c.err = c.write(); c.err != nil {
			return true
		}
		if c.s.Sock.Inside() {
			c.s.Sock.AwaitReadable()
			return false
		}
	}
	for {
		if done, err := c.parse(); done || err != nil {
			c.err = err
			return true
		}
		n, err := c.read()
		if n > 0 || err == nil {
			continue
		}
		if err == stream.ErrAgain { //nolint:errorlint // an identity
			if c.s.Sock.LookAgain() { // part of a head or of a record, whose end may have come too
				continue
			}
			return false
		}
		c.err = err
		return true
	}
}

// read takes in more behind what was read; the buffer grows with what comes, not
// with what is announced.
func (c *ClientConn) read() (int, error) {
	if c.buf == nil {
		c.buf, c.r, c.w = buffer.Get(buffer.Medium), 0, 0
	}
	if c.w == len(c.buf.B) {
		if c.r > 0 {
			c.w = copy(c.buf.B, c.buf.B[c.r:c.w])
			c.r = 0
		} else {
			b := buffer.Get(4 * c.w)
			copy(b.B, c.buf.B)
			c.buf.Put()
			c.buf = b
		}
	}
	n, err := c.s.Read(c.buf.B[c.w:])
	if n > 0 {
		c.answered = true
		c.w += n
	}
	return n, err
}

// parse takes in an answer's message once its head is there.
func (c *ClientConn) parse() (done bool, err error) {
	if c.buf == nil {
		return false, nil
	}
	b := c.buf.B[c.r:c.w]
	n, err := zapcodec.FramingHTTP.Next(b, messageLimit(c.o.MessageBytes))
	if err != nil {
		return false, malformed(err)
	}
	if len(b) < prefix+zapcodec.HeaderLen {
		return false, nil
	}
	var l zapcodec.Layout
	if len(b) < n {
		if l, done, err = c.layout(b, n-prefix); !done || err != nil {
			return false, err
		}
		b = c.buf.B[c.r:c.w]
	}
	if len(b) >= n {
		return c.parsed(c.view.Parse(b[prefix:n:n]), n-prefix, l)
	}
	head := prefix + int(l.Body.Off)
	return c.parsed(c.view.ParseHead(b[prefix:head:head], n-prefix), n-prefix, l)
}

// layout looks at the beginning of a message: ok is set where its head is there.
// It looks once, without waiting, for the rest of one that should fit the buffer.
func (c *ClientConn) layout(b []byte, size int) (l zapcodec.Layout, ok bool, err error) {
	l, ok = zapcodec.LayoutOf(b[prefix:], size)
	most := c.o.Limits.HeadBytes
	if most > 0 && (!ok && len(b) > most || ok && size-int(l.Body.Len) > most) {
		return l, false, exchange.RefuseHeadSize
	}
	if !ok || !l.InOrder || len(b) < prefix+int(l.Body.Off) {
		return l, false, nil
	}
	if missing := prefix + size - len(b); c.w+missing <= len(c.buf.B) && c.s.Sock.Inside() && c.s.Sock.LookAgain() {
		if n, err := c.s.Read(c.buf.B[c.w : c.w+missing]); err == nil {
			c.w += n
		}
	}
	return l, true, nil
}

// malformedError is an answer that the codec did not take.
type malformedError struct {
	refusal *exchange.Refusal
	err     error
}

func malformed(err error) error { return &malformedError{refusalOf(err), err} }

func (e *malformedError) Error() string { return fmt.Sprintf("malformed answer: %v", e.err) }

// Unwrap gives the kind, for counting, and the fault.
func (e *malformedError) Unwrap() []error { return []error{e.refusal, e.err} }

// parsed checks the head that was parsed, and sets the answer's body up.
func (c *ClientConn) parsed(err error, size int, l zapcodec.Layout) (bool, error) {
	if err != nil {
		return false, malformed(err)
	}
	c.learn(isExtended(c.view.Frame()))
	h, req := c.head, &c.x.Request
	if r := answerHead(&c.view, h, req, &c.o.Limits, c.extended); r != nil {
		return false, r
	}
	c.used = prefix + size
	if h.Status < 200 {
		// ZAP has no interim answers, but a peer that sends one does not mean the end by it.
		if c.view.Streamed() || c.view.BodySpan().Len > 0 {
			return false, exchange.RefuseStatus
		}
		return true, nil
	}
	c.final = true
	c.reuse = c.reuse && !isLast(c.view.Frame())
	return true, c.accept(size, l, exchange.NoBody(req.Method, h.Status))
}

// learn notes what the peer speaks, for this connection and for those to come.
func (c *ClientConn) learn(flag bool) {
	c.extended = c.extended || flag
	kind := peerPublic
	if c.extended {
		kind = peerExtended
	}
	if c.o.peer.Load() != kind {
		c.o.peer.Store(kind)
	}
}

// accept sets up the body of the message that was parsed.
func (c *ClientConn) accept(size int, l zapcodec.Layout, none bool) error {
	b := &c.body
	from, end := c.r+prefix+len(c.view.Frame()), c.r+prefix+size
	switch {
	case c.view.Streamed():
		c.framing.startFrames(b, c.head.Length, c.buf.B[from:c.w], &c.o.Limits, messageLimit(c.o.MessageBytes))
	case len(c.view.Frame()) < size:
		c.framing.startMessage(b, size, l, c.buf.B[from:c.w], &c.o.Limits)
	default:
		c.extra = c.w > end
		body := c.view.Body()
		if r := startWhole(b, body, c.view.Trailers(), c.view.Frame(), &c.o.Limits); r != nil {
			return r
		}
		if len(body) == 0 && b.Trailer.Live() == 0 {
			return nil
		}
	}
	if none {
		c.reuse = false // a body where none may be
		return nil
	}
	c.hasBody = true
	return nil
}

// Body implements exchange.Call.
func (c *ClientConn) Body() exchange.Source {
	if !c.hasBody {
		return nil
	}
	return &c.body
}

// readBody waits for more of the answer's body.
func (c *ClientConn) readBody(p []byte) (int, error) {
	c.limit(c.timeouts.Idle)
	n, err := c.readWaiting(p)
	if n == 0 && err != nil {
		if isEOF(err) {
			err = serial.ErrTruncated
		}
		return 0, c.fail("read body", err)
	}
	return n, err
}

func (c *ClientConn) readWaiting(p []byte) (int, error) {
	if c.duplex || !c.s.Sock.CanStep() {
		return c.s.Read(p)
	}
	c.readInto, c.readN, c.readErr = p, 0, nil
	err := c.s.Sock.Step(c.bodyStep)
	c.readInto = nil
	if err != nil && c.readErr == nil && c.readN == 0 {
		return 0, err
	}
	return c.readN, c.readErr
}

func (c *ClientConn) stepBody() bool {
	n, err := c.s.Read(c.readInto)
	for err == stream.ErrAgain && c.s.Sock.LookAgain() { //nolint:errorlint // an identity
		n, err = c.s.Read(c.readInto) // part of a record had come, and perhaps the connection's end
	}
	if err == stream.ErrAgain { //nolint:errorlint // as above
		return false
	}
	c.readN, c.readErr = n, err
	return true
}

// Tunnel implements exchange.Call: ZAP carries none.
func (c *ClientConn) Tunnel() (exchange.Tunnel, error) { return nil, exchange.ErrTunnel }

// Finish implements exchange.Call.
func (c *ClientConn) Finish() bool {
	c.limit(0)
	reusable := c.reuse && c.err == nil && !c.extra && (c.final && (!c.hasBody || c.body.AtEnd()) && (!c.duplex || c.cleared.Load()) || c.untouched) &&
		!c.entry.Expired() && c.cancelled.Load() == nil && c.refused.Load() == nil && !c.closed.Load()
	c.body.Rest()
	c.body.Free()
	c.framing.drop()
	c.buf.Put()
	c.buf, c.r, c.w, c.used = nil, 0, 0, 0
	if c.out != nil {
		serial.PutScratch(c.out)
		c.out = nil
	}
	c.x, c.head, c.rest = nil, nil, nil
	c.cleared.Store(false)
	c.extra = false
	c.reuse = reusable
	c.idleFrom = c.o.Watch.Now()
	return reusable
}
