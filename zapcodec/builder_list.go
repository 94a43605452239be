package zapcodec

import (
	"encoding/binary"
	"math"
)

// Number is what the elements of a list of numbers may be.
type Number interface {
	bool | uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64
}

// AppendList appends a list of numbers to the message, 8-aligned, each at its
// own width.
func AppendList[T Number](b *Builder, elems []T) ListRef {
	b.align()
	l := ListRef{off: len(b.buf), count: len(elems)}
	for _, e := range elems {
		b.buf = appendNumber(b.buf, e)
	}
	return l
}

func appendNumber[T Number](dst []byte, e T) []byte {
	switch v := any(e).(type) {
	case bool:
		if v {
			return append(dst, 1)
		}
		return append(dst, 0)
	case uint8:
		return append(dst, v)
	case int8:
		return append(dst, uint8(v))
	case uint16:
		return binary.LittleEndian.AppendUint16(dst, v)
	case int16:
		return binary.LittleEndian.AppendUint16(dst, uint16(v))
	case uint32:
		return binary.LittleEndian.AppendUint32(dst, v)
	case int32:
		return binary.LittleEndian.AppendUint32(dst, uint32(v))
	case float32:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
	case uint64:
		return binary.LittleEndian.AppendUint64(dst, v)
	case int64:
		return binary.LittleEndian.AppendUint64(dst, uint64(v))
	case float64:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return dst
}

// AppendFixedList appends count elements of one width that lie back to back in
// elems: a list of u8 (width 1), or of bytes_fixed.
func AppendFixedList(b *Builder, elems []byte, width int) ListRef {
	b.align()
	l := ListRef{off: len(b.buf), count: len(elems) / width}
	b.buf = append(b.buf, elems[:l.count*width]...)
	return l
}

// AppendBytesList appends a list of text or bytes, each a u32 length and the
// bytes.
func AppendBytesList[T ~string | ~[]byte](b *Builder, elems []T) ListRef {
	l := b.VarList()
	for _, e := range elems {
		l.open()
		b.buf = append(b.buf, e...)
	}
	return l.Done()
}

// VarListBuilder appends the elements of a list of text, bytes or objects, one
// after the other. Nothing else may be appended to the message until Done.
type VarListBuilder struct {
	b     *Builder
	ref   ListRef
	begun int // where the length of the open element lies; 0 when none is open
}

// VarList begins a list of elements that have lengths of their own.
func (b *Builder) VarList() VarListBuilder {
	b.align()
	return VarListBuilder{b: b, ref: ListRef{off: len(b.buf)}}
}

// open begins an element after closing the one before.
func (l *VarListBuilder) open() {
	l.close()
	l.begun = len(l.b.buf)
	l.ref.count++
	l.b.buf = append(l.b.buf, zeros[:4]...)
}

func (l *VarListBuilder) close() {
	if l.begun != 0 {
		binary.LittleEndian.PutUint32(l.b.buf[l.begun:], uint32(len(l.b.buf)-l.begun-4))
		l.begun = 0
	}
}

// Bytes appends an element.
func (l *VarListBuilder) Bytes(v []byte) {
	l.open()
	l.b.buf = append(l.b.buf, v...)
}

// Object appends an element that is an object with a fixed section of fixed
// bytes; what its fields append to the tail until the next element becomes
// part of it.
func (l *VarListBuilder) Object(fixed int) ObjectBuilder {
	l.open()
	return l.b.object(fixed)
}

// Done ends the list.
func (l *VarListBuilder) Done() ListRef {
	l.close()
	return l.ref
}
