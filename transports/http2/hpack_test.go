package http2

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/section"
)

// decodeOurs reads a block into "name: value" lines.
func decodeOurs(d *decoder, block []byte) (fields []string, err error) {
	d.begin(block)
	for {
		ok, err := d.next()
		if err != nil || !ok {
			return fields, err
		}
		fields = append(fields, string(d.name)+": "+string(d.value))
	}
}

func decodeTheirs(d *hpack.Decoder, block []byte) (fields []string, err error) {
	list, err := d.DecodeFull(block)
	for _, f := range list {
		fields = append(fields, f.Name+": "+f.Value)
	}
	return fields, err
}

func newDecoder() *decoder {
	d := &decoder{allowed: defaultTableSize}
	d.tab.max = defaultTableSize
	return d
}

func TestDecoderReadsWhatTheOtherEncoderWrites(t *testing.T) {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	d := newDecoder()
	for round := range 200 {
		b.Reset()
		if round%50 == 49 {
			enc.SetMaxDynamicTableSize(uint32(round * 10))
		}
		var want []string
		for i := range 1 + round%20 {
			f := hpack.HeaderField{
				Name: fmt.Sprintf("x-name-%d", i%7), Value: strings.Repeat(fmt.Sprint(round%11, "é", i), 1+i*round%40),
				Sensitive: i%5 == 4,
			}
			want = append(want, f.Name+": "+f.Value)
			if err := enc.WriteField(f); err != nil {
				t.Fatal(err)
			}
		}
		got, err := decodeOurs(d, b.Bytes())
		if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("round %d: %v, got %q, want %q", round, err, got, want)
		}
		if d.tab.size > d.tab.max || cap(d.tab.buf) > 4*int(defaultTableSize) {
			t.Fatalf("round %d: table of %d of %d bytes in a buffer of %d", round, d.tab.size, d.tab.max, cap(d.tab.buf))
		}
	}
}

func TestDecoderRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		block string
		want  error
	}{
		{"index zero", "\x80", errIndex},
		{"an index past both tables", "\xbe", errIndex},
		{"a name index past both tables", "\x7e\x01a", errIndex},
		{"a string longer than the block", "\x00\x05ab", section.ErrEnd},
		{"a literal without a value", "\x00\x01a", section.ErrEnd},
		{"an integer that does not end", "\xff\xff", section.ErrEnd},
		{"an integer that is too long", "\xff" + strings.Repeat("\x80", 12) + "\x01", section.ErrInteger},
		{"Huffman padding of zeros", "\x00\x01a\x81\x00", hpack.ErrInvalidHuffman},
		{"Huffman padding of eight ones", "\x00\x01a\x82\x1f\xff", hpack.ErrInvalidHuffman},
		{"the Huffman code EOS", "\x00\x01a\x84\xff\xff\xff\xff", hpack.ErrInvalidHuffman},
		{"a table larger than announced", "\x3f\xe2\x1f", errTableSize},
		{"a table size after a field", "\x82\x20", errTableSize},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := decodeOurs(newDecoder(), []byte(c.block)); err != c.want {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestEncoderIsReadByTheOtherDecoder(t *testing.T) {
	h := &exchange.Head{}
	h.Reset(nil)
	for _, f := range [][2]string{
		{"Content-Type", "text/plain"},
		{"ETag", `"1"`},
		{"X-Long", strings.Repeat("v", 5000)},
		{"Set-Cookie", "a=b"},
		{"Connection", "x"},
		{"Transfer-Encoding", "chunked"},
		{"Vary", ""},
	} {
		h.AddString(f[0], f[1])
	}
	for _, status := range []int{200, 204, 206, 304, 400, 404, 500, 103, 418, 999} {
		b := appendFields(appendContentLength(appendStatus(nil, status), 1<<40), h, exchange.Unknown)
		list, err := hpack.NewDecoder(0, nil).DecodeFull(b)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range list {
			got = append(got, fmt.Sprintf("%s=%d/%v", f.Name, len(f.Value), f.Sensitive))
		}
		want := ":status=3/false content-length=13/false content-type=10/false etag=3/false x-long=5000/false set-cookie=3/true vary=0/false"
		if strings.Join(got, " ") != want || list[0].Value != fmt.Sprint(status) || list[1].Value != "1099511627776" {
			t.Errorf("status %d: got %v", status, got)
		}
	}
}

func TestEveryStaticNameIsFound(t *testing.T) {
	for i := 15; i < len(staticTable); i++ {
		name := staticTable[i].name
		b := appendField(nil, exchange.LookupName(name), name, []byte("v"))
		got, err := decodeOurs(newDecoder(), b)
		if err != nil || len(got) != 1 || got[0] != string(name)+": v" || len(b) > 4 {
			t.Errorf("%s: %q in %d bytes, %v", name, got, len(b), err)
		}
	}
}

// FuzzDecoder feeds two blocks in turn to both decoders.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte("\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"), []byte("\x82\x86\x84\xbe\x58\x08no-cache"))
	f.Add([]byte("\x40\x0acustom-key\x0dcustom-header"), []byte("\x20\xbe"))
	f.Add([]byte("\x3f\xe1\x1f\x40\x01a\x01b"), []byte("\x7e\x01c\xbe\xbf"))
	f.Add([]byte("\x10\x08password\x06secret"), []byte("\x04\x0c/sample/path"))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		ours, theirs := newDecoder(), hpack.NewDecoder(defaultTableSize, nil)
		for _, block := range [][]byte{one, two} {
			got, err := decodeOurs(ours, block)
			want, theirErr := decodeTheirs(theirs, block)
			if err == errTableSize || theirErr != nil && strings.Contains(theirErr.Error(), "dynamic table size update MUST") {
				// They let a size update pass in the middle of a block while the table is
				// empty, and allow one only at its start; RFC 7541, section 4.2, allows any there.
				return
			}
			if (err != nil) != (theirErr != nil) {
				t.Fatalf("ours: %v, theirs: %v", err, theirErr)
			}
			if err != nil {
				return
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Fatalf("ours: %q, theirs: %q", got, want)
			}
		}
	})
}

