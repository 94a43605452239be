package http2

import (
	"io"
	"sync"

	"github.com/hanzoai/pqgw/exchange"
)

// continuer asks for the body that a client holds back.
type continuer interface{ sendContinue() }

// inbound is the receiving side of a stream: what the reader has taken in and
// its consumer has not yet read. It is the exchange.Source of the body. What it
// holds is bounded by the stream's window, which grows again only as the
// consumer reads.
type inbound struct {
	s *stream

	mu      sync.Mutex
	ready   sync.Cond // bytes, the end, a head or an error have come
	cur     *chunk    // what the consumer holds, from off
	off     int
	next    *chunk // what the reader adds to
	end     bool
	err     error // instead of more bytes
	closed  bool  // nobody will read: what comes is thrown away
	waiting bool  // the consumer waits
	parts   bool  // it was told that the body is not whole
	window  int64 // what the peer may still send
	owed    int64 // read and not yet given back
	total   int64 // bytes of body received
	length  int64 // what Content-Length says, or -1
	limit   int64 // of total; 0 for none

	first    continuer // asked once before the consumer waits
	trailers exchange.Head
	trailed  bool
	moved    *int64 // counts what the consumer took
}

func (in *inbound) init(s *stream, window int64) {
	in.s, in.ready.L = s, &in.mu
	in.window, in.length = window, -1
}

// reset makes it ready for another stream, and lets its memory go.
func (in *inbound) reset() {
	in.cur.release()
	in.next.release()
	in.cur, in.next, in.off = nil, nil, 0
	in.end, in.err, in.closed, in.waiting, in.parts = false, nil, false, false, false
	in.owed, in.total, in.limit, in.trailed, in.moved, in.first = 0, 0, 0, false, nil, nil
}

// write takes bytes in; false where they are thrown away.
func (in *inbound) write(p []byte) (bool, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.total += int64(len(p))
	switch {
	case in.closed || in.err != nil:
		return false, nil
	case in.length >= 0 && in.total > in.length:
		return false, exchange.RefuseBodyLength
	case in.limit > 0 && in.total > in.limit:
		in.err = exchange.RefuseBodySize
		in.ready.Broadcast()
		return false, nil
	}
	if in.next == nil {
		want := len(p)
		if in.length > 0 && in.length <= wholeBody {
			want = int(in.length)
		}
		in.next = getChunk(want)
	}
	in.next = in.next.grow(len(p))
	in.next.b = append(in.next.b, p...)
	in.ready.Broadcast()
	return true, nil
}

// finish notes the end of the body.
func (in *inbound) finish() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.length >= 0 && in.total != in.length && in.err == nil && !in.closed {
		return exchange.RefuseBodyLength
	}
	in.end = true
	in.ready.Broadcast()
	return nil
}

// fail lets the consumer learn err after what has come; nothing where all has.
func (in *inbound) fail(err error) {
	in.mu.Lock()
	if in.err == nil && !in.end {
		in.err = cutBy(err)
	}
	in.ready.Broadcast()
	in.mu.Unlock()
}

// cutBy is err as a consumer may see it: only a body's own end is io.EOF.
func cutBy(err error) error {
	if err == io.EOF { //nolint:errorlint // wrapped, it is not taken for the end
		return io.ErrUnexpectedEOF
	}
	return err
}

// breakOff lets the consumer learn err at once. What it has not read is lost; the
// connection is owed as much.
func (in *inbound) breakOff(err error) (owed int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed {
		in.err, in.end = cutBy(err), false
		if in.next != nil {
			owed = len(in.next.b)
		}
		in.next.release()
		in.next = nil
	}
	in.ready.Broadcast()
	return owed
}

// take accounts for a frame of n bytes; false where it is more than the window
// allows. overhead is what of it carries no body and is given back at once.
func (in *inbound) take(n, overhead int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.window -= int64(n)
	in.owed += int64(overhead)
	return in.window >= 0
}

// progress tells how much has come, and whether the consumer waits for more.
func (in *inbound) progress() (int64, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.total, in.waiting
}

// Length implements exchange.Source.
func (in *inbound) Length() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	left := int64(in.left())
	switch {
	case in.end && in.err == nil && !in.trailed:
		return left
	case in.length >= 0: // without it, trailers need the chunks of HTTP/1 to travel in
		return in.length - in.total + left
	}
	return -1
}

