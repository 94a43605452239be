package zap

import (
	"sync"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/stream"
	"github.com/hanzoai/pqgw/zapcodec"
)

// Options are what all connections of a listener share.
type Options struct {
	serial.Options
	// MessageBytes is the most bytes of one message, read or written; 0 is
	// DefaultMessageBytes.
	MessageBytes int
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

// Conn is the server's side of one connection. Serve runs it; Shutdown and Close
// may be called from elsewhere.
type Conn struct {
	serial.Conn
	o        *Options
	turn     *turn
	opt      zapcodec.Options // of what we write
	extended bool             // the peer speaks our extension
}

// turn is the state of an exchange, and its exchange.Responder.
type turn struct {
	serial.Turn
	c       *Conn
	view    zapcodec.RequestView
	layout  zapcodec.Layout // of a message whose body streams
	streams bool            // the body is still to come
	lost    bool            // where the next message would begin is not known
	framing framing
	enc     encoder
}

var turns = sync.Pool{New: func() any { return new(turn) }}

// NewConn makes the server's side of s. fd is the socket's descriptor, or -1.
func NewConn(s *stream.Stream, info *exchange.Conn, fd int, o *Options) *Conn {
	alpn := info.Facts.ALPN
	c := &Conn{o: o, extended: alpn == ALPN, opt: newOptions(alpn)}
	c.Init(c, s, info, fd, &o.Options)
	return c
}

// Begin implements serial.Protocol.
func (c *Conn) Begin() *serial.Turn {
	t := turns.Get().(*turn) //nolint:forcetypeassert // nothing else is put there
	t.c, t.enc.opt, c.turn = c, c.opt, t
	t.Bind(&c.Conn, t, &t.enc)
	return &t.Turn
}

// Rest implements serial.Protocol.
func (c *Conn) Rest() {
	t := c.turn
	c.turn, t.c = nil, nil
	t.Drop()
	t.framing.drop()
	t.view = zapcodec.RequestView{}
	turns.Put(t)
}

// Parse implements serial.Protocol.
func (c *Conn) Parse() (ready bool, err error) {
	b := c.Pending()
	c.AwaitHead()
	n, err := zapcodec.FramingHTTP.Next(b, messageLimit(c.o.MessageBytes))
	if err != nil {
		c.Refuse(refusalOf(err))
		return true, nil
	}
	if len(b) < prefix+zapcodec.HeaderLen {
		return false, nil
	}
	c.Size = n
	if len(b) < n {
		return c.parsePart(b[prefix:]), nil
	}
	c.turn.accept(b[prefix:n:n], c.o.Limits.HeadBytes)
	return true, nil
}

// parsePart looks at the beginning of a message: a head that is too large is
// refused before it is gathered, and a body that is too long to be gathered is
// streamed from where the head ends.
func (c *Conn) parsePart(b []byte) (ready bool) {
	size := c.Size - prefix
	l, ok := zapcodec.LayoutOf(b, size)
	most := c.o.Limits.HeadBytes
	if most > 0 && (!ok && len(b) > most || ok && size-int(l.Body.Len) > most) {
		c.Refuse(exchange.RefuseHeadSize)
		return true
	}
	headDone := ok && l.InOrder && len(b) >= int(l.Body.Off)
	if headDone && size > maxWhole {
		c.turn.acceptHead(b[:l.Body.Off:l.Body.Off], size, l)
		return true
	}
	if headDone || most > 0 && len(b) > most {
		c.AwaitBody(len(b))
	}
	return false
}

// Refuse implements serial.Protocol. Where the next message would begin is not known.
func (c *Conn) Refuse(r *exchange.Refusal) {
	c.turn.Refuse(r)
	c.turn.streams, c.turn.lost = false, true
}

// Plain implements serial.Protocol: a message that is whole.
func (c *Conn) Plain() bool { return !c.turn.streams && c.turn.X.Refusal == nil }

// SetBody implements serial.Protocol.
func (c *Conn) SetBody() (used int) {
	t := c.turn
	if t.X.Refusal != nil {
		c.Unread = t.lost || t.streams
	} else {
		t.setBody()
	}
	return c.Size
}

// accept parses and checks a message that is whole.
func (t *turn) accept(message []byte, most int) {
	t.Renew()
	t.verdict(t.view.Parse(message))
	if t.X.Refusal == nil && most > 0 && len(message)-int(t.view.BodySpan().Len) > most {
		t.X.Refusal = exchange.RefuseHeadSize
	}
	t.streams = message[7] == zapcodec.TypeRequestHead
	t.lost = t.X.Refusal == RefuseFrame // who knows what the peer means: nothing more is read
}

// acceptHead parses and checks the head of a message of size bytes whose body is
// still to come.
func (t *turn) acceptHead(head []byte, size int, l zapcodec.Layout) {
	t.Renew()
	t.layout, t.streams, t.lost = l, true, false
	t.verdict(t.view.ParseHead(head, size))
}

// verdict makes the exchange's request of what was parsed.
func (t *turn) verdict(err error) {
	if err != nil {
		t.X.Request.Reset(nil)
		t.X.Refusal = refusalOf(err)
		return
	}
	c := t.c
	c.extended = c.extended || t.view.Extended()
	t.X.Refusal = requestHead(&t.view, &t.X.Request, &c.o.Limits, c.extended)
}

// setBody gives the exchange its body: none, bytes that are here, or a stream.
func (t *turn) setBody() {
	x, c, lim := &t.X, t.c, &t.c.o.Limits
	if t.streams {
		rest := c.Pending()[prefix+len(t.view.Frame()):]
		if t.view.Streamed() {
			t.framing.startFrames(&t.Body, x.Request.Length, rest, lim, messageLimit(c.o.MessageBytes))
		} else {
			t.framing.startMessage(&t.Body, c.Size-prefix, t.layout, rest, lim)
		}
		t.Body.Bound(lim.BodyBytes, &x.BytesIn)
		x.Body, c.Unread = &t.Body, true
		return
	}
	body, trailers := t.view.Body(), t.view.Trailers()
	switch {
	case trailers.Count() > 0:
		if x.Refusal = startWhole(&t.Body, body, trailers, t.view.Frame(), lim); x.Refusal == nil {
			t.Body.Bound(0, &x.BytesIn)
			x.Body = &t.Body
		}
	case len(body) > 0:
		t.Whole.Reset(body)
		x.Body, x.BytesIn = &t.Whole, int64(len(body))
	}
}
