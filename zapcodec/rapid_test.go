package zapcodec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// Generators of what HTTP's grammar allows.
var (
	genToken = rapid.StringMatching("[!#$%&'*+.^_`|~0-9A-Za-z-]{1,30}")
	genValue = rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 40), func(b []byte) []byte {
		return bytes.Map(func(r rune) rune {
			if r == '\r' || r == '\n' || r == 0 {
				return '-'
			}
			return r
		}, b)
	})
	genPairs = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Pair {
		return Pair{[]byte(genToken.Draw(t, "name")), genValue.Draw(t, "value")}
	}).Filter(func(p Pair) bool { return classify(p.Name) == fieldPasses }), 0, 12)
	genBody = rapid.SliceOfN(rapid.Byte(), 0, 200)
)

func samePairs(p Pairs, want []Pair) bool {
	n := 0
	for p.Next() {
		if n == len(want) || !bytes.Equal(p.Name(), want[n].Name) || !bytes.Equal(p.Value(), want[n].Value) {
			return false
		}
		n++
	}
	return n == len(want)
}

func TestRequestsReadBackAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Request{
			Method: []byte(genToken.Draw(t, "method")), Target: []byte(rapid.StringMatching(`[!-~\x{80}-\x{ff}]{1,40}`).Draw(t, "target")),
			Proto: []byte("HTTP/1.1"), Headers: genPairs.Draw(t, "headers"), Trailers: genPairs.Draw(t, "trailers"),
			Streamed: rapid.Bool().Draw(t, "streamed"),
		}
		if !r.Streamed {
			r.Body = genBody.Draw(t, "body")
		}
		frame, err := r.Append(nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		var v RequestView
		if err := v.Parse(frame); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(v.Method(), r.Method) || !bytes.Equal(v.Target(), r.Target) || !bytes.Equal(v.Body(), r.Body) ||
			!samePairs(v.Headers(), r.Headers) || !samePairs(v.Trailers(), r.Trailers) || v.Streamed() != r.Streamed {
			t.Fatalf("%+v\nread back from %x", r, frame)
		}
		head, tail, err := r.Split(nil, 0)
		if err != nil || !bytes.Equal(bytes.Join([][]byte{head, r.Body, tail}, nil), frame) {
			t.Fatalf("split: %v", err)
		}
	})
}

func TestResponsesReadBackAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Response{
			Status: rapid.IntRange(100, 999).Draw(t, "status"), Reason: []byte(rapid.StringMatching("[ -~]{0,20}").Draw(t, "reason")),
			Headers: genPairs.Draw(t, "headers"), Body: genBody.Draw(t, "body"), Trailers: genPairs.Draw(t, "trailers"),
		}
		frame, err := r.Append(nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		var v ResponseView
		if err := v.Parse(frame); err != nil {
			t.Fatal(err)
		}
		if v.Status() != r.Status || !bytes.Equal(v.Reason(), r.Reason) || !bytes.Equal(v.Body(), r.Body) ||
			!samePairs(v.Headers(), r.Headers) || !samePairs(v.Trailers(), r.Trailers) {
			t.Fatalf("%+v\nread back from %x", r, frame)
		}
	})
}

// The word-wise checks say what a look at each byte says.
func TestWordwiseChecksAgreeWithBytewiseOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Mostly sound bytes, so that a single bad one decides.
		b := rapid.SliceOfN(rapid.OneOf(rapid.ByteRange('-', 'z'), rapid.ByteRange('a', 'z'), rapid.Byte()), 0, 40).Draw(t, "bytes")
		copied := make([]byte, pairSize(b, b))
		if done, _, _ := putPairs(copied, 0, []Pair{{b, b}}, false); done == 1 {
			if !tokenExact(b) || !valueExact(b) {
				t.Errorf("pair of %q passes a quick look", b)
			}
			if !bytes.Equal(copied[4:4+len(b)], b) || !bytes.Equal(copied[8+len(b):], b) {
				t.Errorf("pair of %q: copied %q", b, copied)
			}
		}
		text := string(b)
		for what, c := range map[string]struct {
			frame []byte
			want  bool
		}{
			"method": {rawRequest(t, text, "/", "", nil, nil, ""), tokenExact(b)},
			"target": {rawRequest(t, "GET", text, "", nil, nil, ""), targetExact(b)},
			"proto":  {rawRequest(t, "GET", "/", text, nil, nil, ""), protoExact(b)},
			"name":   {rawRequest(t, "GET", "/", "", [][2]string{{text, "v"}}, nil, ""), tokenExact(b) && classify(b) != fieldRefused},
			"value":  {rawRequest(t, "GET", "/", "", [][2]string{{"A", text}}, nil, ""), valueExact(b)},
		} {
			if err := new(RequestView).Parse(c.frame); (err == nil) != c.want {
				t.Errorf("%s %q is read as %v", what, b, err)
			}
		}
		resp := Response{Status: 200, Reason: bytes.Repeat([]byte("a"), len(b))}
		frame, err := resp.Append(nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		copy(frame[httpTexts:], b)
		if err := new(ResponseView).Parse(frame); (err == nil) != reasonExact(b) {
			t.Errorf("reason %q is read as %v", b, err)
		}
	})
}

