package serial

import (
	"errors"
	"io"
	"math"
	"sync/atomic"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
)

// Framer reads what a protocol writes between the pieces of a body.
type Framer interface {
	// Frame takes in what precedes data in b, of which it uses so many bytes. data is
	// how many bytes of data follow; 0 where more must be read to tell. The end of the
	// body is io.EOF, when trailers has been set to those that came.
	Frame(b []byte, trailers *exchange.Head) (used int, data int64, err error)
	// Ahead tells how much of b, which begins with framing, may be data.
	Ahead(b []byte) int
}

// Errors of bodies.
var (
	// ErrTruncated: the connection ended before the body did.
	ErrTruncated = errors.New("connection closed in the middle of the body")
	// ErrGivenUp is what a reader learns when the rest of the body is not wanted.
	ErrGivenUp = errors.New("the rest of the body is not wanted")
)

// Body is the reading end of a message's body, of a request or an answer. It
// begins with what was read along with the head and goes on in a buffer of its
// own, which grows with the traffic.
type Body struct {
	// Trailer is the trailer section.
	Trailer exchange.Head

	wait func(p []byte) (int, error) // reads, waiting; the connection's
	wake func()                      // ends a read that waits; nil where none has to be ended

	cur     []byte // read and not yet given out
	buf     *buffer.Buffer
	framer  Framer // nil: the body ends with data
	data    int64  // bytes of data before the next framing
	toClose bool   // the connection's end is the body's
	length  int64  // of the whole as announced; -1 where it was not
	total   int64  // given out so far
	limit   int64  // of total; 0 for none
	count   *int64 // where bytes are counted besides, or nil
	first   func() error
	err     error       // sticky: io.EOF once all was given out
	ended   atomic.Bool // err is io.EOF; may be asked from elsewhere
	closed  atomic.Bool
}

// Use tells how to read from the connection, and how to end a read that waits.
func (b *Body) Use(wait func(p []byte) (int, error), wake func()) { b.wait, b.wake = wait, wake }

func (b *Body) start(cur []byte) {
	b.cur, b.framer, b.data, b.toClose, b.length = cur, nil, 0, false, -1
	b.total, b.limit, b.count, b.first, b.err = 0, 0, nil, nil, nil
	b.Trailer.Reset(nil)
	b.ended.Store(false)
	b.closed.Store(false)
}

// StartSized is for a body of so many bytes; cur is what was read behind the head, of
// this function's siblings too.
func (b *Body) StartSized(cur []byte, length int64) {
	b.start(cur)
	b.data, b.length = length, length
}

// StartToClose is for a body that the connection's end ends.
func (b *Body) StartToClose(cur []byte) {
	b.start(cur)
	b.data, b.toClose = math.MaxInt64, true
}

// StartFramed is for a body that f frames. data is how much of it comes before any
// framing, length what was announced of the whole, which it is held to, or -1.
func (b *Body) StartFramed(cur []byte, f Framer, data, length int64) {
	b.start(cur)
	b.framer, b.data, b.length = f, data, length
}

// Bound lets a body of more than limit bytes fail, 0 being none, and counts the bytes
// in count besides.
func (b *Body) Bound(limit int64, count *int64) { b.limit, b.count = limit, count }

// BeforeWait sets what is called once before the first wait for the body.
func (b *Body) BeforeWait(f func() error) { b.first = f }

// Rest gives up what was read and returns it: what lies behind the body, if it is done.
func (b *Body) Rest() []byte {
	rest := b.cur
	b.cur = nil
	return rest
}

// Free gives the body's memory back.
func (b *Body) Free() {
	b.buf.Put()
	b.buf = nil
}

// Drop lets go of all that belongs to one message.
func (b *Body) Drop() {
	b.Free()
	b.start(nil)
}

// Done tells whether the body was read to its end.
func (b *Body) Done() bool { return b.ended.Load() }

// GivenUp tells whether Close was called before the end.
func (b *Body) GivenUp() bool { return b.closed.Load() }

// Total is how many bytes were given out so far.
func (b *Body) Total() int64 { return b.total }

// AtEnd tells whether the last byte of the body has been taken off the wire, and
// nothing behind it.
func (b *Body) AtEnd() bool {
	if b.Done() {
		return len(b.cur) == 0
	}
	return b.err == nil && b.framer == nil && int64(len(b.cur)) == b.data
}

// Length implements exchange.Source.
func (b *Body) Length() int64 {
	switch {
	case b.Done():
		return 0
	case b.length >= 0:
		return b.length - b.total
	}
	return -1
}

// Whole implements exchange.Source.
func (b *Body) Whole() ([]byte, bool) {
	switch {
	case b.Trailer.Live() > 0:
	case b.Done():
		return nil, true
	case b.err == nil && b.framer == nil && int64(len(b.cur)) >= b.data:
		return b.cur[:b.data:b.data], true
	}
	return nil, false
}

// Buffered implements exchange.Source.
func (b *Body) Buffered() int {
	if b.data == 0 && b.framer != nil {
		return b.framer.Ahead(b.cur)
	}
	return int(min(int64(len(b.cur)), b.data))
}

