package http3

import (
	"io"
	"sync/atomic"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
)

// wholeBody is the largest body that is gathered before its exchange is dispatched.
const wholeBody = 64 << 10

// owner is the end of a stream that a body belongs to.
type owner interface {
	// awaiting is called before a read that may wait.
	awaiting(got int64)
	// arrived is called after one that has brought something.
	arrived()
	// failed makes of an error of a read what the consumer is told.
	failed(err error) error
	// fault ends the connection, or with a refusal the stream.
	fault(err error)
	// stopReading asks the peer to send no more.
	stopReading()
}

// inbound is the incoming body of a stream: an exchange.Source over its DATA
// frames. One goroutine reads; Close may come from another.
type inbound struct {
	reader
	own owner
	dec *decoder
	lim *exchange.Limits

	left   uint64 // of the DATA frame that is being read
	length int64  // what Content-Length says, or -1
	limit  int64  // of total; 0 for none
	total  int64  // bytes of body given out
	count  *int64
	whole  bool   // all of it lies in the buffer, and no trailers follow
	err    error  // why nothing follows
	first  func() // called once before the consumer waits
	closed atomic.Bool

	trailers exchange.Head
	trailed  bool
}

func (in *inbound) reset() {
	in.free()
	in.left, in.length, in.limit, in.total, in.count = 0, -1, 0, 0, nil
	in.whole, in.err, in.first, in.trailed = false, nil, nil, false
	in.closed.Store(false)
}

// more waits for bytes. At the end of the stream the error is io.EOF.
func (in *inbound) more(want int) error {
	if in.end == nil {
		if f := in.first; f != nil {
			in.first = nil
			f()
		}
		in.own.awaiting(in.total)
	}
	err := in.fill(want)
	if err == nil || isEOF(err) {
		in.own.arrived()
		return err
	}
	return in.own.failed(err)
}

// gather waits for a small body, so that it can be handed over whole. What goes wrong is
// left in err for the consumer.
func (in *inbound) gather() {
	for {
		frame, n, size, ok := in.peekHeader()
		switch {
		case ok && frame == frameData && int64(n) == in.length:
			in.r += size
			in.left = n
			in.onePiece(int(n))
			return
		case ok:
			in.pieces()
			return
		}
		if in.err = in.moreOrEnd(maxHeader); in.err != nil {
			return
		}
	}
}

// onePiece gathers a body that is one DATA frame, where it lies.
func (in *inbound) onePiece(n int) {
	for in.buffered() < n || in.buffered() == n && in.end == nil {
		if err := in.more(n + maxHeader); isEOF(err) {
			break
		} else if err != nil {
			in.err = err
			return
		}
	}
	if in.whole = in.buffered() == n && isEOF(in.end); in.whole && in.count != nil {
		*in.count, in.count = in.length, nil
	}
}

// wholeAlready is gather for what has come, without a wait.
func (in *inbound) wholeAlready() {
	frame, n, size, ok := in.peekHeader()
	if !ok || frame != frameData || in.length >= 0 && int64(n) != in.length || !isEOF(in.end) ||
		uint64(in.buffered()-size) != n || n == 0 {
		return
	}
	in.r += size
	in.left, in.whole = n, true
	in.length = int64(n)
}

// pieces gathers a body of several frames.
func (in *inbound) pieces() {
	b := buffer.Get(int(in.length))
	n := 0
	for in.err == nil {
		p, err := in.Next()
		if n += copy(b.B[n:], p); err != nil {
			break
		}
	}
	if !isEOF(in.err) {
		b.Put()
		return
	}
	in.buf.Put()
	in.buf, in.r, in.w = b, 0, n
	in.left, in.total, in.count, in.err = uint64(n), 0, nil, nil
	in.whole = !in.trailed
}

// moreOrEnd is more where the end of the stream is left for ready to judge.
func (in *inbound) moreOrEnd(want int) error {
	if err := in.more(want); err != nil && !isEOF(err) {
		return err
	} else if err != nil {
		return in.finish()
	}
	return nil
}

// finish judges the end of the stream.
func (in *inbound) finish() error {
	switch {
	case in.left > 0 || in.buffered() > 0:
		in.own.fault(connErr(FrameError, errTruncated.Error()))
		return errTruncated
	case in.length >= 0 && in.total != in.length:
		in.own.fault(exchange.RefuseBodyLength)
		return exchange.RefuseBodyLength
	}
	return io.EOF
}

// ready waits until there are bytes of body in the buffer and tells how many.
func (in *inbound) ready() (int, error) {
	for {
		switch {
		case in.closed.Load():
			return 0, errBodyClosed
		case in.err != nil:
			return 0, in.err
		case in.left > 0 && in.buffered() > 0:
			n := int(min(in.left, uint64(in.buffered())))
			if in.err = in.allowed(int64(n)); in.err == nil {
				return n, nil
			}
		case in.left > 0:
			in.err = in.moreOrEnd(in.chunk())
		default:
			in.err = in.frame()
		}
	}
}

// chunk is how much to read at once: more once the body has proved to be long.
func (in *inbound) chunk() int {
	switch {
	case in.buf == nil || in.left <= buffer.Small && in.total < buffer.Medium:
		return 1
	case in.total < 1<<20:
		return buffer.Medium
	}
	return buffer.Large
}

