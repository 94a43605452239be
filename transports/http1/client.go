package http1

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/stream"
)

// ClientOptions are what all connections to an endpoint share.
type ClientOptions struct {
	// Watch keeps the deadlines.
	Watch *deadline.Watch
	// Limits on answers' heads and trailers; BodyBytes is not heeded.
	Limits exchange.Limits
}

// ClientConn is the client's side of one connection: an exchange.ClientConn of
// capacity 1 whose only call is part of it.
type ClientConn struct {
	o     *ClientOptions
	s     *stream.Stream
	info  *exchange.Conn
	entry deadline.Entry

	buf     *buffer.Buffer // what was read: buf.B[r:w]
	r, w    int
	scanned int

	x        *exchange.Exchange
	timeouts exchange.Timeouts
	out      *[]byte // the request's head, and a small body behind it, until they are sent
	rest     []byte  // a larger whole body, in the caller's memory
	pending  bool    // out and rest wait for ReadHead
	duplex   bool    // SendBody runs beside the reading: no callbacks
	chunked  bool
	unsent   bool // the request's body has not been sent to its end
	head     *exchange.Head
	headLen  int
	body     serial.Body
	chunks   chunks
	hasBody  bool
	extra    bool        // bytes came that belong to no answer
	cleared  atomic.Bool // the streamed request was sent to its end
	answered bool        // bytes of an answer have come
	final    bool        // the final head has come
	reuse    bool
	tunnel   bool
	err      error
	step     func() bool
	bodyStep func() bool
	readInto []byte
	readN    int
	readErr  error
	idleFrom int64 // by the watch
	bare     bool  // the last answer had no body: what follows it was not looked for

	canceller exchange.Canceller
	cancelled atomic.Pointer[error]
	closed    atomic.Bool
}

