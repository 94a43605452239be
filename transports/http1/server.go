package http1

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/stream"
)

// Options are what all connections of a listener share.
type Options struct {
	// Handler serves the exchanges.
	Handler exchange.Handler
	// Watch keeps the deadlines.
	Watch *deadline.Watch
	// Limits on requests.
	Limits exchange.Limits
	// HeadTimeout is the longest from the first byte of a head to its last.
	HeadTimeout time.Duration
	// IdleTimeout closes a connection without a request.
	IdleTimeout time.Duration
	// StreamIdle ends an exchange in which nothing moves.
	StreamIdle time.Duration
	// WriteTimeout cuts a client that has not taken what one write holds; 0 stands for StreamIdle.
	WriteTimeout time.Duration
	// BodyMinRate is the slowest a request body may arrive, in bytes per second; 0 for any.
	BodyMinRate int64
	// MaxRequests closes the connection in good order after so many; 0 for never.
	MaxRequests int
	// H2C lets Serve return ErrPreface to a client that begins with HTTP/2.
	H2C bool
}

// ErrPreface: the client speaks HTTP/2 with prior knowledge (RFC 9113, section
// 3.3). Conn.Unread has what it sent.
var ErrPreface = errors.New("HTTP/2 connection preface")

// maxWholeBody is the largest request body that is gathered before the request is
// dispatched; larger ones are streamed.
const maxWholeBody = 64 << 10

// graceWhileDraining is how long an idle connection may stay once we want to
// stop: a request that is on its way then still gets its answer.
const graceWhileDraining = time.Second

// Conn is the server's side of one connection. Serve runs it; Shutdown and Close
// may be called from elsewhere.
type Conn struct {
	o     *Options
	s     *stream.Stream
	info  *exchange.Conn
	entry deadline.Entry

	buf      *buffer.Buffer // what was read: buf.B[r:w]
	r, w     int
	scanned  int // of the head being read, from r
	headEnd  int // from r; 0 while it is incomplete
	minor    int
	requests int

	// work is what one request takes; an idle connection has none. mu guards the
	// pointer against those who cancel.
	*work
	mu sync.Mutex

	step    func() bool
	err     error // why serving ends
	state   connState
	closing bool  // answer with Connection: close
	began   int64 // when we began to wait for the body, by the watch
	waited  int64 // for how long we did, milliseconds
	unread  bool  // the request's body was not read to its end
	// Methods as values, kept so that they cost no allocation.
	reader    func([]byte) (int, error)
	interrupt func()
	cont      func() error

	draining atomic.Bool
	gone     atomic.Bool
}

// work is the state of a request. It is pooled: of ten thousand connections most
// are idle.
type work struct {
	x      exchange.Exchange
	body   serial.Body
	chunks chunks
	whole  exchange.Bytes
	answer answer
}

var workPool = sync.Pool{New: func() any { return new(work) }}

// begin takes the state of a request, once its first bytes have come.
func (c *Conn) begin() {
	if c.work != nil {
		return
	}
	w := workPool.Get().(*work)
	w.answer.c = c
	w.body.Use(c.reader, c.interrupt)
	w.answer.reset()
	w.x.Reset(c.info)
	c.mu.Lock()
	c.work = w
	c.mu.Unlock()
}

// rest gives it back.
func (c *Conn) rest() {
	if c.work == nil {
		return
	}
	w := c.work
	c.mu.Lock()
	c.work = nil
	c.mu.Unlock()
	w.answer.c, w.chunks.limits = nil, nil
	w.body.Drop()
	w.x.Reset(nil)
	w.x.Request.Reset(nil)
	w.x.Response.Reset(nil)
	w.x.Responder = nil
	w.whole.Reset(nil)
	workPool.Put(w)
}

// cancel tells the exchange under way, if there is one, that nobody waits for it.
func (c *Conn) cancel(reason error) {
	c.mu.Lock()
	if c.work != nil {
		c.x.Cancel(reason)
	}
	c.mu.Unlock()
}

// connState is what the connection waits for, which says what a deadline means.
type connState uint8

const (
	stateIdle connState = iota
	stateHead
	stateBody
	stateServing
)

// NewConn makes the server's side of s.
func NewConn(s *stream.Stream, info *exchange.Conn, fd int, o *Options) *Conn {
	c := &Conn{o: o, s: s, info: info}
	c.step = c.stepOnce
	s.Sock.Waiting = c.writing
	c.reader, c.interrupt = c.readBody, c.interruptRead
	c.cont = c.sendContinue
	c.entry = deadline.Entry{Expire: c.wake, Gone: c.clientGone, FD: fd}
	return c
}

