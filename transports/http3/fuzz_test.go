package http3

import (
	"bytes"
	"io"
	"testing"

	"github.com/quic-go/qpack"

	"github.com/hanzoai/pqgw/exchange"
)

// FuzzDecoder holds our decoder to quic-go/qpack's: what both take means the same, and
// what it refuses ours refuses.
func FuzzDecoder(f *testing.F) {
	f.Add(request("a", "b")[3:])
	var huffman bytes.Buffer
	e := qpack.NewEncoder(&huffman)
	for _, hf := range []qpack.HeaderField{{Name: ":path", Value: "/index.html?x=1"}, {Name: "x-long", Value: "some value of text"}} {
		_ = e.WriteField(hf)
	}
	f.Add(huffman.Bytes())
	f.Add([]byte{0, 0, 0xd1, 0xff, 0x24, 0x5f, 0x01, 1, 'x'})
	f.Fuzz(func(t *testing.T, section []byte) {
		if len(section) > 1 && section[1] != 0 && section[1]&0x80 == 0 {
			return // they want a base of zero, which is only what encoders should write
		}
		var theirs [][2]string
		next := qpack.NewDecoder().Decode(section)
		var theirErr error
		for {
			hf, err := next()
			if err == io.EOF {
				break
			}
			if err != nil {
				theirErr = err
				break
			}
			theirs = append(theirs, [2]string{hf.Name, hf.Value})
		}
		var d decoder
		var ours [][2]string
		err := d.begin(section)
		for err == nil {
			var ok bool
			if ok, err = d.next(); !ok {
				break
			}
			if err == nil {
				ours = append(ours, [2]string{string(d.name), string(d.value)})
			}
		}
		if err != nil {
			return // ours is stricter about the length of integers
		}
		if theirErr != nil {
			t.Fatalf("we take %q, they say %v", ours, theirErr)
		}
		if len(ours) != len(theirs) {
			t.Fatalf("%q, they have %q", ours, theirs)
		}
		for i := range ours {
			if ours[i] != theirs[i] {
				t.Fatalf("%q, they have %q", ours, theirs)
			}
		}
	})
}

// FuzzEncoder lets qpack read what we wrote.
func FuzzEncoder(f *testing.F) {
	f.Add("Content-Type", "text/html", 200)
	f.Add("x-Custom", "", 599)
	f.Add("Authorization", "secret", 404)
	f.Fuzz(func(t *testing.T, name, value string, status int) {
		if !exchange.IsToken([]byte(name)) || status < 100 || status > 999 {
			return
		}
		var h exchange.Head
		h.Reset(nil)
		h.AddString(name, value)
		b := appendFields(appendStatus(appendPrefix(nil), status), &h)
		var d decoder
		if err := d.begin(b); err != nil {
			t.Fatal(err)
		}
		next := qpack.NewDecoder().Decode(b)
		for {
			hf, err := next()
			ok, ourErr := d.next()
			if err == io.EOF {
				if ok || ourErr != nil {
					t.Fatal(ok, ourErr)
				}
				return
			}
			if err != nil || ourErr != nil {
				t.Fatal(err, ourErr)
			}
			if string(d.name) != hf.Name || string(d.value) != hf.Value {
				t.Fatalf("%q %q, they have %q %q", d.name, d.value, hf.Name, hf.Value)
			}
		}
	})
}

// alone is the owner of a body in a test without a connection.
type alone struct{ faults int }

func (*alone) awaiting(int64)         {}
func (*alone) arrived()               {}
func (*alone) failed(err error) error { return err }
func (a *alone) fault(error)          { a.faults++ }
func (*alone) stopReading()           {}

// FuzzBody reads a body as it may come, in pieces of any size: it ends, gives no
// more than it got, and says the same whether it is gathered or not.
func FuzzBody(f *testing.F) {
	f.Add(append(data("hello"), data("world")...), int64(10), 3)
	f.Add(append(data("hello"), fields("a", "b")...), int64(-1), 1)
	f.Add([]byte{0x21, 3, 1, 2, 3, 0, 1, 'x'}, int64(1), 100)
	f.Fuzz(func(t *testing.T, stream []byte, length int64, piece int) {
		if length < -1 || length > wholeBody || piece < 1 {
			return
		}
		read := func(gather bool) (string, error) {
			in := &inbound{lim: &exchange.Limits{HeadBytes: 4096, Fields: 16, BodyBytes: 1 << 20}, dec: new(decoder), own: new(alone)}
			in.reset()
			in.str, in.length = &pieces{stream, piece}, length
			defer in.free()
			if gather && length > 0 {
				in.gather()
				if p, ok := in.Whole(); ok && int64(len(p)) != length {
					t.Fatalf("whole: %d bytes of %d", len(p), length)
				}
			}
			b, err := io.ReadAll(in)
			if len(b) > len(stream) {
				t.Fatalf("%d bytes of %d", len(b), len(stream))
			}
			if err == nil && length >= 0 && int64(len(b)) != length {
				t.Fatalf("%d bytes pass for %d", len(b), length)
			}
			return string(b), err
		}
		plain, err1 := read(false)
		gathered, err2 := read(true)
		if (err1 == nil) != (err2 == nil) || err1 == nil && plain != gathered {
			t.Fatalf("%q %v, gathered %q %v", plain, err1, gathered, err2)
		}
	})
}

// pieces gives a stream a few bytes at a time.
type pieces struct {
	b []byte
	n int
}

func (p *pieces) Read(to []byte) (int, error) {
	n := copy(to, p.b[:min(p.n, len(p.b))])
	if p.b = p.b[n:]; len(p.b) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// FuzzControl reads a peer's control stream.
func FuzzControl(f *testing.F) {
	f.Add([]byte{frameSettings, 2, 8, 1, frameGoAway, 1, 4})
	f.Add([]byte{frameSettings, 0, 0x21, 0x44, 0x00, 1})
	f.Fuzz(func(_ *testing.T, stream []byte) {
		r := reader{str: &pieces{stream, 7}}
		defer r.free()
		_ = readControl(&r, func(uint64, []byte) error { return nil })
	})
}
