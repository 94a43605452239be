package zap

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/stream"
	"github.com/hanzoai/pqgw/zapcodec"
)

// Options are what all connections of a listener share.
type Options struct {
	// Handler serves the exchanges.
	Handler exchange.Handler
	// Watch keeps the deadlines.
	Watch *deadline.Watch
	// Limits on requests.
	Limits exchange.Limits
	// MessageBytes is the most bytes of one message, read or written; 0 is
	// DefaultMessageBytes.
	MessageBytes int
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
}

func messageLimit(n int) int {
	if n <= 0 {
		return DefaultMessageBytes
	}
	return n
}

// maxWhole is the largest message that is gathered before the request is
// dispatched; the body of a larger one is streamed.
const maxWhole = buffer.Medium - prefix

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
	size     int  // of the message being read; 0 while it is not known
	ready    bool // the request can be dispatched
	headEnd  int  // of a streamed request: bytes of it, from r, that are its head
	layout   zapcodec.Layout
	requests int

	view     zapcodec.RequestView
	x        exchange.Exchange
	body     serial.Body
	framing  framing
	whole    exchange.Bytes
	answer   answer
	step     func() bool
	err      error // why serving ends
	state    connState
	extended bool  // the peer speaks our extension
	closing  bool  // the answer is the last
	began    int64 // when we began to wait for the body, by the watch
	waited   int64 // for how long we did, milliseconds
	unread   bool  // the request's body was not read to its end

	draining atomic.Bool
	gone     atomic.Bool
}

// connState is what the connection waits for, which says what a deadline means.
type connState uint8

const (
	stateIdle connState = iota
	stateHead
	stateBody
	stateServing
)

// NewConn makes the server's side of s. fd is the socket's descriptor, or -1.
func NewConn(s *stream.Stream, info *exchange.Conn, fd int, o *Options) *Conn {
	c := &Conn{o: o, s: s, info: info}
	alpn := info.Facts.ALPN
	c.extended = alpn == ALPN
	c.answer.enc.opt = newOptions(alpn)
	c.step = c.stepOnce
	s.Sock.Waiting = c.writing
	c.body.Use(c.readBody, func() { _ = s.Sock.SetReadDeadline(time.Unix(1, 0)) })
	c.answer.c = c
	c.answer.sink.a = &c.answer
	c.entry = deadline.Entry{Expire: c.wake, Gone: c.clientGone, FD: fd}
	if g, ok := s.Sock.Conn.(interface{ Gone() bool }); ok {
		c.entry.Poll = g.Gone // a stream of QUIC has no socket to ask
	}
	return c
}

// wake ends the waits of the connection's goroutines; they find out why.
func (c *Conn) wake() { _ = c.s.Sock.SetDeadline(time.Unix(1, 0)) }

func (c *Conn) clientGone() {
	c.gone.Store(true)
	c.x.Cancel(exchange.ErrClientGone)
	_ = c.s.Sock.SetReadDeadline(time.Unix(1, 0))
}

// Shutdown lets what runs end and takes no further request, but one that is on its
// way already.
func (c *Conn) Shutdown() {
	c.draining.Store(true)
	_ = c.s.Sock.SetReadDeadline(time.Now().Add(graceWhileDraining))
}

// Close cuts the connection.
func (c *Conn) Close() {
	c.x.Cancel(errClosed)
	_ = c.s.Sock.Close()
}

var errClosed = errors.New("connection closed by us")

