package http1

import (
	"io"
	"net"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
)

// lingerTime bounds how long a closing connection goes on reading what the client
// still sends, so that our answer is not lost to a reset (RFC 9112, section 9.6).
const lingerTime = 5 * time.Second

// lingerBytes bounds how much of it.
const lingerBytes = 64 << 20

// serve hands the exchange to the handler and makes ready for the next.
func (c *Conn) serve() {
	c.state = stateServing
	c.requests++
	q := &c.x.Request
	rest := c.buf.B[min(c.r+c.headEnd, c.w):c.w]
	c.unread = false
	used := 0
	switch {
	case c.x.Refusal != nil:
		c.x.Body, c.unread = nil, c.x.Refusal.Close
	case !q.Chunked && q.Length <= 0:
		c.x.Body = nil
	case !q.Chunked && int64(len(rest)) >= q.Length:
		used = int(q.Length)
		c.whole.Reset(rest[:used])
		c.x.Body, c.x.BytesIn = &c.whole, q.Length
	default:
		c.stream(rest)
	}
	c.answer.reset()
	c.closing = q.Close || c.x.Refusal != nil && c.unread || c.draining.Load() || c.o.MaxRequests > 0 && c.requests >= c.o.MaxRequests
	c.limit(c.o.StreamIdle)
	c.o.Watch.Ask(&c.entry)
	c.o.Handler.Serve(&c.x)
	c.entry.Unask()
	c.finish(used)
}

// stream sets the body up that has not all come.
func (c *Conn) stream(rest []byte) {
	q := &c.x.Request
	if q.Chunked {
		c.chunks.reset(&c.o.Limits)
		c.body.StartFramed(rest, &c.chunks, 0, -1)
	} else {
		c.body.StartSized(rest, q.Length)
	}
	c.body.Bound(c.o.Limits.BodyBytes, &c.x.BytesIn)
	c.waited = 0
	if q.ExpectContinue {
		c.body.BeforeWait(c.cont)
	}
	c.x.Body, c.unread = &c.body, true
}

// finish ends the exchange: the connection goes on with what was read behind it,
// or ends.
func (c *Conn) finish(used int) {
	a := &c.answer
	if !a.started && !a.aborted {
		a.Abort(errNoAnswer)
	}
	if a.aborted || a.tunnelled {
		c.err = errClosed
		return
	}
	if c.x.Body == exchange.Source(&c.body) {
		c.unread = !c.body.Done()
		if c.body.GivenUp() {
			_ = c.s.Sock.SetReadDeadline(time.Time{})
		}
		rest := c.body.Rest()
		if !c.unread {
			c.keep(rest) // before its memory, which may be the body's, is another's
		}
		c.body.Free()
	} else {
		c.r = min(c.w, c.r+c.headEnd+used)
	}
	if c.closing || c.unread {
		c.err = io.EOF
		return
	}
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	c.idle()
}

// keep makes what was read behind a streamed body the beginning of the buffer.
func (c *Conn) keep(rest []byte) {
	if len(rest) > len(c.buf.B) {
		b := buffer.Get(len(rest))
		copy(b.B, rest)
		c.buf.Put()
		c.buf = b
	} else {
		copy(c.buf.B, rest)
	}
	c.r, c.w = 0, len(rest)
}

// readBody waits for bytes of the request's body, at the rate that is asked of
// clients.
func (c *Conn) readBody(p []byte) (int, error) {
	began := c.o.Watch.Now()
	if c.answer.sent.Load() {
		c.limit(c.o.StreamIdle)
	} else {
		c.limit(c.bodyTime(c.body.Total(), c.waited))
	}
	n, err := c.s.Read(p)
	c.waited += c.o.Watch.Now() - began
	if err == nil || n > 0 {
		c.limit(c.o.StreamIdle)
		return n, err
	}
	if isTimeout(err) && c.entry.Expired() {
		_ = c.s.Sock.SetDeadline(time.Now().Add(lingerTime))
		return n, exchange.RefuseSlowBody
	}
	if c.drainOnly(err) && !c.body.GivenUp() {
		return c.s.Read(p)
	}
	return n, err
}

// drainOnly tells whether a read was interrupted for no more than that we want to stop:
// what had begun goes on. It takes the deadline back before it looks for other
// reasons, which are noted before they interrupt: none is lost.
func (c *Conn) drainOnly(err error) bool {
	if !isTimeout(err) || !c.draining.Load() {
		return false
	}
	_ = c.s.Sock.SetReadDeadline(time.Time{})
	return !c.gone.Load() && !c.entry.Expired()
}

// sendContinue asks the client for the body that it holds back.
func (c *Conn) sendContinue() error {
	if c.answer.continued || c.answer.sent.Load() {
		return nil
	}
	c.answer.continued = true
	_, err := c.s.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	return err
}

// end closes the connection: at once where all was read, lingering where the
// client may still be sending.
func (c *Conn) end() {
	aborted := false
	if c.work != nil {
		aborted = c.answer.aborted
		c.body.Free()
	}
	if c.work != nil && c.answer.started && !c.answer.aborted && !c.answer.tunnelled && c.unread {
		c.linger()
	}
	c.o.Watch.Remove(&c.entry)
	c.buf.Put()
	c.buf = nil
	c.rest()
	if aborted {
		c.reset()
		return
	}
	_ = c.s.Close()
}

// reset closes so that the client sees that its answer is not whole.
func (c *Conn) reset() {
	if t, ok := c.s.Sock.Conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.s.Sock.Close()
}

func (c *Conn) linger() {
	_ = c.s.Sock.SetDeadline(time.Now().Add(lingerTime))
	if c.s.CloseWrite() != nil {
		return
	}
	// What was read is of no more use, nor is the length that the client announced.
	if c.buf == nil {
		c.buf = buffer.Get(buffer.Small)
	}
	for left := lingerBytes; left > 0; {
		n, err := c.s.Sock.Read(c.buf.B)
		if err != nil {
			return
		}
		left -= n
	}
}
