package zap

import (
	"io"
	"net"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
)

// lingerTime bounds how long a closing connection goes on reading what the client
// still sends, so that our answer is not lost to a reset.
const lingerTime = 5 * time.Second

// lingerBytes bounds how much of it.
const lingerBytes = 64 << 20

// serve hands the exchange to the handler and makes ready for the next.
func (c *Conn) serve() {
	c.state = stateServing
	c.requests++
	c.unread = false
	c.setBody()
	c.answer.reset()
	c.closing = c.unread && c.x.Refusal != nil || c.draining.Load() || c.o.MaxRequests > 0 && c.requests >= c.o.MaxRequests
	c.limit(c.o.StreamIdle)
	c.o.Watch.Ask(&c.entry)
	c.o.Handler.Serve(&c.x)
	c.entry.Unask()
	c.finish()
}

// setBody gives the exchange its body: none, bytes that are here, or a stream.
func (c *Conn) setBody() {
	x := &c.x
	x.Body = nil
	if x.Refusal != nil {
		c.unread = c.headEnd > 0
		return
	}
	if c.headEnd > 0 {
		rest := c.buf.B[c.r+c.headEnd : c.w]
		if c.view.Streamed() {
			c.framing.startFrames(&c.body, x.Request.Length, rest, &c.o.Limits, messageLimit(c.o.MessageBytes))
		} else {
			c.framing.startMessage(&c.body, c.size, c.layout, rest, &c.o.Limits)
		}
		c.body.Bound(c.o.Limits.BodyBytes, &x.BytesIn)
		c.waited = 0
		x.Body, c.unread = &c.body, true
		return
	}
	body, trailers := c.view.Body(), c.view.Trailers()
	if trailers.Count() > 0 {
		if x.Refusal = startWhole(&c.body, body, trailers, c.view.Frame(), &c.o.Limits); x.Refusal == nil {
			c.body.Bound(0, &x.BytesIn)
			x.Body = &c.body
		}
		return
	}
	if len(body) > 0 {
		c.whole.Reset(body)
		x.Body, x.BytesIn = &c.whole, int64(len(body))
	}
}

// finish ends the exchange: the connection goes on with what was read behind it,
// or ends.
func (c *Conn) finish() {
	a := &c.answer
	if !a.started && !a.aborted {
		a.Abort(errNoAnswer)
	}
	if a.aborted {
		c.err = errClosed
		return
	}
	if c.headEnd == 0 {
		c.r = min(c.w, c.r+prefix+c.size)
	} else if c.x.Body == exchange.Source(&c.body) {
		c.unread = !c.body.Done()
		if c.body.GivenUp() {
			_ = c.s.Sock.SetReadDeadline(time.Time{})
		}
		rest := c.body.Rest()
		if !c.unread {
			c.keep(rest)
		}
		c.body.Free()
		c.framing.drop()
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
	if isTimeout(err) && c.draining.Load() {
		// Other reasons are noted before they interrupt: looked at behind this, none is lost.
		_ = c.s.Sock.SetReadDeadline(time.Time{})
		if !c.gone.Load() && !c.body.GivenUp() && !c.entry.Expired() {
			return c.s.Read(p)
		}
	}
	return n, err
}

// end closes the connection: at once where all was read, lingering where the
// client may still be sending.
func (c *Conn) end() {
	c.body.Free()
	if c.answer.started && !c.answer.aborted && c.unread {
		c.linger()
	}
	c.o.Watch.Remove(&c.entry)
	c.buf.Put()
	c.buf = nil
	if c.answer.aborted {
		c.reset()
		return
	}
	_ = c.s.Close()
}

// resetter is a connection that can be cut so that the peer sees it as such: a
// stream of QUIC.
type resetter interface{ Reset() }

// reset closes so that the client sees that its answer is not whole.
func (c *Conn) reset() { cut(c.s.Sock.Conn) }

func cut(nc net.Conn) {
	switch t := nc.(type) {
	case *net.TCPConn:
		_ = t.SetLinger(0)
	case resetter:
		t.Reset()
	}
	_ = nc.Close()
}

func (c *Conn) linger() {
	_ = c.s.Sock.SetDeadline(time.Now().Add(lingerTime))
	if c.s.CloseWrite() != nil {
		return
	}
	c.room()
	for left := lingerBytes; left > 0; {
		n, err := c.s.Sock.Read(c.buf.B)
		if err != nil {
			return
		}
		left -= n
	}
}
