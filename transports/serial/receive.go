package serial

import (
	"errors"
	"io"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
	"github.com/hanzoai/pqgw/transports/stream"
)

var errAfterFinal = errors.New("the final answer was read already")

// Pending is what was read and not used.
func (c *ClientConn) Pending() []byte {
	if c.buf == nil {
		return nil
	}
	return c.buf.B[c.r:c.w]
}

// ReadHead implements exchange.Call.
func (c *ClientConn) ReadHead(h *exchange.Head) error {
	if c.Final {
		return c.Fail("read head", errAfterFinal)
	}
	c.r, c.Used = c.r+c.Used, 0 // past an interim head
	c.Head = h
	if !c.duplex || c.cleared.Load() {
		c.limit(c.timeouts.FirstByte)
	} else {
		c.Extend()
	}
	c.await()
	if c.err != nil {
		return c.Fail("read head", c.err)
	}
	if c.Final && c.duplex {
		c.begun.Store(true)
	}
	return nil
}

// await sends the request if it waits to be, and waits for a head.
func (c *ClientConn) await() {
	if c.duplex || !c.Stream.Sock.CanStep() {
		c.stepOnce()
		return
	}
	c.o.Watch.Ask(&c.entry)
	err := c.Stream.Sock.Step(c.step)
	c.entry.Unask()
	switch {
	case err == nil || c.err != nil:
	case c.goneOnly(err):
		c.stepOnce()
	default:
		c.err = err
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
		if c.Stream.Sock.Inside() {
			c.Stream.Sock.AwaitReadable()
			return false
		}
	}
	for {
		if c.r < c.w {
			if done, err := c.caller.Parse(); done || err != nil {
				c.err = err
				return true
			}
		}
		n, err := c.read()
		if n > 0 || err == nil {
			continue
		}
		if err == stream.ErrAgain { //nolint:errorlint // an identity
			if c.Stream.Sock.LookAgain() { // part of a head or of a record, whose end may have come too
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
	n, err := c.ReadStream(c.buf.B[c.w:])
	if n > 0 {
		c.answered = true
		c.w += n
	}
	return n, err
}

// ReadStream reads from the connection, waiting unless inside a callback.
func (c *ClientConn) ReadStream(p []byte) (int, error) {
	n, err := c.Stream.Read(p)
	if n == 0 && !c.Stream.Sock.Inside() && c.goneOnly(err) {
		return c.Stream.Read(p)
	}
	return n, err
}

// LookAhead looks once, without waiting, for the rest of a message of which size bytes are to
// be pending, where it should fit the buffer.
func (c *ClientConn) LookAhead(size int64) {
	missing := int64(c.r) + size - int64(c.w)
	if missing <= 0 || int64(c.w)+missing > int64(len(c.buf.B)) || !c.Stream.Sock.Inside() || !c.Stream.Sock.LookAgain() {
		return
	}
	if n, err := c.Stream.Read(c.buf.B[c.w : int64(c.w)+missing]); err == nil {
		c.w += n
	}
}

// Body implements exchange.Call.
func (c *ClientConn) Body() exchange.Source {
	if !c.HasBody {
		return nil
	}
	return &c.Answer
}

// readBody waits for more of the answer's body.
func (c *ClientConn) readBody(p []byte) (int, error) {
	c.Extend()
	n, err := c.readWaiting(p)
	if n > 0 || err == nil {
		return n, err
	}
	if err == io.EOF { //nolint:errorlint // from a Read
		if c.Answer.toClose {
			return 0, err
		}
		err = ErrTruncated
	}
	return 0, c.Fail("read body", err)
}

func (c *ClientConn) readWaiting(p []byte) (int, error) {
	if c.duplex || !c.Stream.Sock.CanStep() {
		return c.ReadStream(p)
	}
	c.readInto, c.readN, c.readErr = p, 0, nil
	err := c.Stream.Sock.Step(c.bodyStep)
	c.readInto = nil
	if c.goneOnly(err) {
		return c.Stream.Read(p)
	}
	if err != nil && c.readErr == nil && c.readN == 0 {
		return 0, err
	}
	return c.readN, c.readErr
}

func (c *ClientConn) stepBody() bool {
	n, err := c.Stream.Read(c.readInto)
	for err == stream.ErrAgain && c.Stream.Sock.LookAgain() { //nolint:errorlint // an identity
		n, err = c.Stream.Read(c.readInto) // part of a record had come, and perhaps the connection's end
	}
	if err == stream.ErrAgain { //nolint:errorlint // as above
		return false
	}
	c.readN, c.readErr = n, err
	return true
}
