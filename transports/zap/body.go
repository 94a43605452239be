package zap

import (
	"encoding/binary"
	"io"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/zapcodec"
)

// framing reads what lies between and behind the pieces of a body, a
// serial.Framer: data frames and an end, or the rest of a message whose body is
// longer than what was read with its head.
type framing struct {
	limits  *exchange.Limits
	message int // most bytes of a frame; 0 where the body lies in a message of its own
	skip    int64
	// Of a message of its own: the bytes behind the body, and where in them the trailers
	// lie.
	tail  int
	block zapcodec.Span

	end  zapcodec.EndView
	kept []byte // the bytes that trailers point into
}

// startFrames is for a body that comes in data frames; length is what was
// announced, or -1.
func (f *framing) startFrames(b *serial.Body, length int64, cur []byte, limits *exchange.Limits, message int) {
	f.limits, f.message, f.skip = limits, message, 0
	b.StartFramed(cur, f, 0, length)
}

// startMessage is for a body that lies in one message of size bytes.
func (f *framing) startMessage(b *serial.Body, size int, l zapcodec.Layout, cur []byte, limits *exchange.Limits) {
	length := int64(l.Body.Len)
	bodyEnd := l.Body.Off + l.Body.Len
	if size == int(bodyEnd) {
		b.StartSized(cur, length)
		return
	}
	f.limits, f.message, f.skip = limits, 0, 0
	f.tail, f.block = size-int(bodyEnd), zapcodec.Span{}
	if l.Trailers.Len > 0 {
		f.block = zapcodec.Span{Off: l.Trailers.Off - bodyEnd, Len: l.Trailers.Len}
	}
	b.StartFramed(cur, f, length, length)
}

// startWhole is for the body, with trailers, of a message that is whole.
func startWhole(b *serial.Body, body []byte, trailers zapcodec.Pairs, message []byte, limits *exchange.Limits) *exchange.Refusal {
	b.StartSized(body, int64(len(body)))
	if trailers.Count() == 0 {
		return nil
	}
	return takeTrailers(&b.Trailer, trailers, message, limits)
}

// takeTrailers makes h of the trailers that lie in message.
func takeTrailers(h *exchange.Head, p zapcodec.Pairs, message []byte, limits *exchange.Limits) *exchange.Refusal {
	h.Reset(message)
	r := addPairs(h, p, limits)
	if r == nil {
		r = exchange.CheckTrailers(h, limits)
	}
	if r != nil {
		h.Reset(nil)
	}
	return r
}

// drop lets go of all that belongs to one connection, and of memory that few bodies need.
func (f *framing) drop() {
	f.limits = nil
	if cap(f.kept) > buffer.Small {
		f.kept = nil
	}
}

// Ahead implements serial.Framer: the next frame may have begun to arrive with a chunk
// of its own.
func (f *framing) Ahead(b []byte) int {
	if f.message == 0 || len(b) <= prefix+zapcodec.DataHeadLen || b[prefix+7] != zapcodec.TypeData {
		return 0
	}
	return len(b) - prefix - zapcodec.DataHeadLen
}

// Frame implements serial.Framer.
func (f *framing) Frame(b []byte, trailers *exchange.Head) (used int, data int64, err error) {
	if f.message == 0 {
		return f.rest(b, trailers)
	}
	for {
		n := int(min(f.skip, int64(len(b)-used)))
		used, f.skip = used+n, f.skip-int64(n)
		if f.skip > 0 || len(b)-used < prefix+zapcodec.HeaderLen {
			return used, 0, nil
		}
		n, data, err = f.next(b[used:], trailers)
		used += n
		if data > 0 || err != nil || f.skip == 0 {
			return used, data, err
		}
	}
}

// rest takes in what is behind the body of a message of its own.
func (f *framing) rest(b []byte, trailers *exchange.Head) (used int, data int64, err error) {
	if len(b) < f.tail {
		return 0, 0, nil
	}
	if f.block.Len > 0 {
		block := f.block.Of(b[:f.tail])
		if f.limits.HeadBytes > 0 && len(block) > f.limits.HeadBytes {
			return 0, 0, exchange.RefuseTrailers
		}
		f.kept = append(f.kept[:0], block...)
		if err := f.fields(f.end.ParseBlock(f.kept), trailers); err != nil {
			return 0, 0, err
		}
	}
	return f.tail, 0, io.EOF
}

// fields makes the trailers' head of what end holds.
func (f *framing) fields(err error, trailers *exchange.Head) error {
	if err != nil {
		return exchange.RefuseTrailers
	}
	if r := takeTrailers(trailers, f.end.Trailers(), f.kept, f.limits); r != nil {
		return r
	}
	return nil
}

// next takes in the beginning of a data frame, or the end. Of a frame without data
// all is to be skipped.
func (f *framing) next(b []byte, trailers *exchange.Head) (used int, data int64, err error) {
	size := int(binary.BigEndian.Uint32(b))
	if size > f.message {
		return 0, 0, RefuseMessageSize
	}
	if b[prefix+7] == zapcodec.TypeEnd {
		used, err = f.last(b, size, trailers)
		return used, 0, err
	}
	chunk, ok, err := zapcodec.DataLayout(b[prefix:], size)
	if err != nil {
		return 0, 0, RefuseFrame
	}
	head := prefix + int(chunk.Off)
	switch {
	case !ok || len(b) < head && chunk.Len > 0:
		if len(b) >= buffer.Small {
			return 0, 0, RefuseFrame // a root so far back is nobody's layout
		}
		return 0, 0, nil
	case chunk.Len == 0:
		f.skip = int64(prefix + size)
		return 0, 0, nil
	}
	f.skip = int64(size) - int64(chunk.Off) - int64(chunk.Len)
	return head, int64(chunk.Len), nil
}

// last takes in the end, once all of it is there.
func (f *framing) last(b []byte, size int, trailers *exchange.Head) (used int, err error) {
	if most := f.limits.HeadBytes; most > 0 && size > most+zapcodec.DataHeadLen {
		return 0, exchange.RefuseTrailers
	}
	if len(b) < prefix+size {
		return 0, nil
	}
	f.kept = append(f.kept[:0], b[prefix:prefix+size]...)
	if err := f.fields(f.end.Parse(f.kept), trailers); err != nil {
		return 0, err
	}
	return prefix + size, io.EOF
}
