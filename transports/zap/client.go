package zap

import (
	"fmt"
	"sync/atomic"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/stream"
	"github.com/hanzoai/pqgw/zapcodec"
)

// ClientOptions are what all connections to an endpoint share, and what they
// learn of it. They must not be copied once in use.
type ClientOptions struct {
	serial.ClientOptions
	// MessageBytes is the most bytes of one message, read or written; 0 is
	// DefaultMessageBytes.
	MessageBytes int

	peer atomic.Int32 // what the endpoint is known to be: one of the kinds below
}

// Kinds of peers.
const (
	peerUnknown int32 = iota
	peerExtended
	peerPublic
)

// RefuseUnstreamable is what becomes of a request whose body the upstream's
// protocol cannot carry: it is the client's 413, given by Send or ReadHead.
var RefuseUnstreamable = &exchange.Refusal{
	Status: 413, Reason: "body_over_message_limit",
	Text: "the service takes a request as one ZAP message only, and this body is larger than a message may be",
}

// ClientConn is the client's side of one connection: an exchange.ClientConn of
// capacity 1 whose only call is part of it.
type ClientConn struct {
	serial.ClientConn
	o        *ClientOptions
	enc      encoder
	view     zapcodec.ResponseView
	framing  framing // of the answer's body
	mode     sendMode
	length   int64 // of the body that SendBody sends, where it is known; else -1
	expect   bool  // a 100 is owed to the caller
	extended bool  // the peer speaks our extension
}

// NewClientConn makes the client's side of s.
func NewClientConn(s *stream.Stream, info *exchange.Conn, o *ClientOptions) *ClientConn {
	c := &ClientConn{o: o, extended: info.Facts.ALPN == ALPN}
	c.enc.opt = newOptions(info.Facts.ALPN)
	c.Init(c, s, info, &o.ClientOptions)
	return c
}

// ReadHead implements exchange.Call.
func (c *ClientConn) ReadHead(h *exchange.Head) error {
	if c.expect && !c.Final {
		// Nothing that the peer says will come before the body, so it is asked for here.
		c.expect = false
		h.Reset(nil)
		h.Status = 100
		return nil
	}
	return c.ClientConn.ReadHead(h)
}

// Parse implements serial.Caller: an answer's message is taken in once its head is there.
func (c *ClientConn) Parse() (done bool, err error) {
	b := c.Pending()
	n, err := zapcodec.FramingHTTP.Next(b, messageLimit(c.o.MessageBytes))
	if err != nil {
		return false, malformed(err)
	}
	if len(b) < prefix+zapcodec.HeaderLen {
		return false, nil
	}
	var l zapcodec.Layout
	if len(b) < n {
		if l, done, err = c.layout(b, n-prefix); !done || err != nil {
			return false, err
		}
		b = c.Pending()
	}
	if len(b) >= n {
		return c.parsed(c.view.Parse(b[prefix:n:n]), n-prefix, l)
	}
	head := prefix + int(l.Body.Off)
	return c.parsed(c.view.ParseHead(b[prefix:head:head], n-prefix), n-prefix, l)
}

// layout looks at the beginning of a message: ok is set where its head is there.
// Then the rest is looked for, too.
func (c *ClientConn) layout(b []byte, size int) (l zapcodec.Layout, ok bool, err error) {
	l, ok = zapcodec.LayoutOf(b[prefix:], size)
	most := c.o.Limits.HeadBytes
	if most > 0 && (!ok && len(b) > most || ok && size-int(l.Body.Len) > most) {
		return l, false, exchange.RefuseHeadSize
	}
	if !ok || !l.InOrder || len(b) < prefix+int(l.Body.Off) {
		return l, false, nil
	}
	c.LookAhead(int64(prefix + size))
	return l, true, nil
}

// malformedError is an answer that the codec did not take.
type malformedError struct {
	refusal *exchange.Refusal
	err     error
}

func malformed(err error) error { return &malformedError{refusalOf(err), err} }

func (e *malformedError) Error() string { return fmt.Sprintf("malformed answer: %v", e.err) }

// Unwrap gives the kind, for counting, and the fault.
func (e *malformedError) Unwrap() []error { return []error{e.refusal, e.err} }

// parsed checks the head that was parsed, and sets the answer's body up.
func (c *ClientConn) parsed(err error, size int, l zapcodec.Layout) (bool, error) {
	if err != nil {
		return false, malformed(err)
	}
	c.learn(isExtended(c.view.Frame()))
	h, req := c.Head, &c.X.Request
	if r := answerHead(&c.view, h, req, &c.o.Limits, c.extended); r != nil {
		return false, r
	}
	if h.Status < 200 {
		// ZAP has no interim answers, but a peer that sends one does not mean the end by it.
		if c.view.Streamed() || c.view.BodySpan().Len > 0 {
			return false, exchange.RefuseStatus
		}
		c.Used = prefix + size
		return true, nil
	}
	c.Final = true
	c.Reuse = c.Reuse && !isLast(c.view.Frame())
	return true, c.accept(size, l, exchange.NoBody(req.Method, h.Status))
}

// learn notes what the peer speaks, for this connection and for those to come.
func (c *ClientConn) learn(flag bool) {
	c.extended = c.extended || flag
	kind := peerPublic
	if c.extended {
		kind = peerExtended
	}
	if c.o.peer.Load() != kind {
		c.o.peer.Store(kind)
	}
}

// accept sets up the body of the message that was parsed.
func (c *ClientConn) accept(size int, l zapcodec.Layout, none bool) error {
	b, lim := &c.Answer, &c.o.Limits
	c.Used = prefix + len(c.view.Frame())
	rest := c.Pending()[c.Used:]
	switch {
	case c.view.Streamed():
		c.framing.startFrames(b, c.Head.Length, rest, lim, messageLimit(c.o.MessageBytes))
	case len(c.view.Frame()) < size:
		c.framing.startMessage(b, size, l, rest, lim)
	default:
		c.Extra = len(rest) > 0
		if r := startWhole(b, c.view.Body(), c.view.Trailers(), c.view.Frame(), lim); r != nil {
			return r
		}
		if b.Length() == 0 && b.Trailers() == nil {
			return nil
		}
	}
	if none {
		c.Reuse = false // a body where none may be
		return nil
	}
	c.HasBody = true
	return nil
}

// Tunnel implements exchange.Call: ZAP carries none.
func (c *ClientConn) Tunnel() (exchange.Tunnel, error) { return nil, exchange.ErrTunnel }

// Finish implements exchange.Call.
func (c *ClientConn) Finish() bool {
	c.framing.drop()
	return c.ClientConn.Finish()
}