// NewClientConn makes the client's side of s.
func NewClientConn(s *stream.Stream, info *exchange.Conn, o *ClientOptions) *ClientConn {
	c := &ClientConn{o: o, s: s, info: info, reuse: true}
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
	// Between requests that follow each other at once a look would be a system call
	// too many. But a body that belongs to no answer, to HEAD as a rule, must not be
	// taken for the next client's answer.
	if !c.bare && c.o.Watch.Now() == c.idleFrom {
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

// Send implements exchange.Call. A request that is whole waits for ReadHead, so
// that it is written inside the callback that then awaits the answer.
func (c *ClientConn) Send(x *exchange.Exchange, src exchange.Source, t exchange.Timeouts) error {
	c.x, c.timeouts = x, t
	c.err, c.answered, c.final, c.hasBody, c.tunnel = nil, false, false, false, false
	c.scanned, c.headLen, c.duplex, c.rest = 0, 0, false, nil
	if c.r != c.w {
		return c.fail("send", errUnsolicited)
	}
	whole, ok := []byte(nil), true
	length := int64(-1)
	if src != nil {
		whole, ok = src.Whole()
		if length = src.Length(); !ok && x.Request.Has(exchange.Trailer) {
			length = -1 // HTTP/2 has trailers beside a length; here they need chunks
		}
	}
	c.chunked = src != nil && length < 0
	if c.out == nil {
		c.out = serial.GetScratch()
	}
	*c.out = appendRequest((*c.out)[:0], &x.Request, src != nil, length)
	c.unsent = !ok
	if ok && len(whole) <= serial.JoinBytes {
		*c.out = append(*c.out, whole...)
	} else if ok {
		c.rest = whole
	}
	c.pending = ok
	if ok {
		return nil
	}
	c.duplex = true
	return c.sent(c.write())
}

var errUnsolicited = errors.New("the upstream sent bytes that nothing asked for")

// write sends what Send prepared.
func (c *ClientConn) write() error {
	c.pending = false
	var err error
	if len(c.rest) > 0 {
		err = c.s.Writev(*c.out, c.rest, nil)
		c.rest = nil
	} else {
		_, err = c.s.Write(*c.out)
	}
	*c.out = (*c.out)[:0]
	return err
}

func (c *ClientConn) sent(err error) error {
	if err != nil {
		return c.fail("send", err)
	}
	return nil
}

// fail ends the connection's use and names what was being done.
func (c *ClientConn) fail(op string, err error) error {
	c.reuse = false
	switch {
	case c.cancelled.Load() != nil:
		err = *c.cancelled.Load()
	case serial.IsTimeout(err):
		err = exchange.ErrTimeout
	}
	return &exchange.UpstreamError{Op: op, Answered: c.answered, Err: err}
}

// SendBody implements exchange.Call.
func (c *ClientConn) SendBody(src exchange.Source) error {
	for {
		p, err := src.Next()
		if err != nil && err != io.EOF { //nolint:errorlint // the end is this value
			return err
		}
		last := err == io.EOF //nolint:errorlint // as above
		out := (*c.out)[:0]
		if c.chunked && len(p) > 0 {
			out = appendChunkHead(out, len(p))
		}
		head := len(out)
		if c.chunked {
			var trailers *exchange.Head
			if last {
				trailers = src.Trailers()
			}
			out = appendChunkEnd(out, len(p), last, trailers)
		}
		*c.out = out
		c.limit(c.timeouts.Idle)
		if err := c.s.Writev(out[:head], p, out[head:]); err != nil {
			return &exchange.UpstreamError{Op: "send", Answered: false, Err: err}
		}
		if last {
			c.bodySent()
			return nil
		}
	}
}

// bodySent starts the wait for the answer.
func (c *ClientConn) bodySent() {
	c.cleared.Store(true)
	c.limit(c.timeouts.FirstByte)
}

func (c *ClientConn) limit(d time.Duration) { c.o.Watch.Set(&c.entry, d) }

// ReadHead implements exchange.Call.
func (c *ClientConn) ReadHead(h *exchange.Head) error {
	if c.final {
		return c.fail("read head", serial.ErrAnswered)
	}
	c.drop()
	c.head = h
	if !c.unsent || c.cleared.Load() {
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

// drop forgets the interim head that was read before.
func (c *ClientConn) drop() {
	if c.headLen > 0 {
		c.r += c.headLen
		c.headLen, c.scanned = 0, 0
	}
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
		if done, err := c.parseHead(); done || err != nil {
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

// read takes in more behind what was read.
func (c *ClientConn) read() (int, error) {
	if c.buf == nil {
		c.buf, c.r, c.w = buffer.Get(buffer.Medium), 0, 0
	}
	if c.w == len(c.buf.B) {
		if c.r == 0 {
			return 0, exchange.RefuseHeadSize
		}
		c.w = copy(c.buf.B, c.buf.B[c.r:c.w])
		c.r = 0
	}
	n, err := c.s.Read(c.buf.B[c.w:])
	if n > 0 {
		c.answered = true
		c.w += n
	}
	return n, err
}

// parseHead takes in a head once all of it has come.
func (c *ClientConn) parseHead() (done bool, err error) {
	if c.buf == nil {
		return false, nil
	}
	b := c.buf.B[c.r:c.w]
	end, next, r := scanHead(b, c.scanned)
	c.scanned = next
	if r == nil && (end > c.o.Limits.HeadBytes || end == 0 && len(b) > c.o.Limits.HeadBytes) {
		r = exchange.RefuseHeadSize
	}
	if r != nil {
		return false, r
	}
	if end == 0 {
		return false, nil
	}
	minor, r := parseResponse(b[:end:end], c.head, c.o.Limits.Fields)
	if r == nil {
		r = exchange.CheckResponse(c.head, &c.x.Request, exchange.HTTP1, minor, &c.o.Limits)
	}
	if r != nil {
		return false, r
	}
	c.headLen = end
	if c.head.Status >= 200 || c.head.Status == 101 {
		c.accept(minor)
	}
	return true, nil
}

// accept sets the answer's body up, and looks once, without waiting, for the
// rest of one that should fit the buffer.
func (c *ClientConn) accept(minor int) {
	h := c.head
	c.final = true
	if h.Status == 101 {
		c.tunnel, c.reuse = true, false
		return
	}
	c.reuse = c.reuse && !h.Close
	if c.bare = exchange.NoBody(c.x.Request.Method, h.Status) || h.Length == 0; c.bare {
		c.extra = c.w > c.r+c.headLen
		// Who announces a body where none may be, sends it, and not at once perhaps.
		c.reuse = c.reuse && (h.Status != 204 || h.Length <= 0 && !h.Chunked)
		return
	}
	c.hasBody = true
	from := c.r + c.headLen
	switch {
	case h.Chunked:
		c.chunks.reset(&c.o.Limits)
		c.body.StartFramed(c.buf.B[from:c.w], &c.chunks, 0, -1)
	case h.Length < 0:
		c.reuse = false
		c.body.StartToClose(c.buf.B[from:c.w])
	default:
		c.lookAhead(h.Length)
		end := int(min(int64(c.w), int64(from)+h.Length))
		c.w, c.extra = end, c.w > end
		c.body.StartSized(c.buf.B[from:end], h.Length)
	}
}

// lookAhead reads what has arrived since the head did, where it makes the
// body whole in the buffer.
func (c *ClientConn) lookAhead(length int64) {
	missing := int64(c.r+c.headLen) + length - int64(c.w)
	if missing <= 0 || int64(c.w)+missing > int64(len(c.buf.B)) || !c.s.Sock.Inside() {
		return
	}
	if !c.s.Sock.LookAgain() {
		return
	}
	if n, err := c.s.Read(c.buf.B[c.w : int64(c.w)+missing]); err == nil {
		c.w += n
	}
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
	if n == 0 && err != nil && err != io.EOF { //nolint:errorlint // from a Read
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

// Tunnel implements exchange.Call.
func (c *ClientConn) Tunnel() (exchange.Tunnel, error) {
	if !c.tunnel {
		return nil, exchange.ErrTunnel
	}
	c.limit(c.timeouts.Idle)
	return &clientTunnel{c: c, early: bytes.Clone(c.buf.B[c.r+c.headLen : c.w])}, nil
}

// Finish implements exchange.Call.
func (c *ClientConn) Finish() bool {
	c.limit(0)
	reusable := c.reuse && c.final && c.err == nil && !c.extra && (!c.unsent || c.cleared.Load()) &&
		(!c.hasBody || c.body.AtEnd()) && !c.entry.Expired() && c.cancelled.Load() == nil && !c.closed.Load()
	c.body.Rest()
	c.body.Free()
	c.buf.Put()
	c.buf, c.r, c.w = nil, 0, 0
	if c.out != nil {
		serial.PutScratch(c.out)
		c.out = nil
	}
	c.x, c.head = nil, nil
	c.cleared.Store(false)
	c.extra = false
	c.reuse = reusable
	c.idleFrom = c.o.Watch.Now()
	return reusable
}

// clientTunnel is the upstream's side of an upgraded connection.
type clientTunnel struct {
	c     *ClientConn
	early []byte // what came along with the 101
}

func (t *clientTunnel) Read(p []byte) (int, error) {
	if len(t.early) > 0 {
		n := copy(p, t.early)
		t.early = t.early[n:]
		return n, nil
	}
	n, err := t.c.s.Read(p)
	t.c.limit(t.c.timeouts.Idle)
	return n, err
}

func (t *clientTunnel) Write(p []byte) (int, error) {
	t.c.limit(t.c.timeouts.Idle)
	return t.c.s.Write(p)
}

func (t *clientTunnel) CloseWrite() error { return t.c.s.CloseWrite() }

func (t *clientTunnel) Close() error { return t.c.s.Close() }
