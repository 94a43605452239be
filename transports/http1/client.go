package http1

import (
	"bytes"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/stream"
)

// ClientOptions are what all connections to an endpoint share.
type ClientOptions = serial.ClientOptions

// ClientConn is the client's side of one connection: an exchange.ClientConn of
// capacity 1 whose only call is part of it.
type ClientConn struct {
	serial.ClientConn
	o       *ClientOptions
	scanned int    // of the head being read
	length  int64  // of the request's body; -1 where it is sent in chunks
	chunks  chunks // of the answer's
	tunnel  bool
}

// NewClientConn makes the client's side of s.
func NewClientConn(s *stream.Stream, info *exchange.Conn, o *ClientOptions) *ClientConn {
	c := &ClientConn{o: o}
	c.Init(c, s, info, o)
	return c
}

// Send implements exchange.Call. A request that is whole waits for ReadHead, so
// that it is written inside the callback that then awaits the answer.
func (c *ClientConn) Send(x *exchange.Exchange, src exchange.Source, t exchange.Timeouts) error {
	if err := c.Begin(x, t); err != nil {
		return err
	}
	c.tunnel, c.scanned, c.length = false, 0, -1
	whole, ok := []byte(nil), true
	if src != nil {
		whole, ok = src.Whole()
		if c.length = src.Length(); !ok && x.Request.Has(exchange.Trailer) {
			c.length = -1 // HTTP/2 has trailers beside a length; here they need chunks
		}
	}
	*c.Out = appendRequest(*c.Out, &x.Request, src != nil, c.length)
	if ok {
		c.Hold(whole)
		return nil
	}
	return c.Open()
}

// SendBody implements exchange.Call.
func (c *ClientConn) SendBody(src exchange.Source) error {
	if c.length < 0 {
		return c.Pour(src, chunking{}, -1)
	}
	return c.Pour(src, nil, c.length)
}

// Parse implements serial.Caller.
func (c *ClientConn) Parse() (done bool, err error) {
	b := c.Pending()
	end, next, r := scanHead(b, c.scanned)
	c.scanned = next
	if r == nil && (end > c.o.Limits.HeadBytes || end == 0 && len(b) > c.o.Limits.HeadBytes) {
		r = exchange.RefuseHeadSize
	}
	if r != nil {
		return false, r
	}
	if end == 0 {
		return false, nil
	}
	minor, r := parseResponse(b[:end:end], c.Head, c.o.Limits.Fields)
	if r == nil {
		r = exchange.CheckResponse(c.Head, &c.X.Request, exchange.HTTP1, minor, &c.o.Limits)
	}
	if r != nil {
		return false, r
	}
	c.Used, c.scanned = end, 0
	if c.Head.Status >= 200 || c.Head.Status == 101 {
		c.accept()
	}
	return true, nil
}

// accept sets the answer's body up.
func (c *ClientConn) accept() {
	h := c.Head
	c.Final = true
	if h.Status == 101 {
		c.tunnel, c.Reuse = true, false
		return
	}
	c.Reuse = c.Reuse && !h.Close
	if exchange.NoBody(c.X.Request.Method, h.Status) || h.Length == 0 {
		c.Bare, c.Extra = true, len(c.Pending()) > c.Used
		// Who announces a body where none may be, sends it, and not at once perhaps.
		c.Reuse = c.Reuse && (h.Status != 204 || h.Length <= 0 && !h.Chunked)
		return
	}
	c.HasBody = true
	switch {
	case h.Chunked:
		c.chunks.reset(&c.o.Limits)
		c.Answer.StartFramed(c.Pending()[c.Used:], &c.chunks, 0, -1)
	case h.Length < 0:
		c.Reuse = false
		c.Answer.StartToClose(c.Pending()[c.Used:])
	default:
		c.LookAhead(int64(c.Used) + h.Length)
		rest := c.Pending()[c.Used:]
		if int64(len(rest)) > h.Length {
			rest, c.Extra = rest[:h.Length], true
		}
		c.Answer.StartSized(rest, h.Length)
	}
}

// Tunnel implements exchange.Call.
func (c *ClientConn) Tunnel() (exchange.Tunnel, error) {
	if !c.tunnel {
		return nil, exchange.ErrTunnel
	}
	c.Extend()
	return &clientTunnel{c: c, early: bytes.Clone(c.Pending()[c.Used:])}, nil
}

// clientTunnel is the upstream's side of an upgraded connection.
type clientTunnel struct {
	c     *ClientConn
	early []byte // what came along with the 101
}

func (t *clientTunnel) Read(p []byte) (int, error) {
	if len(t.early) > 0 {
		n := copy(p, t.early)
		t.early = t.early[n:]
		return n, nil
	}
	n, err := t.c.ReadStream(p)
	t.c.Extend()
	return n, err
}

func (t *clientTunnel) Write(p []byte) (int, error) {
	t.c.Extend()
	return t.c.Stream.Write(p)
}

func (t *clientTunnel) CloseWrite() error { return t.c.Stream.CloseWrite() }

func (t *clientTunnel) Close() error { return t.c.Stream.Close() }
