package serial

import (
	"io"
	"sync"

	"github.com/hanzoai/pqgw/exchange"
)

// Framing writes the pieces of a body.
type Framing interface {
	// AppendFrame appends what goes before a piece of n bytes.
	AppendFrame(out []byte, n int) []byte
	// AppendEnd appends what goes behind a piece of n bytes, and behind the last one what ends the body.
	AppendEnd(out []byte, n int, last bool, trailers *exchange.Head) ([]byte, error)
	// MostPiece is the most bytes of a piece.
	MostPiece() int
}

// Format writes the answer of a turn.
type Format interface {
	// AppendHead appends the final head to out, for a body that is none, lies whole in
	// length bytes, or comes in pieces, length being what is announced or -1. framed is
	// set where the pieces are to be framed. It may set Closing of the connection, which
	// it tells the client.
	AppendHead(out []byte, h *exchange.Head, shape Shape, length int64) (_ []byte, framed bool, err error)
	// MostWhole is the most bytes of a body that may be sent whole.
	MostWhole() int
}

// Shape is how a body is sent.
type Shape uint8

// The shapes of a body.
const (
	NoBody Shape = iota
	WholeBody
	Pieces
)

// JoinBytes is up to where a piece is copied behind what goes before it, to leave in one
// plain write; larger ones go by writev from where they lie.
const JoinBytes = 8 << 10

// scratchPool holds the memory that heads, and small pieces, are written in.
var scratchPool = sync.Pool{New: func() any {
	b := make([]byte, 0, 4096)
	return &b
}}

// GetScratch gives memory to write a head in, of no bytes yet.
func GetScratch() *[]byte { return scratchPool.Get().(*[]byte) } //nolint:forcetypeassert // nothing else is put there

// PutScratch takes it back, unless it has grown large.
func PutScratch(b *[]byte) {
	if cap(*b) <= 64<<10 {
		*b = (*b)[:0]
		scratchPool.Put(b)
	}
}

// Write sends bytes to the client; an error is the client's.
func (t *Turn) Write(p []byte) error {
	_, err := t.c.Stream.Write(p)
	return t.failed(err)
}

func (t *Turn) writev(x, y, z []byte) error { return t.failed(t.c.Stream.Writev(x, y, z)) }

// writeLast sends what ends an answer; the last of a connection waits for its close.
func (t *Turn) writeLast(p []byte) error {
	switch c := t.c; {
	case len(p) == 0:
		return nil
	case !c.Closing || c.Unread:
		return t.Write(p)
	}
	return t.failed(t.c.Stream.WriteLast(p))
}

func (t *Turn) failed(err error) error {
	if err == nil {
		return nil
	}
	t.aborted = true
	return &exchange.ClientError{Err: err}
}

// head writes the final head into out; an answer is given once. One that
// refuses a body which is still coming says that the connection ends with it.
func (t *Turn) head(out *[]byte, h *exchange.Head, shape Shape, length int64) (framed bool, err error) {
	if t.started {
		return false, ErrAnswered
	}
	c := t.c
	c.Closing = c.Closing || c.draining.Load() || h.Status >= 300 && c.Unread && !t.Body.Done()
	b, framed, err := t.format.AppendHead(*out, h, shape, length)
	if err != nil {
		return false, err
	}
	*out = b
	t.begin()
	return framed, nil
}

// Respond implements exchange.Responder.
func (t *Turn) Respond(h *exchange.Head, src exchange.Source) error {
	out := GetScratch()
	defer PutScratch(out)
	if src == nil || exchange.NoBody(t.X.Request.Method, h.Status) {
		if _, err := t.head(out, h, NoBody, -1); err != nil {
			return err
		}
		return t.writeLast(*out)
	}
	whole, ok := src.Whole()
	if !ok || len(whole) > t.format.MostWhole() {
		return t.stream(out, h, src)
	}
	if _, err := t.head(out, h, WholeBody, int64(len(whole))); err != nil {
		return err
	}
	t.X.BytesOut += int64(len(whole))
	if len(whole) <= JoinBytes {
		*out = append(*out, whole...)
		return t.writeLast(*out)
	}
	return t.writev(*out, whole, nil)
}

// stream sends the head and then the body as it comes.
func (t *Turn) stream(out *[]byte, h *exchange.Head, src exchange.Source) error {
	w := writer{t: t, out: out, left: src.Length()}
	var err error
	if w.framed, err = t.head(out, h, Pieces, w.left); err != nil {
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
			t.aborted = true
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
		t.c.Extend()
	}
}

// writer frames the pieces of one body. What is to go before the next piece
// waits in out.
type writer struct {
	t      *Turn
	out    *[]byte
	framed bool
	left   int64 // of the announced length; -1 where there is none
}

func (w *writer) flush() error {
	if len(*w.out) == 0 {
		return nil
	}
	err := w.t.Write(*w.out)
	*w.out = (*w.out)[:0]
	return err
}

// account counts n bytes of the body, and holds it to the length that was announced.
func (w *writer) account(n int, last bool) error {
	if w.left >= 0 {
		if w.left -= int64(n); w.left < 0 || last && w.left > 0 {
			w.t.aborted = true
			return ErrBodyLength
		}
	}
	w.t.X.BytesOut += int64(n)
	return nil
}

// piece sends p, and after the last one the end.
func (w *writer) piece(p []byte, last bool, trailers *exchange.Head) error {
	if err := w.account(len(p), last); err != nil {
		return err
	}
	if w.framed {
		most := w.t.framing.MostPiece()
		for ; len(p) > most; p = p[most:] {
			if err := w.send(p[:most], false, nil); err != nil {
				return err
			}
		}
	}
	return w.send(p, last, trailers)
}

// keep lets p, a small piece, wait for the next.
func (w *writer) keep(p []byte) error {
	if err := w.account(len(p), false); err != nil {
		return err
	}
	w.open(len(p))
	return w.join(p, false, nil)
}

// open writes what goes before a piece.
func (w *writer) open(n int) {
	if w.framed && n > 0 {
		*w.out = w.t.framing.AppendFrame(*w.out, n)
	}
}

// join copies p, and what goes behind it.
func (w *writer) join(p []byte, last bool, trailers *exchange.Head) error {
	*w.out = append(*w.out, p...)
	return w.end(w.out, len(p), last, trailers)
}

// send writes p, framed or as it is.
func (w *writer) send(p []byte, last bool, trailers *exchange.Head) error {
	w.open(len(p))
	if len(p) > JoinBytes {
		return w.sendLong(p, last, trailers)
	}
	if err := w.join(p, last, trailers); err != nil {
		return err
	}
	if !last {
		return w.flush()
	}
	err := w.t.writeLast(*w.out)
	*w.out = (*w.out)[:0]
	return err
}

// sendLong writes p from where it lies.
func (w *writer) sendLong(p []byte, last bool, trailers *exchange.Head) error {
	tail := GetScratch()
	defer PutScratch(tail)
	if err := w.end(tail, len(p), last, trailers); err != nil {
		return err
	}
	err := w.t.writev(*w.out, p, *tail)
	*w.out = (*w.out)[:0]
	return err
}

func (w *writer) end(out *[]byte, n int, last bool, trailers *exchange.Head) error {
	if !w.framed {
		return nil
	}
	b, err := w.t.framing.AppendEnd(*out, n, last, trailers)
	if err != nil {
		w.t.aborted = true
		return err
	}
	*out = b
	return nil
}
