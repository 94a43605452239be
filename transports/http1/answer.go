package http1

import (
	"crypto/sha1" //nolint:gosec // RFC 6455 asks for it
	"encoding/base64"
	"errors"
	"io"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/hanzoai/pqgw/exchange"
)

// answer is the exchange.Responder of a connection.
type answer struct {
	c *Conn
	// started: the final head is on its way. sent is the same for the goroutine that
	// reads the request's body.
	started, continued, aborted, tunnelled bool

	sent atomic.Bool
	sink sink
}

var (
	errNoAnswer = errors.New("the handler gave no answer")
	errTwice    = errors.New("the exchange was answered already")
)

func (a *answer) reset() {
	a.started, a.continued, a.aborted, a.tunnelled = false, false, false, false
	a.sent.Store(false)
}

// headPool holds the memory that heads are written in.
var headPool = sync.Pool{New: func() any {
	b := make([]byte, 0, 4096)
	return &b
}}

// joinBytes is up to where a body is copied behind its head, to leave in one plain write;
// larger ones go by writev.
const joinBytes = 8 << 10

// Started implements exchange.Responder.
func (a *answer) Started() bool { return a.started }

// Abort implements exchange.Responder.
func (a *answer) Abort(error) { a.aborted = true }

// Interim implements exchange.Responder.
func (a *answer) Interim(h *exchange.Head) error {
	if a.started {
		return errTwice
	}
	if a.c.minor == 0 {
		return nil // HTTP/1.0 knows none (RFC 9110, section 15.2)
	}
	if h.Status == 100 {
		if a.continued {
			return nil
		}
		a.continued = true
	}
	out := headPool.Get().(*[]byte)
	defer putHead(out)
	*out = appendStatusLine((*out)[:0], h)
	*out = append(appendFields(*out, h), "\r\n"...)
	return a.write(*out)
}

func putHead(b *[]byte) {
	if cap(*b) <= 64<<10 {
		headPool.Put(b)
	}
}

// write sends bytes to the client; an error is the client's.
func (a *answer) write(p []byte) error {
	if _, err := a.c.s.Write(p); err != nil {
		return a.failed(err)
	}
	return nil
}

func (a *answer) writev(x, y, z []byte) error {
	if err := a.c.s.Writev(x, y, z); err != nil {
		return a.failed(err)
	}
	return nil
}

func (a *answer) failed(err error) error {
	a.aborted = true
	return &exchange.ClientError{Err: err}
}

// begin marks the final head as sent; an answer is given once. One that
// refuses a body which is still coming says that the connection ends with it.
func (a *answer) begin(status int) error {
	if a.started {
		return errTwice
	}
	a.started = true
	a.sent.Store(true)
	c := a.c
	c.closing = c.closing || c.draining.Load() || status >= 300 && c.unread && !c.body.Done()
	return nil
}

// Respond implements exchange.Responder.
func (a *answer) Respond(h *exchange.Head, src exchange.Source) error {
	if err := a.begin(h.Status); err != nil {
		return err
	}
	out := headPool.Get().(*[]byte)
	defer putHead(out)
	if src == nil || exchange.NoBody(a.c.x.Request.Method, h.Status) {
		*out = a.appendHead((*out)[:0], h, lengthOfNone(a.c.x.Request.Method, h))
		return a.whole(*out)
	}
	whole, ok := src.Whole()
	if !ok {
		return a.stream(out, h, src)
	}
	*out = a.appendHead((*out)[:0], h, int64(len(whole)))
	a.c.x.BytesOut += int64(len(whole))
	if len(whole) <= joinBytes {
		*out = append(*out, whole...)
		return a.whole(*out)
	}
	return a.writev(*out, whole, nil)
}

// whole sends a whole answer; the last of a connection waits for its close.
func (a *answer) whole(p []byte) error {
	if c := a.c; !c.closing || c.unread {
		return a.write(p)
	}
	if err := a.c.s.WriteLast(p); err != nil {
		return a.failed(err)
	}
	return nil
}

