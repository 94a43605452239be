package telemetry

import (
	"bytes"
	"strings"
	"testing"
)

const exampleTraceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestParseTraceparent(t *testing.T) {
	tests := []struct {
		name, in string
		want     string // as appended again; empty when refused
	}{
		{"the standard's example", exampleTraceparent, exampleTraceparent},
		{"not sampled", exampleTraceparent[:53] + "00", exampleTraceparent[:53] + "00"},
		{"flags that are not defined", exampleTraceparent[:53] + "ff", exampleTraceparent[:53] + "03"},
		{"a later version", "cc" + exampleTraceparent[2:], exampleTraceparent},
		{"a later version with more", "cc" + exampleTraceparent[2:] + "-what-comes", exampleTraceparent},
		{"a later version with more, not set apart", "cc" + exampleTraceparent[2:] + ".what", ""},
		{"version 00 with more", exampleTraceparent + "-x", ""},
		{"version ff", "ff" + exampleTraceparent[2:], ""},
		{"version in upper case", "CC" + exampleTraceparent[2:], ""},
		{"empty", "", ""},
		{"too short", exampleTraceparent[:54], ""},
		{"upper case in the trace", strings.Replace(exampleTraceparent, "af", "AF", 1), ""},
		{"upper case in the flags", exampleTraceparent[:53] + "0A", ""},
		{"not hexadecimal in the span", strings.Replace(exampleTraceparent, "b7", "g7", 1), ""},
		{"a trace of zeroes", "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", ""},
		{"a span of zeroes", "00-0af7651916cd43dd8448eb211c80319c-" + strings.Repeat("0", 16) + "-01", ""},
		{"other separators", strings.ReplaceAll(exampleTraceparent, "-", "_"), ""},
		{"a separator inside", exampleTraceparent[:10] + "-" + exampleTraceparent[11:], ""},
		{"spaces around", " " + exampleTraceparent[:54], ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tc, ok := ParseTraceparent([]byte(tt.in))
			got := ""
			if ok {
				got = string(tc.AppendTraceparent(nil))
			} else if tc != (TraceContext{}) {
				t.Errorf("refused, yet returned %v", tc)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestChildStaysInTheTrace(t *testing.T) {
	parent, _ := ParseTraceparent([]byte(exampleTraceparent))
	child := parent.Child()
	if child.TraceID != parent.TraceID || child.Flags != parent.Flags || child.SpanID == parent.SpanID || !child.Valid() || !child.Sampled() {
		t.Errorf("parent %v, child %v", parent, child)
	}
	if got := string(child.AppendTraceID(nil)); got != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("trace id %s", got)
	}
}

func TestNewTraceIsRandomAndNotSampled(t *testing.T) {
	a, b := NewTrace(), NewTrace()
	if !a.Valid() || a.Sampled() || a.TraceID == b.TraceID || a.SpanID == b.SpanID {
		t.Errorf("%v, %v", a, b)
	}
	if c, ok := ParseTraceparent(a.AppendTraceparent(nil)); !ok || c != a {
		t.Errorf("%v reads %v", a, c)
	}
}

func FuzzParseTraceparent(f *testing.F) {
	f.Add([]byte(exampleTraceparent))
	f.Add([]byte("cc" + exampleTraceparent[2:] + "-x"))
	f.Fuzz(func(t *testing.T, v []byte) {
		tc, ok := ParseTraceparent(v)
		if !ok {
			return
		}
		out := tc.AppendTraceparent(nil)
		if len(out) != TraceparentLen || !tc.Valid() || !bytes.Equal(out[3:52], v[3:52]) {
			t.Fatalf("%q became %q", v, out)
		}
		if again, ok := ParseTraceparent(out); !ok || again != tc {
			t.Fatalf("%q reads %v, then %v", v, tc, again)
		}
	})
}

func TestRequestIDs(t *testing.T) {
	seen := make(map[string]bool)
	for range 10000 {
		id := AppendRequestID(nil)
		if len(id) != RequestIDLen || !ValidRequestID(id) || seen[string(id)] {
			t.Fatalf("id %q, seen %v", id, seen[string(id)])
		}
		seen[string(id)] = true
	}
	for id, want := range map[string]bool{
		"": false, "a": true, "Root=1-67891233-abcdef012345678912345678": true, "a b": false, "a\nb": false, "a\"b": false, "é": false,
		strings.Repeat("a", maxRequestID): true, strings.Repeat("a", maxRequestID+1): false,
	} {
		if got := ValidRequestID([]byte(id)); got != want {
			t.Errorf("%q: valid %v, want %v", id, got, want)
		}
	}
}

func TestIDsAllocateNothing(t *testing.T) {
	buf := make([]byte, 0, 256)
	in := []byte(exampleTraceparent)
	n := testing.AllocsPerRun(1000, func() {
		tc, _ := ParseTraceparent(in)
		b := AppendRequestID(buf)
		b = tc.Child().AppendTraceparent(b)
		_ = NewTrace().AppendTraceparent(b)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAppendRequestID(b *testing.B) {
	buf := make([]byte, 0, RequestIDLen)
	b.ReportAllocs()
	for b.Loop() {
		_ = AppendRequestID(buf)
	}
}

func BenchmarkTraceparent(b *testing.B) {
	in, buf := []byte(exampleTraceparent), make([]byte, 0, TraceparentLen)
	b.ReportAllocs()
	for b.Loop() {
		tc, _ := ParseTraceparent(in)
		_ = tc.Child().AppendTraceparent(buf)
	}
}
