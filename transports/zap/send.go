package zap

import (
	"errors"
	"io"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/zapcodec"
)

// sendMode is how SendBody sends the body that Send left.
type sendMode uint8

const (
	sendNothing  sendMode = iota
	sendInside            // in the message whose head was sent, its length being known
	sendFrames            // in data frames: the peer speaks the extension
	sendGathered          // in one message once all of it is here: the peer does not
)

func isEOF(err error) bool { return err == io.EOF } //nolint:errorlint // sources end with this value

// fits is the longest body that is sent in one message.
func (c *ClientConn) fits() int64 { return int64(messageLimit(c.o.MessageBytes) - headRoom) }

// begin makes the call ready for a request.
func (c *ClientConn) begin(x *exchange.Exchange, t exchange.Timeouts) {
	c.x, c.timeouts = x, t
	c.err, c.answered, c.final, c.hasBody, c.duplex = nil, false, false, false, false
	c.used, c.rest, c.pending, c.untouched, c.expect = 0, nil, false, true, false
	c.mode, c.length = sendNothing, -1
	c.cleared.Store(false)
	c.refused.Store(nil)
	if c.out == nil {
		c.out = serial.GetScratch()
	}
}

// Send implements exchange.Call. A request that is whole waits for ReadHead, so
// that it is written inside the callback that then awaits the answer. An upgrade is
// refused with exchange.ErrTunnel, a body that the peer cannot be sent with
// RefuseUnstreamable; the connection may be used again after both.
func (c *ClientConn) Send(x *exchange.Exchange, src exchange.Source, t exchange.Timeouts) error {
	c.begin(x, t)
	if len(x.Request.Protocol()) > 0 || x.Request.Method == exchange.CONNECT {
		return exchange.ErrTunnel
	}
	if c.r != c.w {
		return c.fail("send", errUnsolicited)
	}
	if src == nil {
		return c.hold(nil)
	}
	if whole, ok := src.Whole(); ok && int64(len(whole)) <= c.fits() {
		return c.hold(whole)
	}
	if err := c.choose(src.Length()); err != nil {
		return err
	}
	return c.open()
}

var errUnsolicited = errors.New("the upstream sent bytes that nothing asked for")

// hold prepares a whole request.
func (c *ClientConn) hold(body []byte) error {
	if err := c.prepare(zapcodec.TypeRequest, len(body), -1); err != nil {
		return err
	}
	if len(body) <= serial.JoinBytes {
		*c.out = append(*c.out, body...)
	} else {
		c.rest = body
	}
	c.pending = true
	return nil
}

// prepare writes the request's head into out.
func (c *ClientConn) prepare(kind byte, body int, length int64) error {
	out, err := c.enc.request((*c.out)[:0], &c.x.Request, kind, body, length)
	if err != nil {
		return &exchange.UpstreamError{Op: "send", Err: err}
	}
	*c.out = out
	return nil
}

// choose decides how a body is sent that is not here as a whole.
func (c *ClientConn) choose(length int64) error {
	inside := length >= 0 && length <= c.fits()
	if !inside && !c.extended && c.o.peer.Load() != peerPublic {
		if err := c.ask(); err != nil {
			return err
		}
	}
	c.length = length
	switch {
	case inside && !(c.extended && c.x.Request.Has(exchange.Trailer)):
		c.mode = sendInside
	case c.extended:
		c.mode = sendFrames
	case inside || length < 0:
		c.mode = sendGathered
	default:
		return RefuseUnstreamable
	}
	return nil
}

