package zapcodec

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"testing"
)

// vector is one entry of the vectors that pin the wire.
type vector struct {
	Name    string          `json:"name"`
	Kind    string          `json:"kind"`
	Hex     string          `json:"hex"`
	Verdict string          `json:"verdict"`
	Fields  json.RawMessage `json:"fields"`
}

func (v vector) bytes(t testing.TB) []byte { return unhex(t, v.Hex) }

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatalf("hex: %v", err)
	}
	return b
}

func loadVectors(t testing.TB) []vector {
	t.Helper()
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []vector }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) == 0 {
		t.Fatal("no vectors")
	}
	return file.Vectors
}

// httpFields are the fields of a vector of HTTP.
type httpFields struct {
	Method   string      `json:"method"`
	Target   string      `json:"target"`
	Status   int         `json:"status"`
	Reason   string      `json:"reason"`
	Proto    string      `json:"proto"`
	Headers  [][2]string `json:"headers_name_valuehex"`
	Body     string      `json:"body_hex"`
	Trailers [][2]string `json:"trailers_name_valuehex"`
	Chunk    string      `json:"chunk_hex"`
}

// lists makes absent lists empty ones.
func (f httpFields) lists() httpFields {
	f.Headers = append([][2]string{}, f.Headers...)
	f.Trailers = append([][2]string{}, f.Trailers...)
	return f
}

func pairsOf(t testing.TB, list [][2]string) (pairs []Pair) {
	t.Helper()
	for _, p := range list {
		pairs = append(pairs, Pair{[]byte(p[0]), unhex(t, p[1])})
	}
	return pairs
}

func collect(p Pairs) [][2]string {
	list := [][2]string{}
	for name, value := range p.All() {
		list = append(list, [2]string{string(name), hex.EncodeToString(value)})
	}
	return list
}

// decodeHTTP parses a frame of one of HTTP's kinds.
func decodeHTTP(kind string, frame []byte) (f httpFields, err error) {
	switch kind {
	case "http-request":
		var v RequestView
		err = v.Parse(frame)
		if err == nil {
			f = httpFields{
				Method: string(v.Method()), Target: string(v.Target()), Proto: string(v.Proto()),
				Headers: collect(v.Headers()), Body: hex.EncodeToString(v.Body()), Trailers: collect(v.Trailers()),
			}
		}
	case "http-response", "http-response-head":
		var v ResponseView
		err = v.Parse(frame)
		if err == nil && v.Streamed() != (kind == "http-response-head") {
			err = errors.New("head and whole confused")
		}
		if err == nil {
			f = httpFields{
				Status: v.Status(), Reason: string(v.Reason()), Proto: string(v.Proto()),
				Headers: collect(v.Headers()), Body: hex.EncodeToString(v.Body()), Trailers: collect(v.Trailers()),
			}
		}
	case "http-data":
		var s Span
		if s, err = ParseData(frame); err == nil {
			f = httpFields{Chunk: hex.EncodeToString(s.Of(frame))}
		}
	case "http-end":
		var v EndView
		if err = v.Parse(frame); err == nil {
			f = httpFields{Trailers: collect(v.Trailers())}
		}
	default:
		err = errors.New("no kind of HTTP: " + kind)
	}
	return f, err
}

// encodeHTTP writes a frame of one of HTTP's kinds.
func encodeHTTP(t testing.TB, kind string, f httpFields) ([]byte, error) {
	t.Helper()
	switch kind {
	case "http-request":
		r := Request{
			Method: []byte(f.Method), Target: []byte(f.Target), Proto: []byte(f.Proto),
			Headers: pairsOf(t, f.Headers), Body: unhex(t, f.Body), Trailers: pairsOf(t, f.Trailers),
		}
		return r.Append(nil, 0)
	case "http-response", "http-response-head":
		r := Response{
			Status: f.Status, Reason: []byte(f.Reason), Proto: []byte(f.Proto), Streamed: kind == "http-response-head",
			Headers: pairsOf(t, f.Headers), Body: unhex(t, f.Body), Trailers: pairsOf(t, f.Trailers),
		}
		return r.Append(nil, 0)
	case "http-data":
		return AppendData(nil, 0, unhex(t, f.Chunk))
	default:
		return AppendEnd(nil, 0, pairsOf(t, f.Trailers))
	}
}

