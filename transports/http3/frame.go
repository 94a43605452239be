package http3

import (
	"github.com/quic-go/quic-go/quicvarint"

	"github.com/hanzoai/pqgw/transports/buffer"
)

// Types of frames (RFC 9114, section 7.2).
const (
	frameData        = 0x0
	frameHeaders     = 0x1
	frameCancelPush  = 0x3
	frameSettings    = 0x4
	framePushPromise = 0x5
	frameGoAway      = 0x7
	frameMaxPushID   = 0xd
)

// Types of unidirectional streams (RFC 9114, section 6.2; RFC 9204, section 4.2).
const (
	streamControl      = 0x0
	streamPush         = 0x1
	streamQPACKEncoder = 0x2
	streamQPACKDecoder = 0x3
)

// fromHTTP2 tells the types that HTTP/2 has and HTTP/3 must not (RFC 9114,
// section 7.2.8).
func fromHTTP2(frame uint64) bool {
	return frame == 0x2 || frame == 0x6 || frame == 0x8 || frame == 0x9
}

func appendFrameHeader(b []byte, frame byte, n int64) []byte {
	return quicvarint.Append(append(b, frame), uint64(n))
}

// Lengths of HEADERS frames are written in two bytes where they fit, so that the
// section can be encoded right behind.
const (
	shortLength = 2
	maxShort    = 1<<14 - 1
	longLength  = 4
)

// beginHeaders leaves room for the header of a HEADERS frame and begins its section.
func beginHeaders(b []byte) []byte { return appendPrefix(append(b, frameHeaders, 0, 0)) }

// endHeaders fills in the length of the frame that began at off.
func endHeaders(b []byte, off int) []byte {
	n := len(b) - off - 1 - shortLength
	if n <= maxShort {
		quicvarint.AppendWithLen(b[off+1:off+1], uint64(n), shortLength)
		return b
	}
	b = append(b, 0, 0)
	copy(b[off+1+longLength:], b[off+1+shortLength:])
	quicvarint.AppendWithLen(b[off+1:off+1], uint64(n), longLength)
	return b
}

// receiver is the receiving side of a QUIC stream.
type receiver interface {
	Read(p []byte) (int, error)
}

// reader takes frames off a stream. The zero value with str set is ready; free
// gives its memory back.
type reader struct {
	str  receiver
	buf  *buffer.Buffer
	r, w int
	end  error // what Read said at the end of the stream: io.EOF, or why there is no more
}

func (r *reader) buffered() int { return r.w - r.r }

// fill waits for more bytes. It makes room for at least want from r on.
func (r *reader) fill(want int) error {
	if r.end != nil {
		return r.end
	}
	r.room(want)
	n, err := r.str.Read(r.buf.B[r.w:])
	r.w += n
	if err != nil {
		r.end = err
		if n > 0 {
			return nil
		}
		return err
	}
	return nil
}

func (r *reader) room(want int) {
	switch {
	case r.buf == nil:
		r.buf = buffer.Get(max(want, buffer.Small))
		r.r, r.w = 0, 0
	case r.r == r.w && len(r.buf.B) >= want:
		r.r, r.w = 0, 0
	case r.r+want > len(r.buf.B) || r.w == len(r.buf.B):
		to := r.buf
		if r.w-r.r >= len(to.B) || want > len(to.B) {
			to = buffer.Get(max(want, 2*(r.w-r.r)))
		}
		r.w = copy(to.B, r.buf.B[r.r:r.w])
		r.r = 0
		if to != r.buf {
			r.buf.Put()
			r.buf = to
		}
	}
}

// varint reads an integer from what is buffered; false where more is needed.
func (r *reader) varint(at int) (v uint64, next int, ok bool) {
	if r.buf == nil || at >= r.w {
		return 0, at, false
	}
	v, n, err := quicvarint.Parse(r.buf.B[at:r.w])
	if err != nil {
		return 0, at, false
	}
	return v, at + n, true
}

// peekHeader reads a frame's header from what is buffered without consuming it.
func (r *reader) peekHeader() (frame, n uint64, size int, ok bool) {
	at := r.r
	if frame, at, ok = r.varint(at); !ok {
		return 0, 0, 0, false
	}
	if n, at, ok = r.varint(at); !ok {
		return 0, 0, 0, false
	}
	return frame, n, at - r.r, true
}

// header waits for a frame's header and consumes it. At the end of the stream
// the error is io.EOF between frames and errTruncated within one.
func (r *reader) header() (frame, n uint64, err error) {
	for {
		if frame, n, size, ok := r.peekHeader(); ok {
			r.r += size
			return frame, n, nil
		}
		if err := r.fill(maxHeader); err != nil {
			return 0, 0, r.cut(err)
		}
	}
}

// maxHeader is the longest a frame's header can be.
const maxHeader = 16

// cut is err, or errTruncated where the stream ended within something.
func (r *reader) cut(err error) error {
	if isEOF(err) && r.buffered() > 0 {
		return errTruncated
	}
	return err
}

// payload waits for the next n bytes and consumes them; they are valid until the next call.
func (r *reader) payload(n int) ([]byte, error) {
	for r.buffered() < n {
		if err := r.fill(n); err != nil {
			if isEOF(err) {
				err = errTruncated
			}
			return nil, err
		}
	}
	r.r += n
	if n == 0 {
		return nil, nil
	}
	return r.buf.B[r.r-n : r.r : r.r], nil
}

// skip throws n bytes away.
func (r *reader) skip(n uint64) error {
	for n > 0 {
		if b := uint64(r.buffered()); b > 0 {
			take := min(n, b)
			r.r += int(take)
			n -= take
			continue
		}
		if err := r.fill(1); err != nil {
			if isEOF(err) {
				err = errTruncated
			}
			return err
		}
	}
	return nil
}

// ended tells whether it is known that nothing comes behind what was consumed.
func (r *reader) ended() bool { return r.buffered() == 0 && isEOF(r.end) }

func (r *reader) free() {
	r.buf.Put()
	r.buf, r.r, r.w, r.end = nil, 0, 0, nil
}

// integer waits for a variable-length integer and consumes it.
func (r *reader) integer() (uint64, error) {
	for {
		if v, next, ok := r.varint(r.r); ok {
			r.r = next
			return v, nil
		}
		if err := r.fill(maxHeader); err != nil {
			return 0, r.cut(err)
		}
	}
}
