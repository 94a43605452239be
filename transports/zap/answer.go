package zap

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/zapcodec"
)

// answer is the exchange.Responder of a connection.
type answer struct {
	c   *Conn
	enc encoder
	// started: the final head is on its way. sent is the same for the goroutine that
	// reads the request's body.
	started, aborted bool

	sent atomic.Bool
	sink sink
}

var (
	errNoAnswer = errors.New("the handler gave no answer")
	errTwice    = errors.New("the exchange was answered already")
)

func (a *answer) reset() {
	a.started, a.aborted = false, false
	a.sent.Store(false)
}

// headPool holds the memory that heads are written in.
var headPool = sync.Pool{New: func() any {
	b := make([]byte, 0, 4096)
	return &b
}}

func putHead(b *[]byte) {
	if cap(*b) <= 64<<10 {
		headPool.Put(b)
	}
}

// joinBytes is up to where a piece is copied behind what goes before it, to leave in one
// plain write; larger ones go by writev from where they lie.
const joinBytes = 8 << 10

// mostData is the largest chunk of a data frame: peers may gather a frame before they
// look at it.
const mostData = 1 << 20

// Started implements exchange.Responder.
func (a *answer) Started() bool { return a.started }

// Abort implements exchange.Responder.
func (a *answer) Abort(error) { a.aborted = true }

// Interim implements exchange.Responder. ZAP carries no interim answers: they
// are dropped, as a server may (RFC 9110, section 15.2).
func (a *answer) Interim(*exchange.Head) error {
	if a.started {
		return errTwice
	}
	return nil
}

// Tunnel implements exchange.Responder: ZAP carries none.
func (a *answer) Tunnel(*exchange.Head) (exchange.Tunnel, error) { return nil, exchange.ErrTunnel }

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

// head writes the final head into out; an answer is given once. One that refuses a
// body which is still coming is the last on its connection.
func (a *answer) head(out *[]byte, h *exchange.Head, kind byte, body int, length int64) error {
	if a.started {
		return errTwice
	}
	if !a.c.extended {
		length = -1
	}
	b, err := a.enc.response((*out)[:0], h, kind, body, length)
	if err != nil {
		return err
	}
	*out = b
	a.started = true
	a.sent.Store(true)
	c := a.c
	c.closing = c.closing || c.draining.Load() || h.Status >= 300 && c.unread && !c.body.Done()
	if c.closing && c.extended {
		b[prefix+6] |= FlagLast
	}
	return nil
}

// Respond implements exchange.Responder.
func (a *answer) Respond(h *exchange.Head, src exchange.Source) error {
	out := headPool.Get().(*[]byte)
	defer putHead(out)
	if src == nil || exchange.NoBody(a.c.x.Request.Method, h.Status) {
		if err := a.head(out, h, zapcodec.TypeResponse, 0, lengthOfNone(a.c.x.Request.Method, h)); err != nil {
			return err
		}
		return a.write(*out)
	}
	whole, ok := src.Whole()
	if !ok || len(whole) > a.fits() {
		return a.stream(out, h, src)
	}
	if err := a.head(out, h, zapcodec.TypeResponse, len(whole), -1); err != nil {
		return err
	}
	a.c.x.BytesOut += int64(len(whole))
	if len(whole) <= joinBytes {
		*out = append(*out, whole...)
		return a.write(*out)
	}
	return a.writev(*out, whole, nil)
}

// headRoom is what a message of a known body is taken to need besides it.
const headRoom = 64 << 10

// fits is the longest body that is sent in one message.
func (a *answer) fits() int { return messageLimit(a.c.o.MessageBytes) - headRoom }

// lengthOfNone is the Content-Length of an answer without a body that is
// worth saying: what a body would have had on HEAD and 304 (RFC 9110, section
// 8.6). -1 is none.
func lengthOfNone(m exchange.Method, h *exchange.Head) int64 {
	if h.Status/100 != 1 && h.Status != 204 && (m == exchange.HEAD || h.Status == 304) {
		return h.Length
	}
	return -1
}

// open writes the head of a body that follows in pieces: in the same message
// where its length is known and fits, else in data frames.
func (a *answer) open(out *[]byte, h *exchange.Head, length int64) (framed bool, err error) {
	if length >= 0 && length <= int64(a.fits()) && !h.Has(exchange.Trailer) {
		return false, a.head(out, h, zapcodec.TypeResponse, int(length), -1)
	}
	return true, a.head(out, h, zapcodec.TypeResponseHead, 0, length)
}

// stream sends the head and then the body as it comes.
func (a *answer) stream(out *[]byte, h *exchange.Head, src exchange.Source) error {
	w := writer{a: a, out: out, left: src.Length()}
	var err error
	if w.framed, err = a.open(out, h, w.left); err != nil {
		return err
	}
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
	a      *answer
	out    *[]byte
	framed bool
	left   int64 // of the announced length; -1 where there is none
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
	for w.framed && len(p) > mostData {
		if err := w.send(p[:mostData], false, nil); err != nil {
			return err
		}
		p = p[mostData:]
	}
	return w.send(p, last, trailers)
}

// send writes p as a data frame, or as it is inside a message of its own.
func (w *writer) send(p []byte, last bool, trailers *exchange.Head) error {
	if w.framed && len(p) > 0 {
		*w.out, _ = zapcodec.AppendDataHead(*w.out, w.a.enc.opt, len(p)) // errors beyond 2 GiB alone
	}
	if len(p) > joinBytes && !(w.framed && last) {
		err := w.a.writev(*w.out, p, nil)
		*w.out = (*w.out)[:0]
		return err
	}
	if len(p) > joinBytes {
		return w.sendLast(p, trailers)
	}
	*w.out = append(*w.out, p...)
	if w.framed && last {
		if err := w.end(w.out, trailers); err != nil {
			return err
		}
	}
	return w.flush()
}

// sendLast writes a long piece with the end behind it.
func (w *writer) sendLast(p []byte, trailers *exchange.Head) error {
	tail := headPool.Get().(*[]byte)
	defer putHead(tail)
	*tail = (*tail)[:0]
	if err := w.end(tail, trailers); err != nil {
		return err
	}
	err := w.a.writev(*w.out, p, *tail)
	*w.out = (*w.out)[:0]
	return err
}

func (w *writer) end(out *[]byte, trailers *exchange.Head) error {
	b, err := w.a.enc.end(*out, trailers)
	if err != nil {
		w.a.aborted = true
		return err
	}
	*out = b
	return nil
}
