package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hanzoai/pqgw/zapcodec"
)

// zapVector is one entry of the vectors that pin the wire.
type zapVector struct {
	Name, Kind, Hex, Verdict string
	Fields                   map[string]any
}

func zapVectors(t testing.TB) []zapVector {
	t.Helper()
	raw, err := os.ReadFile("../../zapcodec/testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []zapVector }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) == 0 {
		t.Fatal("no vectors")
	}
	return file.Vectors
}

// runZap runs `pqgw zap …` with what it reads from standard input.
func runZap(in []byte, args ...string) (code int, stdout, stderr []byte) {
	var out, errs bytes.Buffer
	code = run(context.Background(), append([]string{"zap"}, args...), bytes.NewReader(in), &out, &errs)
	return code, out.Bytes(), errs.Bytes()
}

func TestZapDecodePrintsEachVectorAndEncodeWritesItBack(t *testing.T) {
	for _, v := range zapVectors(t) {
		if v.Verdict == "reject" {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			code, out, errs := runZap([]byte(v.Hex+"\n"), "decode", "--kind", v.Kind, "--hex")
			if code != exitOK || len(errs) != 0 || bytes.Count(out, []byte("\n")) != 1 {
				t.Fatalf("exit %d, stdout %q, stderr %q", code, out, errs)
			}
			if v.Kind != kindMessage {
				if diff := cmp.Diff(renamed(v.Fields), object(t, out)); diff != "" {
					t.Errorf("fields (-vector +decoded):\n%s", diff)
				}
			}
			code, again, errs := runZap(out, "encode", "--kind", v.Kind)
			if code != exitOK || hex.EncodeToString(again) != v.Hex {
				t.Errorf("exit %d, %s\nencoded %x\nwant    %s", code, errs, again, v.Hex)
			}
		})
	}
}

// renamed gives a vector's fields the names that the command prints.
func renamed(fields map[string]any) map[string]any {
	m := map[string]any{}
	for k, v := range fields {
		m[strings.TrimSuffix(k, "_name_valuehex")] = v
	}
	return m
}

func object(t *testing.T, b []byte) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	return m
}

func TestZapDecodeRefusesWithOneLineAndExit1(t *testing.T) {
	for _, v := range zapVectors(t) {
		if v.Verdict != "reject" {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "frame")
			raw, err := hex.DecodeString(v.Hex)
			if err == nil {
				err = os.WriteFile(path, raw, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			code, out, errs := runZap(nil, "decode", "--kind", v.Kind, path)
			if code != exitFailed || len(out) != 0 || bytes.Count(errs, []byte("\n")) != 1 || !bytes.HasPrefix(errs, []byte("pqgw: zap frame: ")) {
				t.Errorf("exit %d, stdout %q, stderr %q", code, out, errs)
			}
		})
	}
}

func TestZapDecodeAndEncodeStreamsOfFrames(t *testing.T) {
	var httpStream, rpcStream []byte
	for _, v := range zapVectors(t) {
		raw, err := hex.DecodeString(v.Hex)
		switch {
		case err != nil:
			t.Fatal(err)
		case v.Verdict == "reject":
		case v.Kind == kindRPCRequest:
			rpcStream = appendRPC(t, rpcStream, zapcodec.DirectionRequest, raw)
			rpcStream = appendRPC(t, rpcStream, zapcodec.DirectionStreamOpen, raw)
		case v.Kind == kindRPCResponse:
			rpcStream = appendRPC(t, rpcStream, zapcodec.DirectionResponse, raw)
		case v.Kind != kindMessage:
			httpStream = append(binary.BigEndian.AppendUint32(httpStream, uint32(len(raw))), raw...)
		}
	}
	for _, direction := range []byte{zapcodec.DirectionStreamMessage, zapcodec.DirectionStreamEnd} {
		var err error
		if rpcStream, err = zapcodec.AppendStreamFrame(rpcStream, direction, 7, []byte("more")); err != nil {
			t.Fatal(err)
		}
	}
	for name, stream := range map[string][]byte{"http": httpStream, "rpc": rpcStream} {
		code, lines, errs := runZap(stream, "decode", "--length-prefixed")
		if code != exitOK || bytes.Count(lines, []byte("\n")) < 5 {
			t.Fatalf("%s: exit %d, stdout %q, stderr %s", name, code, lines, errs)
		}
		code, again, errs := runZap(lines, "encode", "--length-prefixed")
		if code != exitOK || !bytes.Equal(again, stream) {
			t.Errorf("%s: exit %d, %s\nencoded %x\nwant    %x", name, code, errs, again, stream)
		}
		code, _, errs = runZap(stream[:len(stream)-1], "decode", "--length-prefixed")
		if code != exitFailed || !bytes.Contains(errs, []byte("unexpected EOF")) {
			t.Errorf("%s cut short: exit %d, %s", name, code, errs)
		}
	}
}

