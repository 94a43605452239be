package telemetry

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAppendString(t *testing.T) {
	long := strings.Repeat("a", maxField)
	tests := []struct{ name, in, want string }{
		{"empty", "", `""`},
		{"plain, shorter than a word", "/v1", `"/v1"`},
		{"plain, several words", "/v1/chat/completions/0123456789", `"/v1/chat/completions/0123456789"`},
		{"quote and backslash", `a"b\c`, `"a\"b\\c"`},
		{"quote as the eighth byte", `1234567"9`, `"1234567\"9"`},
		{"line feeds and tabs", "a\r\n\tb", `"a\r\n\tb"`},
		{"controls", "\x00\x1b[31m\x1f", `"\u0000\u001b[31m\u001f"`},
		{"DEL and C1 controls", "\x7f\u0080\u009b2J\u009f", `"\u007f\u0080\u009b2J\u009f"`},
		{"next line, line and paragraph separators", "a\u0085b\u2028c\u2029d", `"a\u0085b\u2028c\u2029d"`},
		{"letters beyond ASCII", "zażółć 日本 🚀", `"zażółć 日本 🚀"`},
		{"bytes that are no UTF-8", "a\xffb\xc0\xafc\xed\xa0\x80", "\"a\uFFFDb\uFFFD\uFFFDc\uFFFD\uFFFD\uFFFD\""},
		{"a character cut off", "a\xe2\x80", "\"a\uFFFD\uFFFD\""},
		{"HTML as it stands", "</script>&", `"</script>&"`},
		{"as long as may be", long, `"` + long + `"`},
		{"too long", long + "b", `"` + long + `…"`},
		{"too long, cut inside a character", long[1:] + "żz", `"` + long[1:] + `…"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(appendString(nil, tt.in)); got != tt.want {
				t.Errorf("string: got %s, want %s", got, tt.want)
			}
			if got := string(appendString(nil, []byte(tt.in))); got != tt.want {
				t.Errorf("bytes: got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestPlainPrefixFindsEveryByteAtEveryPlace(t *testing.T) {
	for c := range 256 {
		plain := c >= 0x20 && c < 0x7f && c != '"' && c != '\\'
		for place := range 20 {
			for _, fill := range []byte{' ', '~', '!', '#', '[', ']'} { // neighbours of what is not plain
				s := bytes.Repeat([]byte{fill}, 20)
				s[place] = byte(c)
				want := place
				if plain {
					want = len(s)
				}
				if got := plainPrefix(s); got != want {
					t.Fatalf("byte %#x at %d among %q: %d, want %d", c, place, fill, got, want)
				}
			}
		}
	}
}

// checkString fails unless b is one JSON string on one line of printable UTF-8
// that says what in says.
func checkString(t *testing.T, b []byte, in string) {
	t.Helper()
	var out string
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%q became %q: %v", in, b, err)
	}
	if !utf8.Valid(b) {
		t.Fatalf("%q became %q, which is no UTF-8", in, b)
	}
	for _, r := range string(b) {
		if r < 0x20 || 0x7f <= r && r <= 0x9f || r == '\u2028' || r == '\u2029' {
			t.Fatalf("%q became %q, which holds %U", in, b, r)
		}
	}
	if len(in) > maxField {
		return
	}
	if want := string([]rune(in)); out != want {
		t.Fatalf("%q reads %q, want %q", in, out, want)
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "/v1/x", "\"\\\n\x00\u2028\xff", strings.Repeat("é", maxField), "🚀\xf0\x9f\x9a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := appendString(nil, s)
		checkString(t, b, s)
		if c := appendString(nil, []byte(s)); !bytes.Equal(b, c) {
			t.Fatalf("as string %q, as bytes %q", b, c)
		}
	})
}
