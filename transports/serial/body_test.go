package serial

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/exchange"
)

// counted is a framing of its own: a digit says how many bytes follow, 0 ends the
// body behind one byte that is its trailer's value, x breaks it.
type counted struct{}

var errBroken = errors.New("broken")

func (counted) Frame(b []byte, trailers *exchange.Head) (used int, data int64, err error) {
	switch {
	case len(b) == 0:
		return 0, 0, nil
	case b[0] == 'x':
		return 0, 0, errBroken
	case b[0] != '0':
		return 1, int64(b[0] - '0'), nil
	case len(b) == 1:
		return 0, 0, nil
	}
	trailers.Add([]byte("T"), b[1:2])
	return 2, 0, io.EOF
}

func (counted) Ahead(b []byte) int { return len(b) }

func TestABodyEndsWhereItsFramingSays(t *testing.T) {
	for _, q := range []struct {
		name       string
		start      func(b *Body, cur []byte)
		in         string
		want, rest string
		err        error
	}{
		{"by its length", func(b *Body, cur []byte) { b.StartSized(cur, 5) }, "hello", "hello", "", nil},
		{"short of its length", func(b *Body, cur []byte) { b.StartSized(cur, 5) }, "hell", "hell", "", ErrTruncated},
		{"by the connection", func(b *Body, cur []byte) { b.StartToClose(cur) }, "hello", "hello", "", nil},
		{"framed", func(b *Body, cur []byte) { b.StartFramed(cur, counted{}, 0, -1) }, "2he3llo0T", "hello", "", nil},
		{"framed behind data", func(b *Body, cur []byte) { b.StartFramed(cur, counted{}, 2, -1) }, "he3llo0T", "hello", "", nil},
		{"framed, as announced", func(b *Body, cur []byte) { b.StartFramed(cur, counted{}, 0, 5) }, "2he3llo0T", "hello", "", nil},
		{"framed, more than announced", func(b *Body, cur []byte) { b.StartFramed(cur, counted{}, 0, 4) }, "2he3llo0T", "he", "", exchange.RefuseBodyLength},
		{"framed, less than announced", func(b *Body, cur []byte) { b.StartFramed(cur, counted{}, 0, 6) }, "2he3llo0T", "hello", "", exchange.RefuseBodyLength},
		{"framed without end", func(b *Body, cur []byte) { b.StartFramed(cur, counted{}, 0, -1) }, "2he3llo0", "hello", "", ErrTruncated},
		{"badly framed", func(b *Body, cur []byte) { b.StartFramed(cur, counted{}, 0, -1) }, "2hex", "he", "", errBroken},
		{"over the limit", func(b *Body, cur []byte) { b.StartSized(cur, 5); b.Bound(4, nil) }, "hello", "", "", exchange.RefuseBodySize},
	} {
		for cur := range len(q.in) + 1 {
			for _, how := range []string{"Next", "Read"} {
				var b Body
				in := strings.NewReader(q.in[cur:])
				b.Use(in.Read, nil)
				q.start(&b, []byte(q.in[:cur]))
				got, err := drain(&b, how)
				if !errors.Is(err, q.err) || q.err != exchange.RefuseBodySize && string(got) != q.want || b.Done() != (q.err == nil) { //nolint:errorlint // an identity
					t.Errorf("%s, %d bytes with the head, %s: %q, %v, done %v", q.name, cur, how, got, err, b.Done())
				}
				if b.AtEnd() != b.Done() {
					t.Errorf("%s, %d bytes with the head: at its end %v", q.name, cur, b.AtEnd())
				}
				b.Free()
			}
		}
	}
}

// drain reads all there is; err is nil at the end.
func drain(b *Body, how string) ([]byte, error) {
	if how == "Read" {
		return io.ReadAll(b)
	}
	var out bytes.Buffer
	for {
		p, err := b.Next()
		out.Write(p)
		if err == io.EOF { //nolint:errorlint // the end is this value
			return out.Bytes(), nil
		}
		if err != nil {
			return out.Bytes(), err
		}
	}
}

func TestABodyWithTrailersIsNotWhole(t *testing.T) {
	var b Body
	b.StartSized([]byte("hello"), 5)
	if p, ok := b.Whole(); !ok || string(p) != "hello" {
		t.Fatalf("without trailers: %q, %v", p, ok)
	}
	b.StartSized([]byte("hello"), 5)
	b.Trailer.Reset(nil)
	b.Trailer.AddString("X-Sum", "1")
	if _, ok := b.Whole(); ok {
		t.Error("it would be sent without its trailers")
	}
	if b.Trailers() == nil {
		t.Error("no trailers")
	}
}

func TestWhatFollowsABodyStaysWhereItIs(t *testing.T) {
	var b Body
	in := strings.NewReader("lonext")
	b.Use(in.Read, nil)
	b.StartSized([]byte("hel"), 5)
	if got, err := drain(&b, "Next"); err != nil || string(got) != "hello" || len(b.Rest()) != 0 || in.Len() != 4 {
		t.Errorf("%q, %v; %d bytes left on the wire", got, err, in.Len())
	}
	b.Free()
	b.StartFramed([]byte("2he0Tnext"), counted{}, 0, -1)
	if got, err := drain(&b, "Next"); err != nil || string(got) != "he" || b.AtEnd() || string(b.Rest()) != "next" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAReaderThatIsGivenUpIsWoken(t *testing.T) {
	var b Body
	woken := make(chan struct{})
	b.Use(func([]byte) (int, error) { <-woken; return 0, errBroken }, func() { close(woken) })
	b.StartSized(nil, 5)
	go b.Close(nil)
	if _, err := b.Next(); !errors.Is(err, errBroken) && !errors.Is(err, ErrGivenUp) {
		t.Error(err)
	}
	if !b.GivenUp() {
		t.Error("not given up")
	}
}
