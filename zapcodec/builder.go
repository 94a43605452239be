package zapcodec

import (
	"encoding/binary"
	"math"
	"strconv"
)

// maxMessage is the most bytes that an encoder here writes as one message:
// pointers to objects and lists are signed 32-bit distances.
const maxMessage = math.MaxInt32

// zeros is what fixed sections start as.
var zeros [64]byte

// Builder appends one message to a buffer of the caller's. Objects may be
// opened in any order and before or after what points to them; the tail of
// text and bytes grows in the order in which they are set. The zero value is
// of no use; get one from Build, and keep it where it is while objects of it
// are in use.
type Builder struct {
	buf   []byte
	start int // of the message in buf
}

// Build begins a message after dst, with the version and flags given (the
// message type in their high byte). Nothing is copied but into dst, which
// grows as append grows it.
func Build(dst []byte, version, flags uint16) Builder {
	start := len(dst)
	dst = append(dst, zeros[:HeaderLen]...)
	binary.LittleEndian.PutUint64(dst[start:], magic|uint64(version)<<32|uint64(flags)<<48)
	return Builder{buf: dst, start: start}
}

// align pads the message to a multiple of 8 bytes.
func (b *Builder) align() {
	if odd := (len(b.buf) - b.start) & 7; odd != 0 {
		b.buf = append(b.buf, zeros[:8-odd]...)
	}
}

// Object appends an object whose fixed section is fixed zero bytes, 8-aligned.
func (b *Builder) Object(fixed int) ObjectBuilder {
	b.align()
	return b.object(fixed)
}

func (b *Builder) object(fixed int) ObjectBuilder {
	off := len(b.buf)
	for fixed > len(zeros) {
		b.buf = append(b.buf, zeros[:]...)
		fixed -= len(zeros)
	}
	b.buf = append(b.buf, zeros[:fixed]...)
	return ObjectBuilder{b: b, off: off}
}

// Finish makes root the message's root object, writes the size, and returns
// the caller's buffer with the message at its end. It refuses what Open would
// refuse.
func (b *Builder) Finish(root ObjectBuilder) ([]byte, error) {
	msg := b.buf[b.start:]
	if len(msg) > maxMessage {
		return nil, tooLargeToWrite(len(msg))
	}
	binary.LittleEndian.PutUint64(msg[8:], uint64(root.off-b.start)|uint64(len(msg))<<32)
	if !sound(msg) {
		return nil, openError(msg)
	}
	return b.buf, nil
}

func tooLargeToWrite(n int) error {
	return fail(errTooLarge, 12, "size", strconv.Itoa(n)+" bytes are more than one message holds")
}

// ObjectBuilder sets the fields of an object. Offsets are those in the fixed
// section; a field that reaches beyond it is the caller's mistake.
type ObjectBuilder struct {
	b   *Builder
	off int // in the buffer
}

func (o ObjectBuilder) at(off int) []byte { return o.b.buf[o.off+off:] }

// SetBool writes a bool.
func (o ObjectBuilder) SetBool(off int, v bool) {
	var x uint8
	if v {
		x = 1
	}
	o.SetU8(off, x)
}

// SetU8 writes a byte.
func (o ObjectBuilder) SetU8(off int, v uint8) { o.at(off)[0] = v }

// SetU16 writes a 2-byte unsigned integer.
func (o ObjectBuilder) SetU16(off int, v uint16) { binary.LittleEndian.PutUint16(o.at(off), v) }

// SetU32 writes a 4-byte unsigned integer.
func (o ObjectBuilder) SetU32(off int, v uint32) { binary.LittleEndian.PutUint32(o.at(off), v) }

// SetU64 writes an 8-byte unsigned integer.
func (o ObjectBuilder) SetU64(off int, v uint64) { binary.LittleEndian.PutUint64(o.at(off), v) }

// SetI8 writes a 1-byte signed integer.
func (o ObjectBuilder) SetI8(off int, v int8) { o.SetU8(off, uint8(v)) }

// SetI16 writes a 2-byte signed integer.
func (o ObjectBuilder) SetI16(off int, v int16) { o.SetU16(off, uint16(v)) }

// SetI32 writes a 4-byte signed integer.
func (o ObjectBuilder) SetI32(off int, v int32) { o.SetU32(off, uint32(v)) }

// SetI64 writes an 8-byte signed integer.
func (o ObjectBuilder) SetI64(off int, v int64) { o.SetU64(off, uint64(v)) }

// SetF32 writes a 4-byte float.
func (o ObjectBuilder) SetF32(off int, v float32) { o.SetU32(off, math.Float32bits(v)) }

// SetF64 writes an 8-byte float.
func (o ObjectBuilder) SetF64(off int, v float64) { o.SetU64(off, math.Float64bits(v)) }

// SetFixed copies v in place (bytes_fixed); the rest of a longer field stays
// zero.
func (o ObjectBuilder) SetFixed(off int, v []byte) { copy(o.at(off), v) }

// SetBytes appends v to the tail and points the cell at it; an empty value is
// written as null.
func (o ObjectBuilder) SetBytes(off int, v []byte) {
	o.point(off, len(v))
	o.b.buf = append(o.b.buf, v...)
}

// SetText is SetBytes for a string.
func (o ObjectBuilder) SetText(off int, v string) {
	o.point(off, len(v))
	o.b.buf = append(o.b.buf, v...)
}

// point writes a text or bytes cell for n bytes at the end of the buffer.
func (o ObjectBuilder) point(off, n int) {
	pos := o.off + off
	var cell uint64
	if n != 0 {
		cell = uint64(uint32(len(o.b.buf)-pos)) | uint64(n)<<32
	}
	binary.LittleEndian.PutUint64(o.b.buf[pos:], cell)
}

// SetObject points the object cell at child, an object of the same message
// but not this cell's own place.
func (o ObjectBuilder) SetObject(off int, child ObjectBuilder) {
	o.SetU32(off, uint32(child.off-o.off-off))
}

// ListRef is a list that was appended to a message, to be pointed at by
// SetList. The zero value is an empty list.
type ListRef struct {
	off   int
	count int
}

// SetList points the list cell at l; an empty list is written as null.
func (o ObjectBuilder) SetList(off int, l ListRef) {
	var cell uint64
	if l.count != 0 {
		cell = uint64(uint32(l.off-o.off-off)) | uint64(l.count)<<32
	}
	o.SetU64(off, cell)
}