func TestEveryByteSurvivesHuffman(t *testing.T) {
	for c := range 256 {
		for n := range 12 {
			want := strings.Repeat(string([]byte{byte(c)}), n) + "a" + strings.Repeat(string([]byte{byte(c)}), n%3)
			got, err := appendHuffman(nil, hpack.AppendHuffmanString(nil, want))
			if err != nil || string(got) != want {
				t.Fatalf("%q came out as %q, %v", want, got, err)
			}
		}
	}
}

// FuzzHuffman compares with the library's decoder.
func FuzzHuffman(f *testing.F) {
	for _, s := range []string{"", "www.example.com", "\x00\xff~|\\", "no-cache"} {
		f.Add(hpack.AppendHuffmanString(nil, s))
	}
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		want, wantErr := hpack.HuffmanDecodeToString(b)
		got, err := appendHuffman(nil, b)
		if (err != nil) != (wantErr != nil) || err == nil && string(got) != want {
			t.Fatalf("ours %q, %v; theirs %q, %v", got, err, want, wantErr)
		}
	})
}

func BenchmarkHuffman(b *testing.B) {
	src := hpack.AppendHuffmanString(nil, "Bearer abcdefghijklmnopqrstuvwxyz0123456789 Mozilla/5.0 (X11; Linux)")
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = appendHuffman(dst[:0], src)
	}
}

func BenchmarkDecode(b *testing.B) {
	var buf bytes.Buffer
	enc := hpack.NewEncoder(&buf)
	write := func() []byte {
		buf.Reset()
		for _, f := range [][2]string{
			{":method", "GET"},
			{":scheme", "https"},
			{":authority", "api.example"},
			{":path", "/v1/models/abc"},
			{"user-agent", "bench/1"},
			{"accept", "*/*"},
			{"authorization", "Bearer abcdefghijklmnopqrstuvwxyz"},
		} {
			_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		return bytes.Clone(buf.Bytes())
	}
	d := newDecoder()
	if _, err := decodeOurs(d, write()); err != nil {
		b.Fatal(err)
	}
	block := write()
	b.ReportAllocs()
	for b.Loop() {
		d.begin(block)
		for {
			ok, err := d.next()
			if err != nil {
				b.Fatal(err)
			}
			if !ok {
				break
			}
		}
	}
}
