package zapcodec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
)

func TestSchemaOffsetsAreThoseOfTheVectors(t *testing.T) {
	s := NewSchema("all-scalars")
	s.Bool("bool")
	s.I8("i8")
	s.U16("u16")
	s.I32("i32")
	s.U32("u32")
	s.F32("f32")
	s.I64("i64")
	s.F64("f64")
	s.Text("text")
	s.Bytes("bytes")
	s.At(64)
	want := []int{0, 1, 2, 4, 8, 12, 16, 24, 32, 40}
	for i, f := range s.Fields() {
		if f.Offset != want[i] || f.Name != f.Kind {
			t.Errorf("%+v, want it at %d", f, want[i])
		}
	}
	if s.Size() != 64 {
		t.Errorf("size %d", s.Size())
	}
	fixed := NewSchema("bytes-fixed")
	fixed.U32("u32")
	fixed.Fixed("id", 32)
	if f := fixed.Fields()[1]; f.Offset != 4 || f.Kind != "bytes_fixed[32]" || fixed.Size() != 40 {
		t.Errorf("%+v, size %d", f, fixed.Size())
	}
	// RPC's cells are only 4-aligned: a layout of others is given by At.
	rpc := NewSchema("placed")
	rpc.U32("status")
	rpc.At(24).U8("late")
	if f := rpc.Fields()[1]; f.Offset != 24 || rpc.Size() != 32 {
		t.Errorf("%+v, size %d", f, rpc.Size())
	}
}

// everything is a schema with a field of each kind.
var (
	everything = NewSchema("everything")
	fBool      = everything.Bool("bool")
	fU8        = everything.U8("u8")
	fI8        = everything.I8("i8")
	fU16       = everything.U16("u16")
	fI16       = everything.I16("i16")
	fU32       = everything.U32("u32")
	fI32       = everything.I32("i32")
	fU64       = everything.U64("u64")
	fI64       = everything.I64("i64")
	fF32       = everything.F32("f32")
	fF64       = everything.F64("f64")
	fText      = everything.Text("text")
	fBytes     = everything.Bytes("bytes")
	fFixed     = everything.Fixed("fixed", 5)
	fChild     = everything.Object("child", leaf)
	fNone      = everything.Object("none", leaf)
	fList      = everything.List("list", 2)
	fNames     = everything.VarList("names")

	leaf  = NewSchema("leaf")
	fName = leaf.Text("name")
)

