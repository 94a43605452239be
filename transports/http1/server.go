package http1

import (
	"errors"
	"sync"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/stream"
)

// Options are what all connections of a listener share.
type Options struct {
	serial.Options
	// H2C lets Serve return ErrPreface to a client that begins with HTTP/2.
	H2C bool
}

// ErrPreface: the client speaks HTTP/2 with prior knowledge (RFC 9113, section
// 3.3). The connection is the caller's again, and Conn.Pending has what the client sent.
var ErrPreface = errors.New("HTTP/2 connection preface")

// maxWholeBody is the largest request body that is gathered before the request is
// dispatched; larger ones are streamed.
const maxWholeBody = 64 << 10

// Conn is the server's side of one connection. Serve runs it; Shutdown and Close
// may be called from elsewhere.
type Conn struct {
	serial.Conn
	o       *Options
	turn    *turn
	scanned int // of the head being read
	minor   int
}

// turn is the state of an exchange, and its exchange.Responder.
type turn struct {
	serial.Turn
	c         *Conn
	chunks    chunks
	continued bool         // the client was told to continue
	proceed   func() error // sendContinue, kept so that it costs no allocation
}

var turns = sync.Pool{New: func() any {
	t := new(turn)
	t.proceed = t.sendContinue
	return t
}}

// NewConn makes the server's side of s. fd is the socket's descriptor, or -1.
func NewConn(s *stream.Stream, info *exchange.Conn, fd int, o *Options) *Conn {
	c := &Conn{o: o}
	c.Init(c, s, info, fd, &o.Options)
	return c
}

// Begin implements serial.Protocol.
func (c *Conn) Begin() *serial.Turn {
	t := turns.Get().(*turn) //nolint:forcetypeassert // nothing else is put there
	t.c, c.turn = c, t
	t.Bind(&c.Conn, t, chunking{})
	return &t.Turn
}

// Rest implements serial.Protocol.
func (c *Conn) Rest() {
	t := c.turn
	c.turn, t.c, t.chunks.limits = nil, nil, nil
	t.Drop()
	turns.Put(t)
}

// Parse implements serial.Protocol.
func (c *Conn) Parse() (ready bool, err error) {
	if c.Head > 0 {
		return c.bodyAtHand(), nil
	}
	c.skipEmptyLine()
	b := c.Pending()
	if len(b) == 0 {
		return false, nil
	}
	c.AwaitHead()
	if c.o.H2C && isPreface(b) {
		return false, ErrPreface
	}
	end, next, r := scanHead(b, c.scanned)
	c.scanned = next
	if r == nil && (end > c.o.Limits.HeadBytes || end == 0 && len(b) > c.o.Limits.HeadBytes) {
		r = exchange.RefuseHeadSize
	}
	if r != nil {
		c.Refuse(r)
		return true, nil
	}
	if end == 0 {
		return false, nil
	}
	c.accept(b[:end:end])
	return c.bodyAtHand(), nil
}

// skipEmptyLine takes a CR LF before the request line as not sent, as old clients
// do send it behind a body (RFC 9112, section 2.2).
func (c *Conn) skipEmptyLine() {
	if b := c.Pending(); c.scanned <= 1 && len(b) >= 2 && b[0] == '\r' && b[1] == '\n' {
		c.Skip(2)
		c.scanned = 0
	}
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func isPreface(b []byte) bool {
	return len(b) >= 4 && string(b[:min(len(b), len(preface))]) == preface[:min(len(b), len(preface))]
}

// accept parses and checks a complete head.
func (c *Conn) accept(head []byte) {
	x := c.turn.Renew()
	minor, r := parseRequest(head, &x.Request, c.o.Limits.Fields)
	if r == nil {
		r = exchange.CheckRequest(&x.Request, exchange.HTTP1, minor, &c.o.Limits)
	}
	x.Refusal = r
	c.begin(minor, len(head))
}

// begin makes ready for the answer to a request whose head was read.
func (c *Conn) begin(minor, head int) {
	c.minor, c.Head, c.scanned, c.turn.continued = minor, head, 0, false
}

// Refuse implements serial.Protocol. A head that was parsed already is kept, for the log.
func (c *Conn) Refuse(r *exchange.Refusal) {
	if c.Head > 0 {
		c.turn.X.Refusal = r
		return
	}
	c.turn.Refuse(r)
	c.begin(1, len(c.Pending()))
}

// bodyAtHand tells whether the request can be dispatched: its body is none, or
// here, or to be streamed.
func (c *Conn) bodyAtHand() bool {
	x := &c.turn.X
	q := &x.Request
	if x.Refusal != nil || q.Length <= 0 || q.Length > maxWholeBody || q.ExpectContinue {
		return true
	}
	c.Size = c.Head + int(q.Length)
	have := len(c.Pending())
	if have >= c.Size {
		return true
	}
	c.AwaitBody(have - c.Head)
	return false
}

// Plain implements serial.Protocol: no body or one at hand, no upgrade.
func (c *Conn) Plain() bool {
	x := &c.turn.X
	q := &x.Request
	return x.Refusal == nil && !q.Chunked && !q.ExpectContinue && len(q.Protocol()) == 0 &&
		(q.Length <= 0 || int64(len(c.Pending())-c.Head) >= q.Length)
}

// SetBody implements serial.Protocol.
func (c *Conn) SetBody() (used int) {
	t := c.turn
	x := &t.X
	q := &x.Request
	rest := c.Pending()[c.Head:]
	switch {
	case x.Refusal != nil:
		x.Body, c.Unread = nil, x.Refusal.Close
	case !q.Chunked && q.Length <= 0:
		x.Body = nil
	case !q.Chunked && int64(len(rest)) >= q.Length:
		t.Whole.Reset(rest[:q.Length])
		x.Body, x.BytesIn = &t.Whole, q.Length
		return c.Head + int(q.Length)
	default:
		t.stream(rest)
	}
	return c.Head
}

// stream sets the body up that has not all come.
func (t *turn) stream(rest []byte) {
	q, lim := &t.X.Request, &t.c.o.Limits
	if q.Chunked {
		t.chunks.reset(lim)
		t.Body.StartFramed(rest, &t.chunks, 0, -1)
	} else {
		t.Body.StartSized(rest, q.Length)
	}
	t.Body.Bound(lim.BodyBytes, &t.X.BytesIn)
	if q.ExpectContinue {
		t.Body.BeforeWait(t.proceed)
	}
	t.X.Body, t.c.Unread = &t.Body, true
}

// sendContinue asks the client for the body that it holds back.
func (t *turn) sendContinue() error {
	if t.continued || t.Sent() {
		return nil
	}
	t.continued = true
	_, err := t.c.Stream.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	return err
}
