package zapcodec

import (
	"encoding/binary"
	"math"
)

// Get reads the field.
func (f U8Field) Get(r Record) uint8 { return r.msg[int(r.off)+int(f.off)] }

// Set writes the field.
func (f U8Field) Set(o ObjectBuilder, v uint8) { o.SetU8(int(f.off), v) }

// Get reads the field.
func (f I8Field) Get(r Record) int8 { return int8(U8Field(f).Get(r)) }

// Set writes the field.
func (f I8Field) Set(o ObjectBuilder, v int8) { o.SetI8(int(f.off), v) }

// Get reads the field.
func (f U16Field) Get(r Record) uint16 {
	i := uint64(r.off) + uint64(f.off)
	return binary.LittleEndian.Uint16(r.msg[i : i+2])
}

// Set writes the field.
func (f U16Field) Set(o ObjectBuilder, v uint16) { o.SetU16(int(f.off), v) }

// Get reads the field.
func (f I16Field) Get(r Record) int16 { return int16(U16Field(f).Get(r)) }

// Set writes the field.
func (f I16Field) Set(o ObjectBuilder, v int16) { o.SetI16(int(f.off), v) }

// Get reads the field.
func (f U32Field) Get(r Record) uint32 {
	i := uint64(r.off) + uint64(f.off)
	return binary.LittleEndian.Uint32(r.msg[i : i+4])
}

// Set writes the field.
func (f U32Field) Set(o ObjectBuilder, v uint32) { o.SetU32(int(f.off), v) }

// Get reads the field.
func (f I32Field) Get(r Record) int32 { return int32(U32Field(f).Get(r)) }

// Set writes the field.
func (f I32Field) Set(o ObjectBuilder, v int32) { o.SetI32(int(f.off), v) }

// Get reads the field.
func (f U64Field) Get(r Record) uint64 {
	i := uint64(r.off) + uint64(f.off)
	return binary.LittleEndian.Uint64(r.msg[i : i+8])
}

// Set writes the field.
func (f U64Field) Set(o ObjectBuilder, v uint64) { o.SetU64(int(f.off), v) }

// Get reads the field.
func (f I64Field) Get(r Record) int64 { return int64(U64Field(f).Get(r)) }

// Set writes the field.
func (f I64Field) Set(o ObjectBuilder, v int64) { o.SetI64(int(f.off), v) }

// Get reads the field.
func (f F32Field) Get(r Record) float32 { return math.Float32frombits(U32Field(f).Get(r)) }

// Set writes the field.
func (f F32Field) Set(o ObjectBuilder, v float32) { o.SetF32(int(f.off), v) }

// Get reads the field.
func (f F64Field) Get(r Record) float64 { return math.Float64frombits(U64Field(f).Get(r)) }

// Set writes the field.
func (f F64Field) Set(o ObjectBuilder, v float64) { o.SetF64(int(f.off), v) }

// Get reads the field.
func (f BoolField) Get(r Record) bool { return U8Field(f).Get(r) != 0 }

// Set writes the field.
func (f BoolField) Set(o ObjectBuilder, v bool) { o.SetBool(int(f.off), v) }

// Get reads the field; nothing for a null cell, and ok is false when the cell
// is malformed: Schema.Check then says how. The result aliases the frame.
func (f BytesField) Get(r Record) (v []byte, ok bool) {
	pos := uint64(r.off) + uint64(f.off)
	cell := binary.LittleEndian.Uint64(r.msg[pos : pos+8])
	rel := cell & math.MaxUint32
	start := pos + rel
	end := start + cell>>32
	if end > uint64(len(r.msg)) || rel == 0 && cell != 0 {
		return nil, false
	}
	return r.msg[start:end:end], true
}

// Set appends v to the tail; an empty value is written as null.
func (f BytesField) Set(o ObjectBuilder, v []byte) { o.SetBytes(int(f.off), v) }

// SetString is Set for a string.
func (f BytesField) SetString(o ObjectBuilder, v string) { o.SetText(int(f.off), v) }

// Get reads the field. The result aliases the frame.
func (f FixedField) Get(r Record) []byte {
	i := int(r.off) + int(f.off)
	return r.msg[i : i+f.n : i+f.n]
}

// Set writes the field; the rest of a longer field stays zero, and what of v
// is too long for it is left out.
func (f FixedField) Set(o ObjectBuilder, v []byte) { o.SetFixed(int(f.off), v[:min(len(v), f.n)]) }

// Get follows the cell and checks the record that it leads to; ok is false
// for a null cell.
func (f ObjectField) Get(r Record) (child Record, ok bool, err error) {
	o, ok, err := r.Object().Object(int(f.off), f.elem.size)
	if err != nil || !ok {
		return Record{}, false, err
	}
	child, err = f.elem.OpenObject(o)
	return child, err == nil, err
}

// Set points the cell at an object of the same message.
func (f ObjectField) Set(o, child ObjectBuilder) { o.SetObject(int(f.off), child) }

// Get follows the cell; an empty list for a null cell.
func (f ListField) Get(r Record) (List, error) { return r.Object().List(int(f.off), f.width) }

// Set points the cell at a list of the same message.
func (f ListField) Set(o ObjectBuilder, l ListRef) { o.SetList(int(f.off), l) }

// Get follows the cell; an empty list for a null cell.
func (f VarListField) Get(r Record) (VarList, error) { return r.Object().VarList(int(f.off)) }

// Set points the cell at a list of the same message.
func (f VarListField) Set(o ObjectBuilder, l ListRef) { o.SetList(int(f.off), l) }