func buildEverything(t *testing.T) []byte {
	t.Helper()
	b := everything.Build(nil)
	child := leaf.Root(&b)
	fName.SetString(child, "leaf")
	list := AppendList(&b, []int16{-1, 2})
	names := AppendBytesList(&b, []string{"a", "", "ccc"})
	o := everything.Root(&b)
	fBool.Set(o, true)
	fU8.Set(o, 1)
	fI8.Set(o, -2)
	fU16.Set(o, 3)
	fI16.Set(o, -4)
	fU32.Set(o, 5)
	fI32.Set(o, -6)
	fU64.Set(o, 7)
	fI64.Set(o, -8)
	fF32.Set(o, 1.5)
	fF64.Set(o, -2.5)
	fText.SetString(o, "text")
	fBytes.Set(o, []byte{1, 2})
	fFixed.Set(o, []byte("12345678"))
	fChild.Set(o, child)
	fList.Set(o, list)
	fNames.Set(o, names)
	frame, err := b.Finish(o)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func TestARecordOfEveryKindReadsBackAsItWasWritten(t *testing.T) {
	r, err := everything.Open(buildEverything(t))
	if err != nil {
		t.Fatal(err)
	}
	scalars := fmt.Sprint(fBool.Get(r), fU8.Get(r), fI8.Get(r), fU16.Get(r), fI16.Get(r), fU32.Get(r), fI32.Get(r),
		fU64.Get(r), fI64.Get(r), fF32.Get(r), fF64.Get(r), string(fFixed.Get(r)))
	if scalars != "true 1 -2 3 -4 5 -6 7 -8 1.5 -2.512345" {
		t.Error(scalars)
	}
	text, ok1 := fText.Get(r)
	raw, ok2 := fBytes.Get(r)
	if !ok1 || !ok2 || string(text) != "text" || !bytes.Equal(raw, []byte{1, 2}) || everything.Check(r) != nil {
		t.Errorf("%q %v %v", text, raw, everything.Check(r))
	}
	child, ok, err := fChild.Get(r)
	if name, fits := fName.Get(child); err != nil || !ok || !fits || string(name) != "leaf" {
		t.Errorf("child %v %v", ok, err)
	}
	if _, ok, err := fNone.Get(r); ok || err != nil {
		t.Errorf("null child %v %v", ok, err)
	}
	list, err := fList.Get(r)
	if err != nil || list.Len() != 2 || list.I16(0) != -1 || list.U16(1) != 2 {
		t.Errorf("list %v", err)
	}
	names, err := fNames.Get(r)
	var got []string
	for names.Next() {
		got = append(got, string(names.Bytes()))
	}
	if err != nil || fmt.Sprintf("%q", got) != `["a" "" "ccc"]` || names.Len() != 3 {
		t.Errorf("names %q %v", got, err)
	}
}

func TestASchemaNamesTheCellThatItRefuses(t *testing.T) {
	frame := buildEverything(t)
	r, err := everything.Open(frame)
	if err != nil {
		t.Fatal(err)
	}
	at := r.Object().Offset() + everything.Fields()[12].Offset
	binary.LittleEndian.PutUint32(frame[at+4:], 1<<20)
	if _, ok := fBytes.Get(r); ok {
		t.Error("a cell that leads outside was read")
	}
	err = everything.Check(r)
	var fe *FrameError
	if !errors.As(err, &fe) || fe.Field != "everything.bytes" || fe.Offset != at || !errors.Is(err, ErrPointer) {
		t.Errorf("%v", err)
	}
	large := NewSchema("large")
	large.Fixed("pad", 4096)
	if _, err := large.Open(frame); !errors.Is(err, ErrFixed) {
		t.Errorf("a record larger than the message: %v", err)
	}
	if _, err := large.OpenObject(r.Object()); !errors.Is(err, ErrFixed) {
		t.Errorf("an object larger than the message: %v", err)
	}
	if _, err := leaf.Open(frame[:10]); !errors.Is(err, ErrShort) {
		t.Errorf("cut short: %v", err)
	}
}

func TestAppendListWritesEachElementAtItsOwnWidth(t *testing.T) {
	b := Build(nil, Version1, 0)
	refs := []ListRef{
		AppendList(&b, []bool{true, false}), AppendList(&b, []uint8{1, 2}), AppendList(&b, []int8{-1, -2}),
		AppendList(&b, []uint16{1, 2}), AppendList(&b, []uint32{1, 2}), AppendList(&b, []int32{-1, -2}),
		AppendList(&b, []uint64{1, 2}), AppendList(&b, []int64{-1, -2}), AppendList(&b, []float32{1.5, -2}),
		AppendList(&b, []float64{1.5, -2}), AppendFixedList(&b, []byte("abcdef"), 3),
	}
	widths := []int{1, 1, 1, 2, 4, 4, 8, 8, 4, 8, 3}
	o := b.Object(8 * len(refs))
	for i, ref := range refs {
		o.SetList(8*i, ref)
	}
	frame, err := b.Finish(o)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := Open(frame)
	r := root(t, m, 8*len(refs))
	l := make([]List, len(refs))
	for i, width := range widths {
		if l[i], err = r.List(8*i, width); err != nil || l[i].Len() != 2 {
			t.Fatalf("list %d: %v", i, err)
		}
	}
	got := fmt.Sprint(l[0].Bool(0), l[0].Bool(1), l[1].U8(1), l[2].I8(1), l[3].U16(1), l[4].U32(1), l[5].I32(1),
		l[6].U64(1), l[7].I64(1), l[8].F32(0), l[9].F64(0), string(l[10].At(1)), List{}.Len())
	if got != "true false 2 -2 2 2 -2 2 -2 1.5 1.5def0" {
		t.Error(got)
	}
}

func ExampleSchema() {
	balance := NewSchema("getBalance request")
	id := balance.U64("id")
	block := balance.U64("block")
	method := balance.Text("method")
	account := balance.Bytes("account")

	b := balance.Build(nil)
	root := balance.Root(&b)
	id.Set(root, 1)
	block.Set(root, 68943)
	method.SetString(root, "eth_getBalance")
	account.Set(root, make([]byte, 20))
	frame, err := b.Finish(root)
	if err != nil {
		fmt.Println(err)
		return
	}

	rec, err := balance.Open(frame)
	if err != nil {
		fmt.Println(err)
		return
	}
	name, ok := method.Get(rec)
	if !ok {
		fmt.Println(balance.Check(rec))
		return
	}
	fmt.Printf("%d bytes: %d %d %s\n", len(frame), id.Get(rec), block.Get(rec), name)
	// Output: 82 bytes: 1 68943 eth_getBalance
}
