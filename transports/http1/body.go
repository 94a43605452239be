package http1

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
)

// framing is how the end of a body is known (RFC 9112, section 6.3).
type framing uint8

const (
	framedByLength framing = iota
	framedByChunks
	framedByClose
)

// body is the reading end of a message's body, of a request or an answer. It
// begins with what was read along with the head and goes on in a buffer of its
// own, which grows with the traffic.
type body struct {
	read   func(p []byte) (int, error) // waits; the connection's
	cur    []byte                      // read and not yet given out
	buf    *buffer.Buffer
	kind   framing
	left   int64 // to come, where framed by length
	total  int64 // given out so far
	limit  int64 // of total; 0 for none
	chunks chunks
	head   exchange.Head // the trailers
	limits *exchange.Limits
	err    error        // sticky: io.EOF once all was given out
	first  func() error // called once before the first wait
	count  *int64       // where bytes are counted besides, or nil
	ended  atomic.Bool  // err is io.EOF; may be asked from elsewhere
	closed atomic.Bool
	wake   func() // ends a read that waits
}

// errTruncated: the connection ended before the body did.
var errTruncated = errors.New("connection closed in the middle of the body")

// start sets the body up; cur is what was read behind the head.
func (b *body) start(kind framing, length int64, cur []byte, limits *exchange.Limits, limit int64) {
	trailer := b.chunks.trailer[:0]
	b.kind, b.left, b.cur, b.total, b.err = kind, length, cur, 0, nil
	b.chunks = chunks{trailer: trailer}
	b.limits, b.limit, b.first, b.count = limits, limit, nil, nil
	b.ended.Store(false)
	b.closed.Store(false)
	b.head.Reset(nil)
	if kind == framedByLength && length == 0 {
		b.end()
	}
}

// release gives the memory back and returns what was read behind the body.
func (b *body) release() (rest []byte) {
	rest = b.cur
	b.cur = nil
	return rest
}

func (b *body) free() {
	b.buf.Put()
	b.buf = nil
}

// end notes that the body is whole.
func (b *body) end() {
	b.err = io.EOF
	b.ended.Store(true)
}

// done tells whether the body was read to its end.
func (b *body) done() bool { return b.ended.Load() }

// Length implements exchange.Source.
func (b *body) Length() int64 {
	if b.kind == framedByLength {
		return b.left
	}
	if b.done() {
		return 0
	}
	return -1
}

// Whole implements exchange.Source.
func (b *body) Whole() ([]byte, bool) {
	if b.done() {
		return nil, b.head.Live() == 0
	}
	if b.err == nil && b.kind == framedByLength && int64(len(b.cur)) >= b.left {
		return b.cur[:b.left], true
	}
	return nil, false
}

// Buffered implements exchange.Source.
func (b *body) Buffered() int {
	if b.kind == framedByLength {
		return int(min(int64(len(b.cur)), b.left))
	}
	return len(b.cur)
}

// Trailers implements exchange.Source.
func (b *body) Trailers() *exchange.Head {
	if b.head.Live() == 0 {
		return nil
	}
	return &b.head
}

// errGivenUp is what a reader learns when the rest of the body is not wanted.
var errGivenUp = errors.New("the rest of the body is not wanted")

// Close implements exchange.Source. The connection decides what becomes of the
// rest.
func (b *body) Close(error) {
	if !b.ended.Load() && !b.closed.Swap(true) && b.wake != nil {
		b.wake()
	}
}

// Next implements exchange.Source.
func (b *body) Next() ([]byte, error) {
	n, err := b.ready()
	if n == 0 {
		return nil, err
	}
	p := b.cur[:n]
	b.took(n)
	return p, b.pastData()
}

// Read implements exchange.Source.
func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(b.cur) == 0 && b.err == nil {
		if n, err, ok := b.direct(p); ok {
			return n, err
		}
	}
	n, err := b.ready()
	if n == 0 {
		return 0, err
	}
	n = copy(p, b.cur[:n])
	b.took(n)
	return n, b.pastData()
}