// open sends the head of a request whose body SendBody sends.
func (c *ClientConn) open() error {
	c.duplex, c.untouched, c.expect = true, false, c.x.Request.ExpectContinue
	var err error
	switch c.mode {
	case sendInside:
		err = c.prepare(zapcodec.TypeRequest, int(c.length), -1)
	case sendFrames:
		err = c.prepare(zapcodec.TypeRequestHead, 0, c.length)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.write(); err != nil {
		return c.fail("send", err)
	}
	return nil
}

// write sends what was prepared.
func (c *ClientConn) write() error {
	c.pending, c.untouched = false, false
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

// ask finds out, by a request that asks for nothing, whether the peer speaks the
// extension. It costs a turn, once per connection at most, and towards peers that do not
// speak it once per endpoint.
func (c *ClientConn) ask() error {
	x, t := c.x, c.timeouts
	var q exchange.Exchange
	q.Request.Reset(nil)
	q.Request.SetMethod([]byte("OPTIONS"))
	q.Request.SetTarget([]byte("*"))
	q.Request.SetAuthority(x.Request.Authority())
	c.begin(&q, t)
	err := c.hold(nil)
	for err == nil && !c.final {
		err = c.ReadHead(&q.Response)
	}
	for err == nil && c.hasBody && !c.body.Done() {
		if _, err = c.body.Next(); isEOF(err) {
			err = nil
		}
	}
	if err != nil || !(!c.hasBody || c.body.AtEnd()) || !c.reuse || c.extra {
		c.o.peer.CompareAndSwap(peerUnknown, peerPublic) // so that another attempt does not ask
		c.reuse = false
		if c.cancelled.Load() != nil {
			return c.fail("send", exchange.ErrNotSent)
		}
		return &exchange.UpstreamError{Op: "send", Err: exchange.ErrNotSent}
	}
	c.body.Rest()
	c.body.Free()
	c.r, c.w = 0, 0
	c.begin(x, t)
	return nil
}

// SendBody implements exchange.Call.
func (c *ClientConn) SendBody(src exchange.Source) error {
	var err error
	switch c.mode {
	case sendInside:
		err = c.sendInside(src)
	case sendFrames:
		err = c.sendFrames(src)
	case sendGathered:
		err = c.sendGathered(src)
	}
	if err == nil {
		c.cleared.Store(true)
		c.limit(c.timeouts.FirstByte)
	}
	return err
}

func sendError(err error) error {
	return &exchange.UpstreamError{Op: "send", Err: err}
}

// giveUp ends the call from the side that sends: ReadHead tells why.
func (c *ClientConn) giveUp(reason error) error {
	c.refused.Store(&reason)
	c.wake()
	return reason
}

// sendInside sends a body of known length behind the head that announced it.
func (c *ClientConn) sendInside(src exchange.Source) error {
	for left := c.length; ; {
		p, err := src.Next()
		last := isEOF(err)
		if err != nil && !last {
			return err
		}
		left -= int64(len(p))
		if left < 0 || last && left > 0 {
			return c.giveUp(sendError(serial.ErrBodyLength))
		}
		if len(p) > 0 {
			c.limit(c.timeouts.Idle)
			if _, err := c.s.Write(p); err != nil {
				return sendError(err)
			}
		}
		if last {
			return nil
		}
	}
}

// sendFrames sends a body in data frames, one for each piece that comes.
func (c *ClientConn) sendFrames(src exchange.Source) error {
	for {
		p, err := src.Next()
		if err != nil && !isEOF(err) {
			return err
		}
		for len(p) > mostData {
			if err := c.sendFrame(p[:mostData], nil, false); err != nil {
				return err
			}
			p = p[mostData:]
		}
		last := err != nil
		var trailers *exchange.Head
		if last {
			trailers = src.Trailers()
		}
		if err := c.sendFrame(p, trailers, last); err != nil || last {
			return err
		}
	}
}

func (c *ClientConn) sendFrame(p []byte, trailers *exchange.Head, last bool) error {
	var head, tail []byte
	var err error
	out := (*c.out)[:0]
	if len(p) > 0 {
		out, _ = zapcodec.AppendDataHead(out, c.enc.opt, len(p)) // errors beyond 2 GiB alone
	}
	cut := len(out)
	if last {
		if out, err = c.enc.end(out, trailers); err != nil {
			return sendError(err)
		}
	}
	*c.out = out
	head, tail = out[:cut], out[cut:]
	c.limit(c.timeouts.Idle)
	if err := c.s.Writev(head, p, tail); err != nil {
		return sendError(err)
	}
	return nil
}

// sendGathered sends a body of unknown length as one message, or gives up where
// it is larger than a message may be.
func (c *ClientConn) sendGathered(src exchange.Source) error {
	var body []byte
	for {
		p, err := src.Next()
		if err != nil && !isEOF(err) {
			return err
		}
		if int64(len(body)+len(p)) > c.fits() {
			return c.giveUp(RefuseUnstreamable)
		}
		body = append(body, p...)
		c.limit(c.timeouts.Idle)
		if err != nil {
			break
		}
	}
	if err := c.prepare(zapcodec.TypeRequest, len(body), -1); err != nil {
		return err
	}
	if err := c.s.Writev(*c.out, body, nil); err != nil {
		return sendError(err)
	}
	return nil
}
