package zapcodec

import (
	"encoding/binary"
	"strconv"
)

// Schema describes a record once, for its encoder and its view: fields are
// declared in order and get their offsets, each aligned to its own width
// (cells of text, bytes and lists to 8, objects to 4, bytes_fixed to 1).
//
//	var (
//		transfer = zapcodec.NewSchema("transfer")
//		amount   = transfer.U64("amount")
//		memo     = transfer.Text("memo")
//	)
//
//	rec, err := transfer.Open(frame)
//	…
//	text, ok := memo.Get(rec)
//	if !ok {
//		return transfer.Check(rec) // says why
//	}
//	use(amount.Get(rec), text)
//
// A schema is made at start and not changed once it is in use; then any
// number of goroutines may use it.
type Schema struct {
	name   string
	fields []Field
	next   int
	size   int // of the fixed section, a multiple of 8
}

// Field tells of a field of a schema.
type Field struct {
	Name   string
	Kind   string // u64, text, bytes_fixed[32], list<u32>, …
	Offset int    // bytes from the start of the fixed section
}

// Kinds of the fields that are cells of a length and a place.
const (
	kindText  = "text"
	kindBytes = "bytes"
)

// NewSchema begins the description of a record; the name is for errors.
func NewSchema(name string) *Schema { return &Schema{name: name} }

// Fields lists the fields in the order in which they were declared.
func (s *Schema) Fields() []Field { return append([]Field(nil), s.fields...) }

// Size is the length of the fixed section in bytes: all fields, rounded up to
// a multiple of 8.
func (s *Schema) Size() int { return s.size }

// At moves on to offset off: what is declared next lies there at the
// earliest.
func (s *Schema) At(off int) *Schema {
	s.next = max(s.next, off)
	s.size = max(s.size, (s.next+7)&^7)
	return s
}

// add gives a field its place.
func (s *Schema) add(name, kind string, width, align int) uint32 {
	off := (s.next + align - 1) / align * align
	s.fields = append(s.fields, Field{Name: name, Kind: kind, Offset: off})
	s.At(off + width)
	return uint32(off)
}

// Record is a view of an object whose fixed section lies inside its message,
// as the schema says: its scalars can be read without an error. Cells of text
// and bytes are held against the message when they are read. A record aliases
// the frame; the fields of another schema must not be used on it.
type Record struct {
	msg   []byte
	off   uint32
	depth uint32
}

// Object returns the record's object, for what no field describes.
func (r Record) Object() Object { return Object(r) }

// Open checks a framed message's header and that the record's fixed section
// fits into it.
func (s *Schema) Open(frame []byte) (Record, error) {
	if len(frame) >= HeaderLen {
		first, second := binary.LittleEndian.Uint64(frame), binary.LittleEndian.Uint64(frame[8:])
		root := uint32(second)
		if (first-soundBase)&soundMask == 0 && second>>32 == uint64(len(frame)) && root >= HeaderLen && root&7 == 0 &&
			root < uint32(len(frame)) && uint64(root)+uint64(s.size) <= uint64(len(frame)) {
			return Record{msg: frame, off: root}, nil
		}
	}
	return Record{}, s.refuse(frame)
}

// refuse says why Open does not take the frame.
func (s *Schema) refuse(frame []byte) error {
	if !sound(frame) {
		return openError(frame)
	}
	return fixedError(s.name, binary.LittleEndian.Uint32(frame[8:]), s.size, len(frame))
}

// OpenObject is Open for an object that other means led to, such as an object
// cell or an element of a list.
func (s *Schema) OpenObject(o Object) (Record, error) {
	if uint64(o.off)+uint64(s.size) > uint64(len(o.msg)) {
		return Record{}, fixedError(s.name, o.off, s.size, len(o.msg))
	}
	return Record(o), nil
}

// Check holds every cell of text and bytes against the message and returns a
// *FrameError that names the first that does not fit: after it, every field of
// those kinds can be read. Who does not call it calls it when a field's Get
// says no, to learn why.
func (s *Schema) Check(r Record) error {
	for _, f := range s.fields {
		if f.Kind != kindText && f.Kind != kindBytes {
			continue
		}
		pos := int(r.off) + f.Offset
		if _, end := follow(r.msg, pos); end > uint64(len(r.msg)) {
			return cellError(r.msg, pos, s.name+"."+f.Name)
		}
	}
	return nil
}

// Build begins a plain message whose root object is this record. The returned
// builder must stay where it is while the object is in use.
func (s *Schema) Build(dst []byte) Builder { return Build(dst, Version1, TypePlain<<8) }