// writing lets a write that waits for the client do so for WriteTimeout alone: an answer that
// nobody takes holds its memory and its upstream.
func (c *Conn) writing(begins bool) {
	switch {
	case c.state != stateServing: // TLS has something of its own to say
	case begins && c.o.WriteTimeout > 0:
		c.limit(c.o.WriteTimeout)
	default:
		c.limit(c.o.StreamIdle)
	}
}

// wake ends the waits of the connection's goroutines; they find out why.
func (c *Conn) wake() { _ = c.s.Sock.SetDeadline(time.Unix(1, 0)) }

func (c *Conn) clientGone() {
	c.gone.Store(true)
	c.cancel(exchange.ErrClientGone)
	c.interruptRead()
}

func (c *Conn) interruptRead() { _ = c.s.Sock.SetReadDeadline(time.Unix(1, 0)) }

// Shutdown lets what runs end and takes no further request, but one that is on its
// way already.
func (c *Conn) Shutdown() {
	c.draining.Store(true)
	_ = c.s.Sock.SetReadDeadline(time.Now().Add(graceWhileDraining))
}

// Close cuts the connection.
func (c *Conn) Close() {
	c.cancel(errClosed)
	_ = c.s.Sock.Close()
}

var errClosed = errors.New("connection closed by us")

// Unread is what was read and not used, after Serve returned ErrPreface.
func (c *Conn) Unread() []byte { return c.buf.B[c.r:c.w] }

// Serve serves the connection until it ends and closes it, except on
// ErrPreface, when it is the caller's again.
func (c *Conn) Serve() error {
	c.o.Watch.Add(&c.entry)
	c.idle()
	for c.err == nil {
		if c.s.Sock.CanStep() {
			if err := c.s.Sock.Step(c.step); err != nil && c.err == nil {
				c.interrupted(err)
			}
		} else {
			c.stepOnce()
		}
		if c.err == nil && c.state == stateServing {
			c.serve()
		}
	}
	if c.err == ErrPreface { //nolint:errorlint // set by us
		c.rest()
		c.s.Sock.Waiting = nil
	} else {
		c.end()
	}
	c.o.Watch.Remove(&c.entry)
	if c.err == io.EOF || c.err == errClosed { //nolint:errorlint // set by us
		return nil
	}
	return c.err
}

// stepOnce reads and serves requests until it would wait (false, only inside a
// callback), or until the connection is to be driven from outside: it has ended, or a
// request has come that is not of the common shape (true).
func (c *Conn) stepOnce() (outside bool) {
	for c.err == nil {
		if c.headEnd == 0 && !c.parseHead() || c.headEnd > 0 && !c.bodyAtHand() {
			if again, failed := c.fill(); again || failed {
				return failed
			}
			continue
		}
		if c.err != nil || !c.plain() {
			return true
		}
		c.serve()
	}
	return true
}

// fill reads more. Inside a callback it may find nothing yet; an idle
// connection then keeps no buffer.
func (c *Conn) fill() (again, failed bool) {
	c.room()
	if c.r == c.w {
		c.rest()
	}
	n, err := c.s.Read(c.buf.B[c.w:])
	if n > 0 {
		c.begin()
		c.w += n
		return false, false
	}
	if err == nil {
		return false, false
	}
	if err != stream.ErrAgain { //nolint:errorlint // an identity
		c.interrupted(err)
		return false, true
	}
	if c.r < c.w {
		return !c.s.Sock.LookAgain(), false
	}
	c.buf.Put()
	c.buf, c.r, c.w = nil, 0, 0
	return true, false
}

// room makes space behind what was read, for the rest of the head or body.
func (c *Conn) room() {
	if c.buf == nil {
		c.buf = buffer.Get(buffer.Small)
	}
	if c.w < len(c.buf.B) {
		return
	}
	have := c.w - c.r
	want := have + buffer.Small
	if c.headEnd > 0 {
		want = c.headEnd + int(c.x.Request.Length)
	}
	if want <= len(c.buf.B) {
		copy(c.buf.B, c.buf.B[c.r:c.w])
	} else {
		b := buffer.Get(max(want, 4*have))
		copy(b.B, c.buf.B[c.r:c.w])
		c.buf.Put()
		c.buf = b
	}
	c.r, c.w = 0, have
	if c.headEnd > 0 {
		c.x.Request.Rebase(c.buf.B[:c.headEnd])
	}
}

// limit moves the deadline; where it has passed already, the next wait fails.
func (c *Conn) limit(d time.Duration) { c.o.Watch.Set(&c.entry, d) }

// idle waits for the next request.
func (c *Conn) idle() {
	c.state, c.headEnd, c.scanned = stateIdle, 0, 0
	c.limit(c.o.IdleTimeout)
	c.o.Watch.AskOnce(&c.entry)
}

