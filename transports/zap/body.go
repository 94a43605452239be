package zap

import (
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
	"github.com/hanzoai/pqgw/zapcodec"
)

// body is the reading end of a message's body, of a request or an answer: of one
// message whose body is longer than what was read with its head, or of data frames. It
// begins with what was read along with the head and goes on in a buffer of its
// own, which grows with the traffic.
type body struct {
	read func(p []byte) (int, error) // waits; the connection's
	wake func()                      // ends a read that waits
	cur  []byte                      // read and not yet given out
	buf  *buffer.Buffer

	framed bool          // data frames and an end follow
	chunk  int64         // bytes of data before the next framing
	skip   int64         // bytes behind them that mean nothing
	tail   int           // of a message of its own: bytes behind the body, up to the message's end
	block  zapcodec.Span // where in the tail the trailers lie

	total    int64 // given out so far
	length   int64 // of the whole as announced; -1 where it was not
	limit    int64 // of total; 0 for none
	limits   *exchange.Limits
	message  int // most bytes of a frame
	end      zapcodec.EndView
	trailers exchange.Head
	kept     []byte // the bytes that trailers points into
	err      error  // sticky: io.EOF once all was given out
	count    *int64 // where bytes are counted besides, or nil
	ended    atomic.Bool
	closed   atomic.Bool
}

// errTruncated: the connection ended before the body did.
var errTruncated = errors.New("connection closed in the middle of the body")

// reset makes the body ready for another message; cur is what was read behind
// its head.
func (b *body) reset(cur []byte, limits *exchange.Limits, message int) {
	b.cur, b.framed, b.chunk, b.skip, b.tail, b.block = cur, false, 0, 0, 0, zapcodec.Span{}
	b.total, b.length, b.limit, b.err, b.count = 0, -1, 0, nil, nil
	b.limits, b.message = limits, message
	b.trailers.Reset(nil)
	b.ended.Store(false)
	b.closed.Store(false)
}

// startMessage is for a body that lies in one message of size bytes.
func (b *body) startMessage(size int, l zapcodec.Layout, cur []byte, limits *exchange.Limits) {
	b.reset(cur, limits, 0)
	bodyEnd := l.Body.Off + l.Body.Len
	b.chunk, b.length = int64(l.Body.Len), int64(l.Body.Len)
	b.tail = size - int(bodyEnd)
	if l.Trailers.Len > 0 {
		b.block = zapcodec.Span{Off: l.Trailers.Off - bodyEnd, Len: l.Trailers.Len}
	}
}

// startFrames is for a body that comes in data frames; length is what was
// announced, or -1.
func (b *body) startFrames(length int64, cur []byte, limits *exchange.Limits, message int) {
	b.reset(cur, limits, message)
	b.framed, b.length = true, length
}

// release gives up what was read and returns what lies behind the body.
func (b *body) release() (rest []byte) {
	rest = b.cur
	b.cur = nil
	return rest
}

func (b *body) free() {
	b.buf.Put()
	b.buf = nil
	if cap(b.kept) > buffer.Small {
		b.kept = nil
	}
}

// done tells whether the body was read to its end.
func (b *body) done() bool { return b.ended.Load() }

// Length implements exchange.Source.
func (b *body) Length() int64 {
	switch {
	case b.done():
		return 0
	case b.length >= 0:
		return b.length - b.total
	}
	return -1
}

// Whole implements exchange.Source.
func (b *body) Whole() ([]byte, bool) {
	if b.done() {
		return nil, b.trailers.Live() == 0
	}
	if b.err == nil && !b.framed && b.block.Len == 0 && int64(len(b.cur)) >= b.chunk+int64(b.tail) {
		return b.cur[:b.chunk:b.chunk], true
	}
	return nil, false
}

// Buffered implements exchange.Source.
func (b *body) Buffered() int {
	n := int(min(int64(len(b.cur)), b.chunk))
	if n == 0 && b.framed && len(b.cur) > prefix+zapcodec.DataHeadLen && b.cur[prefix+7] == zapcodec.TypeData {
		// The next frame has begun to arrive with a chunk of its own.
		n = len(b.cur) - prefix - zapcodec.DataHeadLen
	}
	return n
}

// Trailers implements exchange.Source.
func (b *body) Trailers() *exchange.Head {
	if b.trailers.Live() == 0 {
		return nil
	}
	return &b.trailers
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
	p := b.cur[:n:n]
	b.cur = b.cur[n:]
	b.moved(n)
	return p, b.pastData()
}