// left is how many bytes lie here unread.
func (in *inbound) left() int {
	n := 0
	if in.cur != nil {
		n = len(in.cur.b) - in.off
	}
	if in.next != nil {
		n += len(in.next.b)
	}
	return n
}

// Whole implements exchange.Source. A body that was not whole when it was first
// asked for is streamed, whatever comes meanwhile: who has begun to stream it
// counts on that.
func (in *inbound) Whole() ([]byte, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.parts || !in.end || in.err != nil || in.closed || in.trailed {
		in.parts = true
		return nil, false
	}
	if in.moved != nil { // who takes the whole does not come back for it
		*in.moved = in.total
		in.moved = nil
	}
	switch {
	case in.cur == nil || in.off == len(in.cur.b):
		if in.next == nil {
			return nil, true
		}
		// Whoever breaks the body off lets next go, and cur is the consumer's.
		in.cur, in.off, in.next = in.next, 0, nil
		return in.cur.b, true
	case in.next == nil || len(in.next.b) == 0:
		return in.cur.b[in.off:], true
	}
	in.parts = true
	return nil, false
}

// Buffered implements exchange.Source.
func (in *inbound) Buffered() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.left()
}

// Next implements exchange.Source.
func (in *inbound) Next() ([]byte, error) {
	in.mu.Lock()
	if err := in.await(); err != nil {
		in.mu.Unlock()
		return nil, err
	}
	p := in.cur.b[in.off:]
	in.off = len(in.cur.b)
	in.count(len(p))
	var err error
	if in.end && in.err == nil && in.next == nil {
		err = io.EOF
	}
	give := in.giveBack(len(p))
	in.mu.Unlock()
	in.s.credit(give, len(p))
	return p, err
}

// Read implements exchange.Source.
func (in *inbound) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	in.mu.Lock()
	if err := in.await(); err != nil {
		in.mu.Unlock()
		return 0, err
	}
	n := copy(p, in.cur.b[in.off:])
	in.off += n
	in.count(n)
	var err error
	if in.end && in.err == nil && in.left() == 0 {
		err = io.EOF
	}
	give := in.giveBack(n)
	in.mu.Unlock()
	in.s.credit(give, n)
	return n, err
}

func (in *inbound) count(n int) {
	if in.moved != nil {
		*in.moved += int64(n)
	}
}

// await returns once cur holds bytes to read. An idle stream keeps no memory.
func (in *inbound) await() error {
	for in.cur == nil || in.off == len(in.cur.b) {
		switch {
		case in.closed:
			return errBodyClosed
		case in.next != nil:
			in.cur.release()
			in.cur, in.off, in.next = in.next, 0, nil
		case in.err != nil:
			return in.err
		case in.end:
			return io.EOF
		case in.first != nil:
			first := in.first
			in.first = nil
			in.mu.Unlock()
			first.sendContinue()
			in.mu.Lock()
		default:
			in.cur.release()
			in.cur, in.off = nil, 0
			in.waiting = true
			in.ready.Wait()
			in.waiting = false
		}
	}
	if in.closed {
		return errBodyClosed
	}
	return nil
}

// giveBack tells how much the stream's window is to grow, after n more bytes
// have been read: half a window at a time, none once all has come.
func (in *inbound) giveBack(n int) uint32 {
	in.owed += int64(n)
	if in.end || in.closed || in.owed < in.s.c.streamWindow/2 {
		return 0
	}
	give := in.owed
	in.owed, in.window = 0, in.window+give
	return uint32(give)
}

// Trailers implements exchange.Source.
func (in *inbound) Trailers() *exchange.Head {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.end || !in.trailed {
		return nil
	}
	return &in.trailers
}

// Close implements exchange.Source.
func (in *inbound) Close(error) { in.s.credit(0, in.discard()) }

// discard throws away what has come and what will, and gives what the
// connection is owed for it.
func (in *inbound) discard() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return 0
	}
	in.closed = true
	n := in.left()
	if in.cur != nil {
		in.off = len(in.cur.b) // the chunk itself may still be in use
	}
	in.next.release()
	in.next = nil
	in.ready.Broadcast()
	return n
}