// Root appends the record's object, zero-filled; set its fields, then Finish.
func (s *Schema) Root(b *Builder) ObjectBuilder { return b.Object(s.size) }

// U8Field and its kin are the fields of a schema, one type for each kind.
type (
	// U8Field is a byte.
	U8Field struct{ off uint32 }
	// U16Field is a 2-byte unsigned integer.
	U16Field struct{ off uint32 }
	// U32Field is a 4-byte unsigned integer.
	U32Field struct{ off uint32 }
	// U64Field is an 8-byte unsigned integer.
	U64Field struct{ off uint32 }
	// I8Field is a 1-byte signed integer.
	I8Field struct{ off uint32 }
	// I16Field is a 2-byte signed integer.
	I16Field struct{ off uint32 }
	// I32Field is a 4-byte signed integer.
	I32Field struct{ off uint32 }
	// I64Field is an 8-byte signed integer.
	I64Field struct{ off uint32 }
	// F32Field is a 4-byte float.
	F32Field struct{ off uint32 }
	// F64Field is an 8-byte float.
	F64Field struct{ off uint32 }
	// BoolField is a bool of one byte.
	BoolField struct{ off uint32 }
	// BytesField is a text or bytes cell.
	BytesField struct{ off uint32 }
	// FixedField is bytes_fixed[n], in place.
	FixedField struct {
		off uint32
		n   int
	}
	// ObjectField is a cell that points to a record of another schema.
	ObjectField struct {
		off  uint32
		elem *Schema
	}
	// ListField is a cell that points to a list of elements of one width.
	ListField struct {
		off   uint32
		width int
	}
	// VarListField is a cell that points to a list of text, bytes or objects.
	VarListField struct{ off uint32 }
)

// Bool declares a bool.
func (s *Schema) Bool(name string) BoolField { return BoolField{s.add(name, "bool", 1, 1)} }

// U8 declares a byte.
func (s *Schema) U8(name string) U8Field { return U8Field{s.add(name, "u8", 1, 1)} }

// U16 declares a 2-byte unsigned integer.
func (s *Schema) U16(name string) U16Field { return U16Field{s.add(name, "u16", 2, 2)} }

// U32 declares a 4-byte unsigned integer.
func (s *Schema) U32(name string) U32Field { return U32Field{s.add(name, "u32", 4, 4)} }

// U64 declares an 8-byte unsigned integer.
func (s *Schema) U64(name string) U64Field { return U64Field{s.add(name, "u64", 8, 8)} }

// I8 declares a 1-byte signed integer.
func (s *Schema) I8(name string) I8Field { return I8Field{s.add(name, "i8", 1, 1)} }

// I16 declares a 2-byte signed integer.
func (s *Schema) I16(name string) I16Field { return I16Field{s.add(name, "i16", 2, 2)} }

// I32 declares a 4-byte signed integer.
func (s *Schema) I32(name string) I32Field { return I32Field{s.add(name, "i32", 4, 4)} }

// I64 declares an 8-byte signed integer.
func (s *Schema) I64(name string) I64Field { return I64Field{s.add(name, "i64", 8, 8)} }

// F32 declares a 4-byte float.
func (s *Schema) F32(name string) F32Field { return F32Field{s.add(name, "f32", 4, 4)} }

// F64 declares an 8-byte float.
func (s *Schema) F64(name string) F64Field { return F64Field{s.add(name, "f64", 8, 8)} }

// Text declares a cell of text.
func (s *Schema) Text(name string) BytesField { return BytesField{s.add(name, kindText, 8, 8)} }

// Bytes declares a cell of bytes.
func (s *Schema) Bytes(name string) BytesField { return BytesField{s.add(name, kindBytes, 8, 8)} }

// Fixed declares n bytes in place.
func (s *Schema) Fixed(name string, n int) FixedField {
	return FixedField{s.add(name, "bytes_fixed["+strconv.Itoa(n)+"]", n, 1), n}
}

// Object declares a cell that points to a record of elem.
func (s *Schema) Object(name string, elem *Schema) ObjectField {
	return ObjectField{s.add(name, "object<"+elem.name+">", 4, 4), elem}
}

// List declares a cell that points to elements of width bytes each.
func (s *Schema) List(name string, width int) ListField {
	return ListField{s.add(name, "list<"+strconv.Itoa(width)+" bytes>", 8, 8), width}
}

// VarList declares a cell that points to elements of text, bytes or objects.
func (s *Schema) VarList(name string) VarListField {
	return VarListField{s.add(name, "list<bytes>", 8, 8)}
}