// allowed checks a piece against what was announced and what is allowed.
func (in *inbound) allowed(n int64) error {
	switch {
	case in.length >= 0 && in.total+n > in.length:
		in.own.fault(exchange.RefuseBodyLength)
		return exchange.RefuseBodyLength
	case in.limit > 0 && in.total+n > in.limit:
		return exchange.RefuseBodySize
	}
	return nil
}

// frame reads the header of the next frame, and acts on frames other than DATA.
func (in *inbound) frame() error {
	frame, n, size, ok := in.peekHeader()
	if !ok {
		return in.moreOrEnd(maxHeader)
	}
	in.r += size
	switch {
	case frame == frameData && !in.trailed:
		in.left = n
		return nil
	case frame == frameHeaders && !in.trailed:
		return in.section(n)
	case unexpected(frame):
		err := connErr(FrameUnexpected, "a frame that must not come on this stream, or not here")
		in.own.fault(err)
		return err
	}
	return in.pass(n)
}

// unexpected tells which frames must not come on a request stream behind its
// head; unknown ones may (RFC 9114, sections 4.1 and 9).
func unexpected(frame uint64) bool { return frame <= frameMaxPushID }

// section reads the trailers.
func (in *inbound) section(n uint64) error {
	if n > uint64(maxSection(in.lim)) {
		in.own.fault(exchange.RefuseTrailers)
		return exchange.RefuseTrailers
	}
	for in.buffered() < int(n) {
		if err := in.more(int(n)); err != nil {
			return in.short(err)
		}
	}
	block := in.buf.B[in.r : in.r+int(n)]
	in.r += int(n)
	in.trailed = true
	r, err := readTrailers(in.dec, &in.trailers, block, in.lim)
	switch {
	case err != nil:
		in.own.fault(err)
		return err
	case r != nil:
		in.own.fault(r)
		return r
	}
	return nil
}

// short is what the end of the stream means within a frame.
func (in *inbound) short(err error) error {
	if !isEOF(err) {
		return err
	}
	in.own.fault(connErr(FrameError, errTruncated.Error()))
	return errTruncated
}

// pass throws the payload of an unknown frame away.
func (in *inbound) pass(n uint64) error {
	for n > 0 {
		if b := min(n, uint64(in.buffered())); b > 0 {
			in.r += int(b)
			n -= b
			continue
		}
		if err := in.more(1); err != nil {
			return in.short(err)
		}
	}
	return nil
}

// take gives out n bytes of the buffer.
func (in *inbound) take(n int) []byte {
	p := in.buf.B[in.r : in.r+n : in.r+n]
	in.r += n
	in.left -= uint64(n)
	in.total += int64(n)
	if in.count != nil {
		*in.count += int64(n)
	}
	return p
}

// atEnd is io.EOF, or what is wrong, where it is known that nothing follows.
func (in *inbound) atEnd() error {
	if in.left == 0 && in.ended() && in.err == nil {
		in.err = in.finish()
		return in.err
	}
	return nil
}

// Length implements exchange.Source.
func (in *inbound) Length() int64 {
	switch {
	case in.length >= 0:
		return in.length - in.total
	case in.err == io.EOF: //nolint:errorlint // it is our own
		return 0
	}
	return -1
}

// Whole implements exchange.Source.
func (in *inbound) Whole() ([]byte, bool) {
	if !in.whole || in.closed.Load() {
		return nil, false
	}
	return in.buf.B[in.r:in.w:in.w], true
}

// Next implements exchange.Source.
func (in *inbound) Next() ([]byte, error) {
	n, err := in.ready()
	if err != nil {
		return nil, err
	}
	p := in.take(n)
	return p, in.atEnd()
}

// Read implements exchange.Source.
func (in *inbound) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := in.ready()
	if err != nil {
		return 0, err
	}
	n = copy(p, in.take(min(n, len(p))))
	return n, in.atEnd()
}

// Buffered implements exchange.Source.
func (in *inbound) Buffered() int {
	if in.err != nil {
		return 0
	}
	if in.left > 0 {
		return int(min(in.left, uint64(in.buffered())))
	}
	// Where a DATA frame begins in the buffer, some of it can be had.
	if frame, n, size, ok := in.peekHeader(); ok && frame == frameData {
		return int(min(n, uint64(in.buffered()-size)))
	}
	return 0
}

// Trailers implements exchange.Source.
func (in *inbound) Trailers() *exchange.Head {
	if !in.trailed || in.err != io.EOF { //nolint:errorlint // it is our own
		return nil
	}
	return &in.trailers
}

// Close implements exchange.Source.
func (in *inbound) Close(error) {
	if !in.closed.Swap(true) {
		in.own.stopReading()
	}
}

// maxSection bounds an encoded section by the limit on the decoded one: no
// encoder that means well makes it longer than that and a prefix per field.
func maxSection(lim *exchange.Limits) int {
	if lim.HeadBytes <= 0 {
		return 1 << 20
	}
	return 2*lim.HeadBytes + 1024
}