// Read implements exchange.Source.
func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(b.cur) == 0 && b.err == nil && b.chunk > 0 {
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
func (b *body) direct(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, errGivenUp
	}
	n, err := b.read(p[:min(int64(len(p)), b.chunk)])
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
func (b *body) ready() (int, error) {
	for b.err == nil {
		if b.chunk == 0 && b.framing() {
			continue
		}
		if n := min(int64(len(b.cur)), b.chunk); n > 0 {
			return int(n), nil
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

// moved accounts for n bytes of data.
func (b *body) moved(n int) {
	b.total += int64(n)
	b.chunk -= int64(n)
	if b.count != nil {
		*b.count += int64(n)
	}
	if b.limit > 0 && b.total > b.limit {
		b.err = exchange.RefuseBodySize
	}
}

// pastData looks, without waiting, whether the body ends behind the data just
// given out, so that the end comes with the last bytes.
func (b *body) pastData() error {
	if b.err == nil && b.chunk == 0 {
		b.framing()
	}
	if b.err != nil && (b.done() || b.limit > 0 && b.total > b.limit) {
		return b.err
	}
	return nil
}

// framing takes in what lies in cur between pieces of data. It returns false
// where more must be read, and where there is no more.
func (b *body) framing() bool {
	if b.skip > 0 {
		n := min(b.skip, int64(len(b.cur)))
		b.cur, b.skip = b.cur[n:], b.skip-n
		if b.skip > 0 {
			return false
		}
	}
	if b.framed {
		return b.nextFrame()
	}
	if len(b.cur) < b.tail {
		return false
	}
	tail := b.cur[:b.tail]
	b.cur = b.cur[b.tail:]
	if b.block.Len > 0 {
		b.take(b.block.Of(tail))
		if b.err == nil {
			b.fields(b.end.ParseBlock(b.kept))
		}
	}
	b.finish()
	return false
}

// take keeps bytes that the trailers point into.
func (b *body) take(p []byte) {
	if b.limits.HeadBytes > 0 && len(p) > b.limits.HeadBytes {
		b.err = exchange.RefuseTrailers
		return
	}
	b.kept = append(b.kept[:0], p...)
}

// fields makes the trailers' head of what end holds.
func (b *body) fields(err error) {
	if err != nil {
		b.err = exchange.RefuseTrailers
		return
	}
	b.trailers.Reset(b.kept)
	r := addPairs(&b.trailers, b.end.Trailers(), b.limits)
	if r == nil {
		r = exchange.CheckTrailers(&b.trailers, b.limits)
	}
	if r != nil {
		b.trailers.Reset(nil)
		b.err = r
	}
}

// finish notes that the body is whole, if it is.
func (b *body) finish() {
	switch {
	case b.err != nil:
	case b.length >= 0 && b.total != b.length:
		b.err = exchange.RefuseBodyLength
	default:
		b.err = io.EOF
		b.ended.Store(true)
	}
}

// nextFrame takes in the beginning of a data frame, or the end.
func (b *body) nextFrame() bool {
	if len(b.cur) < prefix+zapcodec.HeaderLen {
		return false
	}
	size := int(binary.BigEndian.Uint32(b.cur))
	if size > b.message {
		b.err = RefuseMessageSize
		return false
	}
	if b.cur[prefix+7] == zapcodec.TypeEnd {
		return b.lastFrame(size)
	}
	chunk, ok, err := zapcodec.DataLayout(b.cur[prefix:], size)
	if err != nil {
		b.err = RefuseFrame
		return false
	}
	if !ok || len(b.cur) < prefix+int(chunk.Off) && chunk.Len > 0 {
		if len(b.cur) >= buffer.Small {
			b.err = RefuseFrame // a root so far back is nobody's layout
		}
		return false
	}
	if b.length >= 0 && b.total+int64(chunk.Len) > b.length {
		b.err = exchange.RefuseBodyLength
		return false
	}
	if chunk.Len == 0 {
		b.skip = int64(prefix + size)
		return true
	}
	b.cur = b.cur[prefix+int(chunk.Off):]
	b.chunk, b.skip = int64(chunk.Len), int64(size)-int64(chunk.Off)-int64(chunk.Len)
	return true
}

// lastFrame takes in the end, once all of it is there.
func (b *body) lastFrame(size int) bool {
	if most := b.limits.HeadBytes; most > 0 && size > most+zapcodec.DataHeadLen {
		b.err = exchange.RefuseTrailers
		return false
	}
	if len(b.cur) < prefix+size {
		return false
	}
	b.kept = append(b.kept[:0], b.cur[prefix:prefix+size]...)
	b.cur = b.cur[prefix+size:]
	b.fields(b.end.Parse(b.kept))
	b.finish()
	return false
}

// fill reads more behind what is left in cur. The buffer starts medium and is
// large once the body has shown that it is.
func (b *body) fill() error {
	if b.closed.Load() {
		return errGivenUp
	}
	size := buffer.Medium
	if b.total+b.chunk > buffer.Medium {
		size = buffer.Large
	}
	size = max(size, 2*len(b.cur))
	if b.buf == nil || len(b.buf.B) < size {
		next := buffer.Get(size)
		copy(next.B, b.cur)
		b.buf.Put()
		b.buf = next
	} else {
		copy(b.buf.B, b.cur)
	}
	have := len(b.cur)
	n, err := b.read(b.buf.B[have:])
	b.cur = b.buf.B[:have+n]
	if n > 0 {
		return nil
	}
	return err
}

// fail notes why no more can come.
func (b *body) fail(err error) {
	switch {
	case b.err != nil:
	case err == io.EOF: //nolint:errorlint // from a Read
		b.err = errTruncated
	default:
		b.err = err
	}
}
