package zapcodec

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
)

// messageVectors writes and reads each plain message of the vectors. read
// returns what it found under the names of the vector's fields.
var messageVectors = map[string]struct {
	write func(t *testing.T, f map[string]any) ([]byte, error)
	read  func(t *testing.T, m Message) map[string]any
}{
	"getBalance-request":  {writeBalanceRequest, readBalanceRequest},
	"getBalance-response": {writeBalanceResponse, readBalanceResponse},
	"all-scalars":         {writeScalars, readScalars},
	"lists":               {writeLists, readLists},
	"list-of-bytes":       {writeBytesList, readBytesList},
	"version-2":           {writeVersion2, readVersion2},
	"bytes-fixed":         {writeFixed, readFixed},
}

func messageVector(t *testing.T, v vector) {
	want := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(v.Fields))
	d.UseNumber()
	if err := d.Decode(&want); err != nil {
		t.Fatal(err)
	}
	delete(want, "layout")
	way, known := messageVectors[v.Name]
	if !known {
		t.Fatalf("no way to write and read %s", v.Name)
	}
	m, err := Open(v.bytes(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := way.read(t, m); mustJSON(t, got) != mustJSON(t, want) && loose(t, got) != loose(t, want) {
		t.Errorf("decoded\n %s\nwant\n %s", mustJSON(t, got), mustJSON(t, want))
	}
	frame, err := way.write(t, want)
	if err != nil {
		t.Fatal(err)
	}
	if hex.EncodeToString(frame) != v.Hex {
		t.Errorf("encoded\n %x\nwant\n %s", frame, v.Hex)
	}
}

// loose forgets the difference between a number and a string of its digits.
func loose(t *testing.T, v any) string { return strings.ReplaceAll(mustJSON(t, v), `"`, "") }

func u64(t *testing.T, v any) uint64 {
	t.Helper()
	var n uint64
	s := strings.Trim(mustJSON(t, v), `"`)
	if err := json.Unmarshal([]byte(s), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func i64(t *testing.T, v any) int64 {
	t.Helper()
	n, err := v.(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func f64(t *testing.T, v any) float64 {
	t.Helper()
	n, err := v.(json.Number).Float64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func root(t *testing.T, m Message, fixed int) Object {
	t.Helper()
	o, err := m.Root(fixed)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func cellBytes(t *testing.T, o Object, off int) []byte {
	t.Helper()
	b, err := o.Bytes(off)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeBalanceRequest(t *testing.T, f map[string]any) ([]byte, error) {
	b := Build(nil, Version1, 0)
	o := b.Object(32)
	o.SetU64(0, u64(t, f["id"]))
	o.SetU64(8, u64(t, f["block"]))
	o.SetText(16, f["method"].(string))
	o.SetBytes(24, unhex(t, f["account_hex"].(string)))
	return b.Finish(o)
}

func readBalanceRequest(t *testing.T, m Message) map[string]any {
	o := root(t, m, 32)
	return map[string]any{
		"id": o.U64(0), "block": o.U64(8), "method": string(cellBytes(t, o, 16)),
		"account_hex": hex.EncodeToString(cellBytes(t, o, 24)),
	}
}

func writeBalanceResponse(t *testing.T, f map[string]any) ([]byte, error) {
	b := Build(nil, Version1, 0)
	o := b.Object(32)
	o.SetU64(0, u64(t, f["id"]))
	o.SetU64(8, u64(t, f["balance"]))
	o.SetU64(16, u64(t, f["nonce"]))
	o.SetBytes(24, unhex(t, f["blockHash_hex"].(string)))
	return b.Finish(o)
}

func readBalanceResponse(t *testing.T, m Message) map[string]any {
	o := root(t, m, 32)
	return map[string]any{
		"id": o.U64(0), "balance": o.U64(8), "nonce": o.U64(16),
		"blockHash_hex": hex.EncodeToString(cellBytes(t, o, 24)),
	}
}

func writeScalars(t *testing.T, f map[string]any) ([]byte, error) {
	b := Build(nil, Version1, 0)
	o := b.Object(64)
	o.SetBool(0, f["bool"].(bool))
	o.SetI8(1, int8(i64(t, f["i8"])))
	o.SetU16(2, uint16(u64(t, f["u16"])))
	o.SetI32(4, int32(i64(t, f["i32"])))
	o.SetU32(8, uint32(u64(t, f["u32"])))
	o.SetF32(12, float32(f64(t, f["f32"])))
	o.SetI64(16, i64(t, f["i64"]))
	o.SetF64(24, f64(t, f["f64"]))
	o.SetText(32, "")
	o.SetBytes(40, unhex(t, f["bytes_hex"].(string)))
	return b.Finish(o)
}

func readScalars(t *testing.T, m Message) map[string]any {
	o := root(t, m, 64)
	if b := cellBytes(t, o, 32); len(b) != 0 {
		t.Errorf("null text read as %q", b)
	}
	return map[string]any{
		"bool": o.Bool(0), "i8": o.I8(1), "u16": o.U16(2), "i32": o.I32(4), "u32": o.U32(8),
		"f32": o.F32(12), "i64": o.I64(16), "f64": o.F64(24), "bytes_hex": hex.EncodeToString(cellBytes(t, o, 40)),
	}
}

func writeLists(t *testing.T, f map[string]any) ([]byte, error) {
	b := Build(nil, Version1, 0)
	var u32s []uint32
	for _, v := range f["u32"].([]any) {
		u32s = append(u32s, uint32(u64(t, v)))
	}
	var u64s []uint64
	for _, v := range f["u64"].([]any) {
		u64s = append(u64s, u64(t, v))
	}
	first, second := AppendList(&b, u32s), AppendList(&b, u64s)
	third := AppendFixedList(&b, unhex(t, f["u8_hex"].(string)), 1)
	o := b.Object(24)
	o.SetList(0, first)
	o.SetList(8, second)
	o.SetList(16, third)
	return b.Finish(o)
}

func readLists(t *testing.T, m Message) map[string]any {
	o := root(t, m, 24)
	var lists [3]List
	for i, width := range []int{4, 8, 1} {
		l, err := o.List(8*i, width)
		if err != nil {
			t.Fatal(err)
		}
		lists[i] = l
	}
	u32s, u64s := []uint32{}, []uint64{}
	for i := range lists[0].Len() {
		u32s = append(u32s, lists[0].U32(i))
	}
	for i := range lists[1].Len() {
		u64s = append(u64s, lists[1].U64(i))
	}
	return map[string]any{"u32": u32s, "u64": u64s, "u8_hex": hex.EncodeToString(lists[2].Raw())}
}

func writeBytesList(_ *testing.T, f map[string]any) ([]byte, error) {
	b := Build(nil, Version1, 0)
	l := b.VarList()
	for _, e := range f["elems"].([]any) {
		l.Bytes([]byte(e.(string)))
	}
	ref := l.Done()
	o := b.Object(8)
	o.SetList(0, ref)
	return b.Finish(o)
}

func readBytesList(t *testing.T, m Message) map[string]any {
	o := root(t, m, 8)
	l, err := o.VarList(0)
	if err != nil {
		t.Fatal(err)
	}
	elems := []string{}
	for l.Next() {
		elems = append(elems, string(l.Bytes()))
	}
	return map[string]any{"elems": elems}
}

func writeVersion2(t *testing.T, f map[string]any) ([]byte, error) {
	b := Build(nil, Version2, 0)
	o := b.Object(8)
	o.SetU64(0, u64(t, f["u64"]))
	return b.Finish(o)
}

func readVersion2(t *testing.T, m Message) map[string]any {
	if v := m.Header().Version; v != Version2 {
		t.Errorf("version %d", v)
	}
	return map[string]any{"u64": root(t, m, 8).U64(0)}
}

func writeFixed(t *testing.T, f map[string]any) ([]byte, error) {
	b := Build(nil, Version1, 0)
	o := b.Object(40)
	o.SetU32(0, uint32(u64(t, f["u32"])))
	o.SetFixed(4, unhex(t, f["id_hex"].(string)))
	return b.Finish(o)
}

func readFixed(t *testing.T, m Message) map[string]any {
	o := root(t, m, 40)
	if binary.LittleEndian.Uint32(m.Bytes()[o.Offset():]) != o.U32(0) {
		t.Error("Offset and Bytes do not lead to the root")
	}
	return map[string]any{"u32": o.U32(0), "id_hex": hex.EncodeToString(o.Fixed(4, 32))}
}