// lengthOfNone is the Content-Length to write where no body follows: what a body would have
// had on HEAD and 304, none on 1xx and 204 (RFC 9110, section 8.6).
func lengthOfNone(m exchange.Method, h *exchange.Head) int64 {
	switch {
	case h.Status/100 == 1 || h.Status == 204:
		return -1
	case m == exchange.HEAD || h.Status == 304:
		return h.Length
	}
	return 0
}

// stream sends the head and then the body as it comes.
func (a *answer) stream(out *[]byte, h *exchange.Head, src exchange.Source) error {
	w := writer{a: a, out: out, left: src.Length()}
	length := w.left
	if h.Has(exchange.Trailer) && a.c.minor > 0 {
		length = -1 // HTTP/2 has trailers beside a length; here they need chunks
	}
	*out = a.appendHead((*out)[:0], h, length)
	w.chunked = length < 0 && a.c.minor > 0
	for {
		if src.Buffered() == 0 {
			if err := w.flush(); err != nil {
				return err
			}
		}
		p, err := src.Next()
		if err != nil && err != io.EOF { //nolint:errorlint // the end is this value
			a.aborted = true
			return err
		}
		last := err == io.EOF //nolint:errorlint // as above
		var trailers *exchange.Head
		if last {
			trailers = src.Trailers()
		}
		if err := w.piece(p, last, trailers); err != nil || last {
			return err
		}
		a.c.limit(a.c.o.StreamIdle)
	}
}

// writer frames the pieces of one body. What is to go before the next piece
// waits in out.
type writer struct {
	a       *answer
	out     *[]byte
	chunked bool
	left    int64 // by Content-Length; -1 where there is none
}

var errBodyLength = errors.New("the body is not of the length that was announced")

func (w *writer) flush() error {
	if len(*w.out) == 0 {
		return nil
	}
	err := w.a.write(*w.out)
	*w.out = (*w.out)[:0]
	return err
}

// piece sends p, and after the last one the end.
func (w *writer) piece(p []byte, last bool, trailers *exchange.Head) error {
	if w.left >= 0 {
		if w.left -= int64(len(p)); w.left < 0 || last && w.left > 0 {
			w.a.aborted = true
			return errBodyLength
		}
	}
	w.a.c.x.BytesOut += int64(len(p))
	var tail []byte
	if w.chunked {
		if len(p) > 0 {
			*w.out = append(strconv.AppendInt(*w.out, int64(len(p)), 16), "\r\n"...)
			tail = crlf
		}
		if last {
			tail = appendEnd(tail, trailers)
		}
	}
	if len(p)+len(tail) <= joinBytes {
		*w.out = append(append(*w.out, p...), tail...)
		return w.flush()
	}
	err := w.a.writev(*w.out, p, tail)
	*w.out = (*w.out)[:0]
	return err
}

var (
	crlf     = []byte("\r\n")
	lastOnly = []byte("0\r\n\r\n")
	lastCRLF = []byte("\r\n0\r\n\r\n")
)

// appendEnd is the end of a chunked body, behind what ends its last chunk.
func appendEnd(tail []byte, trailers *exchange.Head) []byte {
	if trailers == nil || trailers.Live() == 0 {
		if len(tail) > 0 {
			return lastCRLF
		}
		return lastOnly
	}
	b := append([]byte(nil), tail...)
	b = appendFields(append(b, "0\r\n"...), trailers)
	return append(b, "\r\n"...)
}

// appendHead writes the final head; length is -1 where Content-Length is not to be
// written.
func (a *answer) appendHead(out []byte, h *exchange.Head, length int64) []byte {
	out = appendFields(appendStatusLine(out, h), h)
	switch {
	case length >= 0:
		out = append(out, "Content-Length: "...)
		out = append(strconv.AppendInt(out, length, 10), "\r\n"...)
	case exchange.NoBody(a.c.x.Request.Method, h.Status):
	case a.c.minor > 0:
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	default:
		a.c.closing = true
	}
	switch {
	case a.c.closing:
		out = append(out, "Connection: close\r\n"...)
	case a.c.minor == 0:
		out = append(out, "Connection: keep-alive\r\n"...)
	}
	return append(out, "\r\n"...)
}

