package zapcodec

import (
	"encoding/binary"
	"math"
	"strconv"
)

// MaxDepth is how many objects may be reached through each other. Pointers
// are signed, so a message can make a ring of objects; a caller that follows
// a recursive schema is stopped here.
const MaxDepth = 64

// Object is a view of an object: a fixed section inside a message. Its
// accessors take the offset of a field in the fixed section, which must lie
// inside the length given when the object was opened: that length was checked
// against the message, the offsets are the caller's own.
type Object struct {
	msg   []byte
	off   uint32
	depth uint32
}

// Offset returns where the fixed section begins, in bytes from the message's
// start.
func (o Object) Offset() int { return int(o.off) }

// at returns the bytes of the message from field offset off on.
func (o Object) at(off int) []byte { return o.msg[int(o.off)+off:] }

// Bool returns the bool at off; any byte but 0 is true.
func (o Object) Bool(off int) bool { return o.at(off)[0] != 0 }

// U8 returns the byte at off.
func (o Object) U8(off int) uint8 { return o.at(off)[0] }

// U16 returns the 2-byte unsigned integer at off.
func (o Object) U16(off int) uint16 { return binary.LittleEndian.Uint16(o.at(off)) }

// U32 returns the 4-byte unsigned integer at off.
func (o Object) U32(off int) uint32 { return binary.LittleEndian.Uint32(o.at(off)) }

// U64 returns the 8-byte unsigned integer at off.
func (o Object) U64(off int) uint64 { return binary.LittleEndian.Uint64(o.at(off)) }

// I8 returns the 1-byte signed integer at off.
func (o Object) I8(off int) int8 { return int8(o.U8(off)) }

// I16 returns the 2-byte signed integer at off.
func (o Object) I16(off int) int16 { return int16(o.U16(off)) }

// I32 returns the 4-byte signed integer at off.
func (o Object) I32(off int) int32 { return int32(o.U32(off)) }

// I64 returns the 8-byte signed integer at off.
func (o Object) I64(off int) int64 { return int64(o.U64(off)) }

// F32 returns the 4-byte float at off.
func (o Object) F32(off int) float32 { return math.Float32frombits(o.U32(off)) }

// F64 returns the 8-byte float at off.
func (o Object) F64(off int) float64 { return math.Float64frombits(o.U64(off)) }

// Fixed returns the n bytes in place at off (bytes_fixed).
func (o Object) Fixed(off, n int) []byte {
	i := int(o.off) + off
	return o.msg[i : i+n : i+n]
}

// Bytes returns what the text or bytes cell at off points to; nothing for a
// null cell. The result aliases the message.
func (o Object) Bytes(off int) ([]byte, error) {
	pos := int(o.off) + off
	start, end := follow(o.msg, pos)
	if end > uint64(len(o.msg)) {
		return nil, cellError(o.msg, pos, "bytes")
	}
	return o.msg[start:end:end], nil
}

// nowhere is an end that lies in no message.
const nowhere = math.MaxUint64

// follow reads the text or bytes cell at pos and returns where its target
// begins and ends; the end is nowhere when the cell is null with a length.
// The caller compares it to the message's length.
func follow(b []byte, pos int) (start, end uint64) {
	cell := binary.LittleEndian.Uint64(b[pos:])
	rel, n := cell&math.MaxUint32, cell>>32
	if rel == 0 && n != 0 {
		return 0, nowhere
	}
	start = uint64(pos) + rel
	return start, start + n
}

// cellError says why the text or bytes cell at pos is refused.
func cellError(b []byte, pos int, field string) error {
	rel, n := binary.LittleEndian.Uint32(b[pos:]), binary.LittleEndian.Uint32(b[pos+4:])
	if rel == 0 {
		return fail(errNull, pos, field, "null with a length of "+strconv.FormatUint(uint64(n), 10))
	}
	return fail(errPointer, pos, field, strconv.FormatUint(uint64(n), 10)+" bytes at "+
		strconv.FormatUint(uint64(pos)+uint64(rel), 10)+" do not lie inside the message of "+strconv.Itoa(len(b)))
}

// Object returns the object that the object cell at off points to, whose
// fixed section is fixed bytes long; ok is false for a null cell.
func (o Object) Object(off, fixed int) (child Object, ok bool, err error) {
	pos := int(o.off) + off
	rel := int32(binary.LittleEndian.Uint32(o.msg[pos:]))
	if rel == 0 {
		return Object{}, false, nil
	}
	target := int64(pos) + int64(rel)
	if target < HeaderLen || target > int64(len(o.msg)) {
		return Object{}, false, targetError(pos, "object", target, len(o.msg))
	}
	if fixed < 0 || target+int64(fixed) > int64(len(o.msg)) {
		return Object{}, false, fixedError("object", uint32(target), fixed, len(o.msg))
	}
	if o.depth >= MaxDepth {
		return Object{}, false, depthError(pos)
	}
	return Object{msg: o.msg, off: uint32(target), depth: o.depth + 1}, true, nil
}

func targetError(pos int, field string, target int64, size int) error {
	where := "outside the message of " + strconv.Itoa(size)
	if target < HeaderLen && target >= 0 {
		where = "inside the header"
	}
	return fail(errPointer, pos, field, "target "+strconv.FormatInt(target, 10)+" lies "+where)
}

func depthError(pos int) error {
	return fail(errDepth, pos, "object", "more than "+strconv.Itoa(MaxDepth)+" objects inside each other")
}