// parseHead takes in the head once all of it has come. It returns false where more must
// be read.
func (c *Conn) parseHead() bool {
	c.skipEmptyLine()
	b := c.pending()
	if len(b) == 0 {
		return false
	}
	if c.state == stateIdle {
		c.state = stateHead
		c.limit(c.o.HeadTimeout)
	}
	if c.o.H2C && isPreface(b) {
		c.err = ErrPreface
		return true
	}
	end, next, r := scanHead(b, c.scanned)
	c.scanned = next
	if r == nil && (end > c.o.Limits.HeadBytes || end == 0 && len(b) > c.o.Limits.HeadBytes) {
		r = exchange.RefuseHeadSize
	}
	if r != nil {
		c.refuse(r)
		return true
	}
	if end == 0 {
		return false
	}
	c.headEnd = end
	c.accept(b[:end:end])
	return true
}

func (c *Conn) pending() []byte {
	if c.buf == nil {
		return nil
	}
	return c.buf.B[c.r:c.w]
}

// skipEmptyLine takes a CR LF before the request line as not sent, as old clients
// do send it behind a body (RFC 9112, section 2.2).
func (c *Conn) skipEmptyLine() {
	if b := c.pending(); c.scanned <= 1 && len(b) >= 2 && b[0] == '\r' && b[1] == '\n' {
		c.r, c.scanned = c.r+2, 0
	}
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func isPreface(b []byte) bool {
	return len(b) >= 4 && string(b[:min(len(b), len(preface))]) == preface[:min(len(b), len(preface))]
}

// accept parses and checks a complete head.
func (c *Conn) accept(head []byte) {
	c.x.Reset(c.info)
	c.x.Start = time.Now()
	c.x.Responder = &c.answer
	minor, r := parseRequest(head, &c.x.Request, c.o.Limits.Fields)
	c.minor = minor
	if r == nil {
		r = exchange.CheckRequest(&c.x.Request, exchange.HTTP1, minor, &c.o.Limits)
	}
	c.x.Refusal = r
	c.state = stateServing
}

// refuse makes an exchange of a head that could not be parsed.
func (c *Conn) refuse(r *exchange.Refusal) {
	c.x.Reset(c.info)
	c.x.Start = time.Now()
	c.x.Responder = &c.answer
	c.x.Request.Reset(nil)
	c.x.Refusal = r
	c.minor = 1
	c.headEnd = max(1, c.w-c.r)
	c.state = stateServing
}

// bodyAtHand tells whether the request can be dispatched: its body is none, or
// here, or to be streamed.
func (c *Conn) bodyAtHand() bool {
	q := &c.x.Request
	if c.x.Refusal != nil || q.Length <= 0 || q.Length > maxWholeBody || q.ExpectContinue {
		return true
	}
	if c.w-c.r-c.headEnd >= int(q.Length) {
		return true
	}
	if c.state == stateServing {
		c.state, c.began = stateBody, c.o.Watch.Now()
	}
	c.limit(c.bodyTime(int64(c.w-c.r-c.headEnd), c.o.Watch.Now()-c.began))
	return false
}

// bodyGrace is how long a body may take before its rate counts.
const bodyGrace = 10 * time.Second

// bodyTime is how much longer a client may take that has sent so many bytes in
// so many milliseconds of our waiting.
func (c *Conn) bodyTime(got, waited int64) time.Duration {
	if c.o.BodyMinRate <= 0 {
		return c.o.StreamIdle
	}
	allowed := bodyGrace + time.Duration(got/c.o.BodyMinRate)*time.Second
	return max(time.Millisecond, allowed-time.Duration(waited)*time.Millisecond)
}

// plain tells whether the exchange is of the common shape that may run inside
// the callback: no body or one at hand, no upgrade.
func (c *Conn) plain() bool {
	q := &c.x.Request
	return !c.s.Sock.Inside() || c.x.Refusal == nil && !q.Chunked && !q.ExpectContinue && len(q.Protocol()) == 0 &&
		(q.Length <= 0 || c.w-c.r-c.headEnd >= int(q.Length))
}

// interrupted decides what the end of a wait means: the connection's end, an answer that
// says that time is up, or nothing.
func (c *Conn) interrupted(err error) {
	if !isTimeout(err) {
		switch c.err = err; c.state {
		case stateHead:
			c.err = &exchange.CutError{Reason: exchange.CutHead, Err: err}
		case stateBody:
			c.err = &exchange.CutError{Reason: exchange.CutBody, Err: err}
		}
		return
	}
	switch {
	case c.entry.Expired() && c.state == stateHead:
		c.refuse(exchange.RefuseSlowHead)
	case c.entry.Expired() && c.state == stateBody:
		c.x.Refusal, c.state = exchange.RefuseSlowBody, stateServing
	case c.state != stateIdle && c.drainOnly(err):
		return // what had begun to arrive when we began to drain may still do so
	default:
		c.err = io.EOF
		return
	}
	_ = c.s.Sock.SetDeadline(time.Now().Add(lingerTime))
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