func TestVectorsDecodeToTheirFieldsAndEncodeToTheirBytes(t *testing.T) {
	done := map[string]int{}
	for _, v := range loadVectors(t) {
		if v.Verdict == "reject" {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			done[v.Kind]++
			switch v.Kind {
			case "message":
				messageVector(t, v)
			case "rpc-request", "rpc-response":
				rpcVector(t, v)
			default:
				httpVector(t, v)
			}
		})
	}
	for _, kind := range []string{"message", "rpc-request", "rpc-response", "http-request", "http-response", "http-response-head", "http-data", "http-end"} {
		if done[kind] == 0 {
			t.Errorf("no vector of kind %s was tried", kind)
		}
	}
}

func httpVector(t *testing.T, v vector) {
	var want httpFields
	if err := json.Unmarshal(v.Fields, &want); err != nil {
		t.Fatal(err)
	}
	got, err := decodeHTTP(v.Kind, v.bytes(t))
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	if a, b := mustJSON(t, got.lists()), mustJSON(t, want.lists()); a != b {
		t.Errorf("decoded\n %s\nwant\n %s", a, b)
	}
	frame, err := encodeHTTP(t, v.Kind, want)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	if hex.EncodeToString(frame) != v.Hex {
		t.Errorf("encoded\n %x\nwant\n %s", frame, v.Hex)
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func rpcVector(t *testing.T, v vector) {
	var want struct {
		Method, Promise, Target, Status uint32
		Cap                             string `json:"cap_hex"`
		Payload                         string `json:"payload_hex"`
		Body                            string `json:"body_hex"`
	}
	if err := json.Unmarshal(v.Fields, &want); err != nil {
		t.Fatal(err)
	}
	frame := v.bytes(t)
	var out []byte
	if v.Kind == "rpc-request" {
		var r RPCRequest
		if err := ParseRPCRequest(frame, &r); err != nil {
			t.Fatalf("decode: %v", err)
		}
		if r.Method != want.Method || r.Promise != want.Promise || r.Target != want.Target ||
			hex.EncodeToString(r.Cap) != want.Cap || hex.EncodeToString(r.Payload) != want.Payload {
			t.Errorf("decoded %+v, want %+v", r, want)
		}
		out, _ = AppendRPCRequest(nil, &RPCRequest{want.Method, want.Promise, want.Target, unhex(t, want.Cap), unhex(t, want.Payload)})
	} else {
		var r RPCResponse
		if err := ParseRPCResponse(frame, &r); err != nil {
			t.Fatalf("decode: %v", err)
		}
		if r.Status != want.Status || r.Promise != want.Promise || hex.EncodeToString(r.Body) != want.Body {
			t.Errorf("decoded %+v, want %+v", r, want)
		}
		out, _ = AppendRPCResponse(nil, &RPCResponse{want.Status, want.Promise, unhex(t, want.Body)})
	}
	if !bytes.Equal(out, frame) {
		t.Errorf("encoded\n %x\nwant\n %x", out, frame)
	}
}

// refusals gives the kind of error for each vector that is to be refused.
var refusals = map[string]error{
	"short-header": ErrShort, "bad-magic": ErrMagic, "version-3": ErrVersion, "size-past-end": ErrSize,
	"size-under-header": ErrSize, "trailing-bytes": ErrTrailing, "root-in-header": ErrRoot, "root-past-end": ErrRoot,
	"slot-past-end": ErrPointer, "slot-length-overflow": ErrPointer, "null-with-length": ErrNull,
	"header-count-lies": ErrBlock, "wrong-type": ErrType, "unknown-type": ErrType, "status-zero": ErrStatus,
	"value-crlf": ErrValue, "value-nul": ErrValue, "name-space": ErrName, "name-empty": ErrName,
	"transfer-encoding": ErrTransferEncoding, "method-space": ErrMethod, "target-space": ErrTarget,
	"target-crlf": ErrTarget, "target-empty": ErrTarget,
}

func TestVectorsToBeRefusedAreRefusedByTheRightKind(t *testing.T) {
	tried := 0
	for _, v := range loadVectors(t) {
		if v.Verdict != "reject" {
			continue
		}
		tried++
		t.Run(v.Name, func(t *testing.T) {
			_, err := decodeHTTP(v.Kind, v.bytes(t))
			want := refusals[v.Name]
			if want == nil || !errors.Is(err, want) {
				t.Fatalf("got %v, want %v", err, want)
			}
			var fe *FrameError
			if !errors.As(err, &fe) || fe.Field == "" || fe.Reason == "" || bytes.ContainsAny([]byte(err.Error()), "\r\n") {
				t.Errorf("%#v is not a FrameError that says what and where on one line", err)
			}
		})
	}
	if tried < len(refusals) {
		t.Errorf("tried %d refusals of %d", tried, len(refusals))
	}
}