// Trailers implements exchange.Source.
func (b *Body) Trailers() *exchange.Head {
	if b.Trailer.Live() == 0 {
		return nil
	}
	return &b.Trailer
}

// Close implements exchange.Source. The connection decides what becomes of the
// rest.
func (b *Body) Close(error) {
	if !b.ended.Load() && !b.closed.Swap(true) && b.wake != nil {
		b.wake()
	}
}

// Next implements exchange.Source.
func (b *Body) Next() ([]byte, error) {
	n, err := b.ready()
	if n == 0 {
		return nil, err
	}
	p := b.cur[:n:n]
	b.cur = b.cur[n:]
	b.moved(n)
	return p, b.pastData()
}

// Read implements exchange.Source.
func (b *Body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(b.cur) == 0 && b.err == nil && b.data > 0 {
		return b.direct(p)
	}
	n, err := b.ready()
	if n == 0 {
		return 0, err
	}
	n = copy(p, b.cur[:n])
	b.cur = b.cur[n:]
	b.moved(n)
	return n, b.pastData()
}

// direct reads data straight into the caller's memory, the next bytes of the
// stream being nothing else.
func (b *Body) direct(p []byte) (int, error) {
	if err := b.begin(); err != nil {
		return 0, err
	}
	n, err := b.wait(p[:min(int64(len(p)), b.data)])
	if n > 0 {
		b.moved(n)
		return n, b.pastData()
	}
	if err != nil {
		b.fail(err)
	}
	return 0, b.err
}

// ready waits until there is data in cur and tells how much; 0 with the end or
// the error.
func (b *Body) ready() (int, error) {
	for b.err == nil {
		if b.data == 0 {
			b.framing()
		}
		if n := min(int64(len(b.cur)), b.data); n > 0 {
			return int(n), nil
		}
		if b.err == nil {
			b.fill()
		}
	}
	return 0, b.err
}

// moved accounts for n bytes of data.
func (b *Body) moved(n int) {
	b.total += int64(n)
	b.data -= int64(n)
	if b.count != nil {
		*b.count += int64(n)
	}
	if b.limit > 0 && b.total > b.limit {
		b.err = exchange.RefuseBodySize
	}
}

// pastData looks, without waiting, whether the body ends behind the data just
// given out, so that the end comes with the last bytes.
func (b *Body) pastData() error {
	if b.err == nil && b.data == 0 {
		b.framing()
	}
	if b.Done() || b.err == exchange.RefuseBodySize { //nolint:errorlint // an identity
		return b.err
	}
	return nil
}

// framing takes in what lies in cur between pieces of data.
func (b *Body) framing() {
	if b.framer == nil {
		b.end()
		return
	}
	n, data, err := b.framer.Frame(b.cur, &b.Trailer)
	b.cur = b.cur[n:]
	switch {
	case err == nil && b.length >= 0 && b.total+data > b.length:
		b.err = exchange.RefuseBodyLength
	case err == nil:
		b.data = data
	case err == io.EOF: //nolint:errorlint // the end is this value
		b.end()
	default:
		b.err = err
	}
}

// end notes that the body is whole, if it is.
func (b *Body) end() {
	if b.length >= 0 && b.total != b.length {
		b.Trailer.Reset(nil)
		b.err = exchange.RefuseBodyLength
		return
	}
	b.err = io.EOF
	b.ended.Store(true)
}

// begin is called before each wait.
func (b *Body) begin() error {
	if b.closed.Load() {
		return ErrGivenUp
	}
	if f := b.first; f != nil {
		b.first = nil
		return f()
	}
	return nil
}

// fill reads more behind what is left in cur.
func (b *Body) fill() {
	if err := b.begin(); err != nil {
		b.fail(err)
		return
	}
	b.room()
	have := len(b.cur)
	p := b.buf.B[have:]
	if b.framer == nil && b.data < int64(len(p)) {
		p = p[:b.data] // what follows is the next message's
	}
	n, err := b.wait(p)
	b.cur = b.buf.B[:have+n]
	if n == 0 && err != nil {
		b.fail(err)
	}
}

// room brings cur to the beginning of a buffer. It starts medium and is large once the
// body has shown that it is.
func (b *Body) room() {
	size := buffer.Medium
	if b.total > buffer.Medium || !b.toClose && b.data > buffer.Medium-b.total {
		size = buffer.Large
	}
	size = max(size, 2*len(b.cur))
	if b.buf != nil && len(b.buf.B) >= size {
		copy(b.buf.B, b.cur)
		return
	}
	next := buffer.Get(size)
	copy(next.B, b.cur)
	b.buf.Put()
	b.buf = next
}

// fail notes why no more can come.
func (b *Body) fail(err error) {
	switch {
	case b.err != nil:
	case err != io.EOF: //nolint:errorlint // from a Read
		b.err = err
	case b.toClose:
		b.end()
	default:
		b.err = ErrTruncated
	}
}