// direct reads data straight into the caller's memory where the next bytes of
// the stream can be nothing else.
func (b *body) direct(p []byte) (n int, err error, ok bool) { //nolint:revive // ok says whether it applied
	room := int64(len(p))
	switch {
	case b.kind == framedByLength:
		room = min(room, b.left)
	case b.kind == framedByChunks && b.chunks.state == chunkData:
		room = min(room, b.chunks.left)
	case b.kind == framedByChunks:
		return 0, nil, false
	}
	if b.closed.Load() {
		return 0, errGivenUp, true
	}
	if err := b.begin(); err != nil {
		return 0, err, true
	}
	n, err = b.read(p[:room])
	if n > 0 {
		b.moved(n)
	}
	if err != nil {
		b.fail(err)
	}
	return n, b.err, true
}

// ready waits until there is data in cur and tells how much; 0 with the end or
// the error.
func (b *body) ready() (int, error) {
	for b.err == nil {
		if n := b.available(); n > 0 {
			return n, nil
		}
		if b.err != nil {
			break
		}
		if err := b.fill(); err != nil {
			b.fail(err)
		}
	}
	return 0, b.err
}

// available tells how much of cur is data, after taking in the framing before it.
func (b *body) available() int {
	switch b.kind {
	case framedByLength:
		return int(min(int64(len(b.cur)), b.left))
	case framedByClose:
		return len(b.cur)
	}
	b.framing()
	if b.err != nil || b.chunks.state != chunkData {
		return 0
	}
	return int(min(int64(len(b.cur)), b.chunks.left))
}

// framing takes in what chunk framing lies in cur.
func (b *body) framing() {
	n, r := b.chunks.framing(b.cur, b.limits.HeadBytes)
	b.cur = b.cur[n:]
	if r != nil {
		b.err = r
		return
	}
	if b.chunks.state == chunkDone {
		if r := b.parseTrailers(); r != nil {
			b.err = r
			return
		}
		b.end()
	}
}

func (b *body) parseTrailers() *exchange.Refusal {
	t := b.chunks.trailer
	b.head.Reset(t)
	if len(t) > 2 {
		if r := parseFields(t, 0, &b.head, b.limits.Fields); r != nil {
			return r
		}
		return exchange.CheckTrailers(&b.head, b.limits)
	}
	return nil
}

// took accounts for n bytes of cur given out.
func (b *body) took(n int) {
	b.cur = b.cur[n:]
	b.moved(n)
}

// moved accounts for n bytes of data.
func (b *body) moved(n int) {
	b.total += int64(n)
	if b.count != nil {
		*b.count += int64(n)
	}
	switch b.kind {
	case framedByLength:
		if b.left -= int64(n); b.left == 0 {
			b.end()
		}
	case framedByChunks:
		if b.chunks.left -= int64(n); b.chunks.left == 0 {
			b.chunks.state = chunkDataCR
		}
	}
	if b.limit > 0 && b.total > b.limit {
		b.ended.Store(false)
		b.err = exchange.RefuseBodySize
	}
}

// pastData looks, without waiting, whether the body ends behind the data just
// given out, so that the end comes with the last bytes.
func (b *body) pastData() error {
	if b.kind == framedByChunks && b.err == nil && len(b.cur) > 0 && b.chunks.state != chunkData {
		b.framing()
	}
	if b.err == exchange.RefuseBodySize || b.done() { //nolint:errorlint // identities
		return b.err
	}
	return nil
}

// begin does what the first wait for a body has to do: to send 100 Continue.
func (b *body) begin() error {
	if b.first == nil {
		return nil
	}
	f := b.first
	b.first = nil
	return f()
}

// fill reads more into cur. The buffer starts medium and is large once the
// body has shown that it is.
func (b *body) fill() error {
	if b.closed.Load() {
		return errGivenUp
	}
	if err := b.begin(); err != nil {
		return err
	}
	if b.buf != nil && len(b.buf.B) < buffer.Large && b.total >= int64(len(b.buf.B)) {
		b.free()
	}
	if b.buf == nil {
		size := buffer.Medium
		if b.total+b.left > buffer.Medium {
			size = buffer.Large
		}
		b.buf = buffer.Get(size)
	}
	p := b.buf.B
	if b.kind == framedByLength && b.left < int64(len(p)) {
		p = p[:b.left] // what follows is the next message's
	}
	n, err := b.read(p)
	b.cur = p[:n]
	if n > 0 {
		return nil
	}
	return err
}

// fail notes why no more can come.
func (b *body) fail(err error) {
	if b.err != nil {
		return
	}
	switch {
	case err != io.EOF: //nolint:errorlint // from a Read
		b.err = err
	case b.kind == framedByClose:
		b.end()
	default:
		b.err = errTruncated
	}
}
