package serial

import (
	"github.com/hanzoai/pqgw/transports/buffer"
	"github.com/hanzoai/pqgw/transports/stream"
)

// Pending is what was read and not used.
func (c *Conn) Pending() []byte {
	if c.buf == nil {
		return nil
	}
	return c.buf.B[c.r:c.w]
}

// Skip takes the first n bytes of Pending as not sent.
func (c *Conn) Skip(n int) { c.r += n }

// fill reads more. Inside a callback it may find nothing yet; an idle
// connection then keeps no buffer.
func (c *Conn) fill() (again, failed bool) {
	if c.r == c.w {
		c.shrink()
		c.rest()
		c.state = stateIdle // also where a head seemed to begin that was skipped
	}
	c.room()
	n, err := c.Stream.Read(c.buf.B[c.w:])
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
		return !c.Stream.Sock.LookAgain(), false
	}
	c.buf.Put()
	c.buf, c.r, c.w = nil, 0, 0
	return true, false
}

// shrink gives back what a long message took, which nobody knows to be followed by another.
func (c *Conn) shrink() {
	if c.buf != nil && len(c.buf.B) > buffer.Medium {
		c.buf.Put()
		c.buf = nil
	}
	c.r, c.w = 0, 0
}

// room makes space behind what was read, for the rest of the request: no more at once
// than four times what has come, so that announcing much costs nothing.
func (c *Conn) room() {
	if c.buf == nil {
		c.buf = buffer.Get(buffer.Small)
	}
	if c.w < len(c.buf.B) {
		return
	}
	have := c.w - c.r
	want := have + buffer.Small
	if c.Size > 0 {
		want = max(have+1, min(c.Size, max(buffer.Medium, 4*have)))
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
	if c.Head > 0 {
		c.Turn.X.Request.Rebase(c.buf.B[:c.Head])
	}
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