// Start implements exchange.Responder.
func (a *answer) Start(h *exchange.Head, length int64) (exchange.Sink, error) {
	if err := a.begin(h.Status); err != nil {
		return nil, err
	}
	out := headPool.Get().(*[]byte)
	a.sink = sink{w: writer{a: a, out: out, left: length}}
	if a.sink.none = exchange.NoBody(a.c.x.Request.Method, h.Status); a.sink.none && length < 0 {
		length = lengthOfNone(a.c.x.Request.Method, h)
	}
	*out = a.appendHead((*out)[:0], h, length)
	a.sink.w.chunked = length < 0 && a.c.minor > 0 && !a.sink.none
	return &a.sink, nil
}

// sink is the exchange.Sink of handlers that push.
type sink struct {
	w    writer
	none bool // no body goes out: HEAD, 204, 304
	over bool
}

// Write implements exchange.Sink.
func (s *sink) Write(p []byte) (int, error) {
	if s.over {
		return 0, errTwice
	}
	if s.none || len(p) == 0 {
		return len(p), nil
	}
	s.w.a.c.limit(s.w.a.c.o.StreamIdle)
	if err := s.w.piece(p, false, nil); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush implements exchange.Sink.
func (s *sink) Flush() error { return s.w.flush() }

// Finish implements exchange.Sink.
func (s *sink) Finish(trailers *exchange.Head) error {
	if s.over {
		return nil
	}
	s.over = true
	defer putHead(s.w.out)
	if s.none {
		return s.w.flush()
	}
	return s.w.piece(nil, true, trailers)
}

// Reset implements exchange.Sink.
func (s *sink) Reset(error) {
	if !s.over {
		s.over = true
		s.w.a.aborted = true
		putHead(s.w.out)
	}
}

// Tunnel implements exchange.Responder.
func (a *answer) Tunnel(h *exchange.Head) (exchange.Tunnel, error) {
	if err := a.begin(h.Status); err != nil {
		return nil, err
	}
	c := a.c
	q := &c.x.Request
	if key := q.Get(exchange.SecWebSocketKey); key != nil && !h.Has(exchange.SecWebSocketAccept) {
		h.AddKnownString(exchange.SecWebSocketAccept, acceptKey(key))
	}
	out := headPool.Get().(*[]byte)
	defer putHead(out)
	*out = append((*out)[:0], "HTTP/1.1 101 Switching Protocols\r\n"...)
	*out = appendFields(*out, h)
	*out = append(append(append(*out, "Connection: Upgrade\r\nUpgrade: "...), q.Protocol()...), "\r\n\r\n"...)
	a.tunnelled = true
	// From now on there is always a reader: a client that ends its direction is not gone.
	c.entry.Unask()
	if err := a.write(*out); err != nil {
		return nil, err
	}
	return &tunnel{c: c, early: append([]byte(nil), c.buf.B[c.r+c.headEnd:c.w]...)}, nil
}

// acceptKey proves that the opening handshake was understood (RFC 6455, section 4.2.2).
func acceptKey(key []byte) string {
	sum := sha1.Sum(append(append([]byte(nil), key...), "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"...)) //nolint:gosec // as above
	return base64.StdEncoding.EncodeToString(sum[:])
}

// tunnel is the client's side of an upgraded connection.
type tunnel struct {
	c     *Conn
	early []byte // what came along with the request
}

func (t *tunnel) Read(p []byte) (int, error) {
	if len(t.early) > 0 {
		n := copy(p, t.early)
		t.early = t.early[n:]
		return n, nil
	}
	n, err := t.c.s.Read(p)
	if n == 0 && t.c.drainOnly(err) {
		n, err = t.c.s.Read(p)
	}
	t.c.limit(t.c.o.StreamIdle)
	return n, err
}

func (t *tunnel) Write(p []byte) (int, error) {
	t.c.limit(t.c.o.StreamIdle)
	return t.c.s.Write(p)
}

func (t *tunnel) CloseWrite() error { return t.c.s.CloseWrite() }

func (t *tunnel) Close() error { return t.c.s.Close() }
