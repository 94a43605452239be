package zap

import (
	"io"

	"github.com/hanzoai/pqgw/exchange"
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

// Send implements exchange.Call. A request that is whole waits for ReadHead, so
// that it is written inside the callback that then awaits the answer. An upgrade is
// refused with exchange.ErrTunnel, a body that the peer cannot be sent with
// RefuseUnstreamable; the connection may be used again after both.
func (c *ClientConn) Send(x *exchange.Exchange, src exchange.Source, t exchange.Timeouts) error {
	c.mode, c.length, c.expect = sendNothing, -1, false
	if err := c.Begin(x, t); err != nil {
		return err
	}
	if len(x.Request.Protocol()) > 0 || x.Request.Method == exchange.CONNECT {
		return exchange.ErrTunnel
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

// hold prepares a whole request.
func (c *ClientConn) hold(body []byte) error {
	if err := c.prepare(zapcodec.TypeRequest, len(body), -1); err != nil {
		return err
	}
	c.Hold(body)
	return nil
}

// prepare writes the request's head into Out.
func (c *ClientConn) prepare(kind byte, body int, length int64) error {
	out, err := c.enc.request((*c.Out)[:0], &c.X.Request, kind, body, length)
	if err != nil {
		return &exchange.UpstreamError{Op: "send", Err: err}
	}
	*c.Out = out
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
	case inside && !(c.extended && c.X.Request.Has(exchange.Trailer)):
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
	c.expect = c.X.Request.ExpectContinue
	var err error
	switch c.mode {
	case sendInside:
		err = c.prepare(zapcodec.TypeRequest, int(c.length), -1)
	case sendFrames:
		err = c.prepare(zapcodec.TypeRequestHead, 0, c.length)
	default:
		c.Duplex()
		return nil
	}
	if err != nil {
		return err
	}
	return c.Open()
}

// ask finds out, by a request that asks for nothing, whether the peer speaks the
// extension. It costs a turn, once per connection at most, and towards peers that do not
// speak it once per endpoint.
func (c *ClientConn) ask() error {
	x := c.X
	var q exchange.Exchange
	q.Request.Reset(nil)
	q.Request.SetMethod([]byte("OPTIONS"))
	q.Request.SetTarget([]byte("*"))
	q.Request.SetAuthority(x.Request.Authority())
	c.X = &q
	err := c.hold(nil)
	for err == nil && !c.Final {
		err = c.ReadHead(&q.Response)
	}
	for err == nil && c.HasBody && !c.Answer.Done() {
		if _, err = c.Answer.Next(); isEOF(err) {
			err = nil
		}
	}
	if err != nil || !c.AnswerRead() || !c.Reuse || c.Extra {
		c.o.peer.CompareAndSwap(peerUnknown, peerPublic) // so that another attempt does not ask
		c.Reuse = false
		if c.Cancelled() {
			return c.Fail("send", exchange.ErrNotSent)
		}
		return &exchange.UpstreamError{Op: "send", Err: exchange.ErrNotSent}
	}
	return c.Again(x)
}

// SendBody implements exchange.Call.
func (c *ClientConn) SendBody(src exchange.Source) error {
	switch c.mode {
	case sendInside:
		return c.Pour(src, nil, c.length)
	case sendFrames:
		return c.Pour(src, &c.enc, -1)
	case sendGathered:
		return c.sendGathered(src)
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
			return c.GiveUp(RefuseUnstreamable)
		}
		body = append(body, p...)
		c.Extend()
		if err != nil {
			break
		}
	}
	if err := c.prepare(zapcodec.TypeRequest, len(body), -1); err != nil {
		return err
	}
	if err := c.SendPiece(*c.Out, body, nil); err != nil {
		return err
	}
	c.Sent()
	return nil
}
