package serial

import (
	"errors"
	"io"

	"github.com/hanzoai/pqgw/exchange"
)

var errUnsolicited = errors.New("the upstream sent bytes that nothing asked for")

// Begin makes the call ready for a request.
func (c *ClientConn) Begin(x *exchange.Exchange, t exchange.Timeouts) error {
	c.X, c.timeouts = x, t
	c.err, c.answered, c.Final, c.HasBody, c.Bare, c.duplex = nil, false, false, false, false, false
	c.Used, c.rest, c.pending, c.untouched = 0, nil, false, true
	c.cleared.Store(false)
	c.begun.Store(false)
	c.refused.Store(nil)
	if c.Out == nil {
		c.Out = GetScratch()
	}
	*c.Out = (*c.Out)[:0]
	if c.r != c.w {
		return c.Fail("send", errUnsolicited)
	}
	return nil
}

// Again makes the call ready for the request that was to be sent, after another that had
// to go first has been answered.
func (c *ClientConn) Again(x *exchange.Exchange) error {
	c.forget()
	return c.Begin(x, c.timeouts)
}

// Timeouts are those of the call.
func (c *ClientConn) Timeouts() exchange.Timeouts { return c.timeouts }

// Hold keeps a request whose head is in Out, with a body that is whole, until ReadHead.
func (c *ClientConn) Hold(body []byte) {
	c.pending = true
	if len(body) <= JoinBytes {
		*c.Out = append(*c.Out, body...)
	} else {
		c.rest = body
	}
}

// Duplex lets SendBody run beside the reading of the answer.
func (c *ClientConn) Duplex() { c.duplex, c.untouched = true, false }

// Open sends the head in Out of a request whose body SendBody sends.
func (c *ClientConn) Open() error {
	c.Duplex()
	if err := c.write(); err != nil {
		return c.Fail("send", err)
	}
	return nil
}

// write sends what was prepared.
func (c *ClientConn) write() error {
	c.pending, c.untouched = false, false
	var err error
	if len(c.rest) > 0 {
		err = c.Stream.Writev(*c.Out, c.rest, nil)
		c.rest = nil
	} else {
		_, err = c.Stream.Write(*c.Out)
	}
	*c.Out = (*c.Out)[:0]
	return err
}

// Pour sends the body piece by piece: framed by f, or as it is where f is nil. length is
// what was announced, or -1.
func (c *ClientConn) Pour(src exchange.Source, f Framing, length int64) error {
	for left := length; ; {
		p, err := src.Next()
		if err != nil && err != io.EOF { //nolint:errorlint // the end is this value
			return err
		}
		last := err == io.EOF //nolint:errorlint // as above
		if length >= 0 {
			if left -= int64(len(p)); left < 0 || last && left > 0 {
				return c.GiveUp(sendError(ErrBodyLength))
			}
		}
		if err := c.piece(f, p, last, src); err != nil {
			return err
		}
		if last {
			c.Sent()
			return nil
		}
	}
}

// piece sends p, and the end behind the last.
func (c *ClientConn) piece(f Framing, p []byte, last bool, src exchange.Source) error {
	if f == nil {
		return c.SendPiece(nil, p, nil)
	}
	most := f.MostPiece()
	for ; len(p) > most; p = p[most:] {
		if err := c.frame(f, p[:most], false, nil); err != nil {
			return err
		}
	}
	var trailers *exchange.Head
	if last {
		trailers = src.Trailers()
	}
	return c.frame(f, p, last, trailers)
}

func (c *ClientConn) frame(f Framing, p []byte, last bool, trailers *exchange.Head) error {
	out := (*c.Out)[:0]
	if len(p) > 0 {
		out = f.AppendFrame(out, len(p))
	}
	head := len(out)
	out, err := f.AppendEnd(out, len(p), last, trailers)
	if err != nil {
		return sendError(err)
	}
	*c.Out = out
	return c.SendPiece(out[:head], p, out[head:])
}

// SendPiece sends bytes of the body, of which any may be none.
func (c *ClientConn) SendPiece(head, p, tail []byte) error {
	if len(head)+len(p)+len(tail) == 0 {
		return nil
	}
	c.Extend()
	if err := c.Stream.Writev(head, p, tail); err != nil {
		return sendError(err)
	}
	return nil
}

// Sent starts the wait for the answer to a request that was streamed, unless that has begun.
func (c *ClientConn) Sent() {
	c.cleared.Store(true)
	c.limit(c.timeouts.FirstByte)
	if c.begun.Load() {
		c.Extend()
	}
}

// GiveUp ends the call from the side that sends: ReadHead tells why.
func (c *ClientConn) GiveUp(reason error) error {
	c.refused.Store(&reason)
	c.wake()
	return reason
}

func sendError(err error) error {
	return &exchange.UpstreamError{Op: "send", Err: err}
}