func appendRPC(t *testing.T, dst []byte, direction byte, frame []byte) []byte {
	t.Helper()
	dst, err := zapcodec.FramingRPC.AppendPrefix(dst, direction, len(frame))
	if err != nil {
		t.Fatal(err)
	}
	return append(dst, frame...)
}

func TestZapDecodeKeepsATargetThatIsNotUTF8(t *testing.T) {
	r := zapcodec.Request{Method: []byte("GET"), Target: []byte("/\xff")}
	frame, err := r.Append(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := runZap(frame, "decode")
	m := object(t, line)
	if m["target_hex"] != "2fff" || m["proto"] != "ZAP-HTTP/1.0" || m["kind"] != kindRequest {
		t.Errorf("decoded %s", line)
	}
	if code, again, errs := runZap(line, "encode"); code != exitOK || !bytes.Equal(again, frame) {
		t.Errorf("exit %d, %s: encoded %x, want %x", code, errs, again, frame)
	}
}

func TestZapCommandsSayWhatIsWrongWithTheirInput(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		args []string
		code int
		says string
	}{
		"an unknown kind":           {"", []string{"decode", "--kind", "http"}, exitUsage, "unknown kind"},
		"two files":                 {"", []string{"decode", "a", "b"}, exitUsage, "--help"},
		"a file that is not there":  {"", []string{"decode", "/nowhere"}, exitFailed, "no such file"},
		"hex that is none":          {"zz", []string{"decode", "--hex"}, exitFailed, "invalid byte"},
		"a frame over the limit":    {"0123456789", []string{"decode", "--limit", "9"}, exitFailed, "--limit"},
		"a prefix over the limit":   {"\x7f\x00\x00\x00", []string{"decode", "--length-prefixed"}, exitFailed, "over the limit"},
		"nothing":                   {"", []string{"encode", "--kind", "http-end"}, exitFailed, "no JSON"},
		"JSON that is none":         {"{", []string{"encode", "--kind", "http-end"}, exitFailed, "object 1"},
		"a key that is misspelt":    {`{"trailer":[]}`, []string{"encode", "--kind", "http-end"}, exitFailed, "trailer"},
		"no kind":                   {`{"chunk_hex":""}`, []string{"encode"}, exitUsage, "--kind"},
		"a value that is not hex":   {`{"trailers":[["A","x"]]}`, []string{"encode", "--kind", "http-end"}, exitFailed, "invalid byte"},
		"two objects for one frame": {`{} {}`, []string{"encode", "--kind", "http-end"}, exitFailed, "--length-prefixed"},
		"what readers refuse":       {`{"method":"GET","target":"/ x"}`, []string{"encode", "--kind", "http-request"}, exitFailed, "target"},
		"a status RPC has not":      {`{"status":201}`, []string{"encode", "--kind", "rpc-response"}, exitFailed, "status"},
		"a message without a root":  {`{"version":1}`, []string{"encode", "--kind", "message"}, exitFailed, "root"},
	} {
		code, _, errs := runZap([]byte(c.in), c.args...)
		if code != c.code || !strings.Contains(string(errs), c.says) {
			t.Errorf("%s: exit %d, want %d; %s", name, code, c.code, errs)
		}
	}
}

// FuzzZapDecode holds the command's output against its input: whatever the
// bytes, it ends, and it prints no more than a small multiple of them.
func FuzzZapDecode(f *testing.F) {
	for i, v := range zapVectors(f) {
		raw, err := hex.DecodeString(v.Hex)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, uint8(i), false)
		f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...), uint8(0), true)
	}
	f.Fuzz(func(t *testing.T, in []byte, kind uint8, prefixed bool) {
		args := []string{"decode", "--kind", zapKinds[int(kind)%len(zapKinds)]}
		if prefixed {
			args = append(args, "--length-prefixed")
		}
		code, out, errs := runZap(in, args...)
		if code != exitOK && code != exitFailed || (code == exitFailed) != (len(errs) > 0) {
			t.Fatalf("exit %d, stderr %q", code, errs)
		}
		if bytes.Count(errs, []byte("\n")) > 1 {
			t.Errorf("more than a line: %q", errs)
		}
		if most := 1024 + 40*len(in); len(out) > most {
			t.Errorf("%d bytes printed for %d read", len(out), len(in))
		}
	})
}