// Serve serves the connection until it ends and closes it. An end in good order
// is no error.
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
		if c.err == nil && c.ready {
			c.serve()
		}
	}
	c.end()
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
		if !c.ready && !c.parse() {
			if again, failed := c.fill(); again || failed {
				return failed
			}
			continue
		}
		if !c.plain() {
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
	n, err := c.s.Read(c.buf.B[c.w:])
	c.w += n
	if n > 0 || err == nil {
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

// room makes space behind what was read, for the rest of the message: no more
// at once than four times what has come, so that announcing much costs nothing.
func (c *Conn) room() {
	if c.buf == nil {
		c.buf = buffer.Get(buffer.Small)
	}
	if c.w < len(c.buf.B) {
		return
	}
	have := c.w - c.r
	want := have + buffer.Small
	if c.size > 0 {
		want = max(have+1, min(prefix+c.size, max(buffer.Medium, 4*have)))
	}
	if want <= len(c.buf.B) {
		copy(c.buf.B, c.buf.B[c.r:c.w])
	} else {
		b := buffer.Get(want)
		copy(b.B, c.buf.B[c.r:c.w])
		c.buf.Put()
		c.buf = b
	}
	c.r, c.w = 0, have
}

// limit moves the deadline; where it has passed already, the next wait fails.
func (c *Conn) limit(d time.Duration) { c.o.Watch.Set(&c.entry, d) }

// idle waits for the next request.
func (c *Conn) idle() {
	c.state, c.size, c.headEnd, c.ready = stateIdle, 0, 0, false
	c.limit(c.o.IdleTimeout)
	c.o.Watch.AskOnce(&c.entry)
}

func (c *Conn) pending() []byte {
	if c.buf == nil {
		return nil
	}
	return c.buf.B[c.r:c.w]
}

// parse takes in the request once enough of it has come to dispatch it. It
// returns false where more must be read.
func (c *Conn) parse() bool {
	b := c.pending()
	if len(b) == 0 {
		return false
	}
	if c.state == stateIdle {
		c.state = stateHead
		c.limit(c.o.HeadTimeout)
	}
	n, err := zapcodec.FramingHTTP.Next(b, messageLimit(c.o.MessageBytes))
	if err != nil {
		c.refuse(refusalOf(err))
		return true
	}
	if len(b) < prefix+zapcodec.HeaderLen {
		return false
	}
	c.size = n - prefix
	if len(b) < n {
		return c.parsePart(b[prefix:])
	}
	c.accept(b[prefix:n:n])
	return true
}

// parsePart looks at the beginning of a message: a head that is too large is
// refused before it is gathered, and a body that is too long to be gathered is
// streamed from where the head ends.
func (c *Conn) parsePart(b []byte) bool {
	l, ok := zapcodec.LayoutOf(b, c.size)
	most := c.o.Limits.HeadBytes
	if most > 0 && (!ok && len(b) > most || ok && c.size-int(l.Body.Len) > most) {
		c.refuse(exchange.RefuseHeadSize)
		return true
	}
	headDone := ok && l.InOrder && len(b) >= int(l.Body.Off)
	if headDone && c.size > maxWhole {
		c.acceptHead(b[:l.Body.Off:l.Body.Off], l)
		return true
	}
	if headDone || most > 0 && len(b) > most {
		if c.state == stateHead {
			c.state, c.began = stateBody, c.o.Watch.Now()
		}
		c.limit(c.bodyTime(int64(len(b)), c.o.Watch.Now()-c.began))
	}
	return false
}

// begin makes a new exchange.
func (c *Conn) begin() {
	c.x.Reset(c.info)
	c.x.Start = time.Now()
	c.x.Responder = &c.answer
	c.ready = true
}

// accept parses and checks a message that is whole.
func (c *Conn) accept(message []byte) {
	c.begin()
	c.verdict(c.view.Parse(message))
	if most := c.o.Limits.HeadBytes; c.x.Refusal == nil && most > 0 && c.size-int(c.view.BodySpan().Len) > most {
		c.x.Refusal = exchange.RefuseHeadSize
	}
	switch {
	case message[7] == zapcodec.TypeRequestHead:
		c.headEnd = prefix + c.size
	case c.x.Refusal == RefuseFrame:
		c.headEnd = prefix // who knows what the peer means: nothing more is read
	}
}

// acceptHead parses and checks the head of a message whose body is still to
// come.
func (c *Conn) acceptHead(head []byte, l zapcodec.Layout) {
	c.begin()
	c.layout = l
	c.headEnd = prefix + len(head)
	c.verdict(c.view.ParseHead(head, c.size))
}

// verdict makes the exchange's request of what was parsed.
func (c *Conn) verdict(err error) {
	if err != nil {
		c.x.Request.Reset(nil)
		c.x.Refusal = refusalOf(err)
		return
	}
	c.extended = c.extended || c.view.Extended()
	c.x.Refusal = requestHead(&c.view, &c.x.Request, &c.o.Limits, c.extended)
}

// refuse makes an exchange of a message that could not be read; where the next
// one would begin is not known.
func (c *Conn) refuse(r *exchange.Refusal) {
	c.begin()
	c.x.Request.Reset(nil)
	c.x.Refusal = r
	c.headEnd = prefix
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

// plain tells whether the exchange is of the common shape that may run inside
// the callback: a message that is whole.
func (c *Conn) plain() bool {
	return !c.s.Sock.Inside() || c.headEnd == 0 && c.x.Refusal == nil
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
		c.refuse(exchange.RefuseSlowBody)
	case c.draining.Load() && !c.entry.Expired() && !c.gone.Load() && c.state != stateIdle:
		// What had begun to arrive when we began to drain may still do so.
		_ = c.s.Sock.SetReadDeadline(time.Time{})
		return
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
