package zapcodec

import (
	"encoding/binary"
	"math"
	"strconv"
)

// List is a view of a list whose elements have one width: numbers, bools,
// bytes_fixed. The zero value is an empty list.
type List struct {
	b     []byte // the elements
	width int
}

// List returns the list that the list cell at off points to, whose elements
// are width bytes long each; an empty one for a null cell.
func (o Object) List(off, width int) (List, error) {
	start, n, err := o.listAt(off)
	if err != nil || n == 0 {
		return List{}, err
	}
	if width <= 0 || uint64(n)*uint64(width) > uint64(len(o.msg)-start) {
		return List{}, fail(errPointer, int(o.off)+off, "list", strconv.FormatUint(uint64(n), 10)+" elements of "+
			strconv.Itoa(width)+" bytes at "+strconv.Itoa(start)+" do not lie inside the message of "+strconv.Itoa(len(o.msg)))
	}
	end := start + int(n)*width
	return List{b: o.msg[start:end:end], width: width}, nil
}

// listAt follows the list cell at off as far as its first element.
func (o Object) listAt(off int) (start int, n uint32, err error) {
	pos := int(o.off) + off
	rel, n := int32(binary.LittleEndian.Uint32(o.msg[pos:])), binary.LittleEndian.Uint32(o.msg[pos+4:])
	if rel == 0 {
		if n != 0 {
			return 0, 0, cellError(o.msg, pos, "list")
		}
		return 0, 0, nil
	}
	target := int64(pos) + int64(rel)
	if target < HeaderLen || target > int64(len(o.msg)) {
		return 0, 0, targetError(pos, "list", target, len(o.msg))
	}
	if target&7 != 0 {
		return 0, 0, fail(errAlign, pos, "list", "target "+strconv.FormatInt(target, 10)+" is not 8-aligned")
	}
	return int(target), n, nil
}

// Len returns the number of elements.
func (l List) Len() int {
	if l.width == 0 {
		return 0
	}
	return len(l.b) / l.width
}

// Raw returns the elements as they lie, back to back: the content of a list
// of u8.
func (l List) Raw() []byte { return l.b }

// At returns the bytes of element i, which must be in [0, Len).
func (l List) At(i int) []byte { return l.b[i*l.width : (i+1)*l.width : (i+1)*l.width] }

// Bool returns element i of a list of bools.
func (l List) Bool(i int) bool { return l.At(i)[0] != 0 }

// U8 returns element i of a list of bytes.
func (l List) U8(i int) uint8 { return l.At(i)[0] }

// U16 returns element i of a list of 2-byte unsigned integers.
func (l List) U16(i int) uint16 { return binary.LittleEndian.Uint16(l.At(i)) }

// U32 returns element i of a list of 4-byte unsigned integers.
func (l List) U32(i int) uint32 { return binary.LittleEndian.Uint32(l.At(i)) }

// U64 returns element i of a list of 8-byte unsigned integers.
func (l List) U64(i int) uint64 { return binary.LittleEndian.Uint64(l.At(i)) }

// I8 returns element i of a list of 1-byte signed integers.
func (l List) I8(i int) int8 { return int8(l.U8(i)) }

// I16 returns element i of a list of 2-byte signed integers.
func (l List) I16(i int) int16 { return int16(l.U16(i)) }

// I32 returns element i of a list of 4-byte signed integers.
func (l List) I32(i int) int32 { return int32(l.U32(i)) }

// I64 returns element i of a list of 8-byte signed integers.
func (l List) I64(i int) int64 { return int64(l.U64(i)) }

// F32 returns element i of a list of 4-byte floats.
func (l List) F32(i int) float32 { return math.Float32frombits(l.U32(i)) }

// F64 returns element i of a list of 8-byte floats.
func (l List) F64(i int) float64 { return math.Float64frombits(l.U64(i)) }

// VarList walks a list whose elements have lengths of their own: text, bytes,
// objects. Use it as
//
//	for l.Next() { use(l.Bytes()) }
//
// All elements were found to lie inside the message when the list was opened.
// The zero value is an empty list.
type VarList struct {
	msg        []byte
	start, end int // of the current element
	left       uint32
	count      uint32
	depth      uint32
}

// VarList returns the list of text, bytes or objects that the list cell at off
// points to; an empty one for a null cell. The work is bounded by the bytes of
// the message.
func (o Object) VarList(off int) (VarList, error) {
	start, n, err := o.listAt(off)
	if err != nil || n == 0 {
		return VarList{}, err
	}
	at := uint64(start)
	for range n {
		if at+4 > uint64(len(o.msg)) {
			return VarList{}, elementError(off+int(o.off), at, n, len(o.msg))
		}
		at += 4 + uint64(binary.LittleEndian.Uint32(o.msg[at:]))
	}
	if at > uint64(len(o.msg)) {
		return VarList{}, elementError(off+int(o.off), at, n, len(o.msg))
	}
	return VarList{msg: o.msg, start: start, end: start, left: n, count: n, depth: o.depth}, nil
}

func elementError(pos int, at uint64, n uint32, size int) error {
	return fail(errPointer, pos, "list", strconv.FormatUint(uint64(n), 10)+" elements reach to "+
		strconv.FormatUint(at, 10)+", outside the message of "+strconv.Itoa(size))
}

// Len returns the number of elements of the whole list.
func (l *VarList) Len() int { return int(l.count) }

// Next goes to the next element; false when there is none.
func (l *VarList) Next() bool {
	if l.left == 0 {
		return false
	}
	l.left--
	l.start = l.end + 4
	l.end = l.start + int(binary.LittleEndian.Uint32(l.msg[l.end:]))
	return true
}

// Bytes returns the current element. It aliases the message.
func (l *VarList) Bytes() []byte { return l.msg[l.start:l.end:l.end] }

// Object returns the current element as an object whose fixed section is
// fixed bytes long. What its cells point to may lie anywhere in the message.
func (l *VarList) Object(fixed int) (Object, error) {
	if fixed < 0 || fixed > l.end-l.start {
		return Object{}, fixedError("list element", uint32(l.start), fixed, l.end-l.start)
	}
	if l.depth >= MaxDepth {
		return Object{}, depthError(l.start)
	}
	return Object{msg: l.msg, off: uint32(l.start), depth: l.depth + 1}, nil
}