// TestQuickLooksMissNothing tries every two bytes beside each other at every
// place of a word: what one byte does to the next is all that words add.
func TestQuickLooksMissNothing(t *testing.T) {
	for name, c := range map[string]struct {
		quick func(w uint64) uint64
		exact func(s []byte) bool
	}{
		"token":  {oddToken, tokenExact},
		"value":  {oddValue, valueExact},
		"target": {func(w uint64) uint64 { return oddText(w, visible) }, targetExact},
		"proto":  {func(w uint64) uint64 { return oddText(w, visible) }, protoExact},
		"reason": {func(w uint64) uint64 { return oddText(w, printable) }, reasonExact},
	} {
		text := bytes.Repeat([]byte("a"), 8)
		for at := range 7 {
			for two := range 1 << 16 {
				binary.LittleEndian.PutUint16(text[at:], uint16(two))
				if c.quick(binary.LittleEndian.Uint64(text))&highs == 0 && !c.exact(text) {
					t.Fatalf("%s: %q passes a quick look", name, text)
				}
			}
			text[at] = 'a'
		}
	}
}

// genField makes fields of every class, and some that are refused.
var genField = rapid.Custom(func(t *rapid.T) Pair {
	name := rapid.OneOf(genToken, rapid.SampledFrom([]string{
		"Host", "host", "Connection", "Content-Length", "Trailer", "TE", "Upgrade", "Keep-Alive", "X-B3-TraceId", "", "Transfer-Encoding", "a b",
	})).Draw(t, "name")
	return Pair{[]byte(name), rapid.OneOf(genValue, rapid.Just([]byte("a\r")), rapid.Just([]byte("a\tb"))).Draw(t, "value")}
})

func TestAMessageInOneGoIsTheSameAsPieceByPiece(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Request{
			Method: []byte(genToken.Draw(t, "method")), Target: []byte(rapid.SampledFrom([]string{"/", "/long/enough?a=\x80", "/ ", ""}).Draw(t, "target")),
			Proto: []byte(rapid.SampledFrom([]string{"HTTP/1.1", "", "h2", "HTTP/1\t1"}).Draw(t, "proto")), Body: genBody.Draw(t, "body"),
			Headers: rapid.SliceOfN(genField, 0, 6).Draw(t, "headers"), Trailers: rapid.SliceOfN(genField, 0, 2).Draw(t, "trailers"),
		}
		opt := Options(rapid.IntRange(0, 3).Draw(t, "options"))
		dst := append(make([]byte, 0, rapid.IntRange(6, 400).Draw(t, "room")), "before"...)
		one, oneErr := r.Append(dst, opt)

		var e Encoder
		e.Request([]byte("before"), opt, r.Method, r.Target, r.Proto)
		for _, p := range r.Headers {
			e.Field(p.Name, p.Value)
		}
		e.Body(r.Body)
		for _, p := range r.Trailers {
			e.Trailer(p.Name, p.Value)
		}
		pieces, err := e.Finish()
		if fmt.Sprint(err) != fmt.Sprint(oneErr) || !bytes.Equal(one, pieces) {
			t.Fatalf("in one go %v\n%x\npiece by piece %v\n%x", oneErr, one, err, pieces)
		}
	})
}

func TestRPCEnvelopesReadBackAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := RPCRequest{
			rapid.Uint32().Draw(t, "method"), rapid.Uint32().Draw(t, "promise"), rapid.Uint32().Draw(t, "target"),
			genBody.Draw(t, "cap"), genBody.Draw(t, "payload"),
		}
		frame, err := AppendRPCRequest(nil, &q)
		var got RPCRequest
		if err == nil {
			err = ParseRPCRequest(frame, &got)
		}
		if err != nil || got.Method != q.Method || got.Promise != q.Promise || got.Target != q.Target ||
			!bytes.Equal(got.Cap, q.Cap) || !bytes.Equal(got.Payload, q.Payload) || len(frame) != q.Size() {
			t.Fatalf("%v: %+v, want %+v", err, got, q)
		}
	})
}
