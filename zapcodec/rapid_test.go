package zapcodec

import (
	"bytes"
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
		if tokenOK(b) != tokenExact(b) {
			t.Errorf("token %q: %v", b, tokenOK(b))
		}
		if copied, odd := appendPair(nil, b, b); odd&highs == 0 && len(b) > 0 && !(tokenExact(b) && valueExact(b)) ||
			!bytes.Equal(copied[4:4+len(b)], b) || !bytes.Equal(copied[8+len(b):], b) {
			t.Errorf("pair of %q: odd %x, copied %q", b, odd, copied)
		}
		if copied, odd := appendPair(nil, []byte("A"), b); odd&highs == 0 && !valueExact(b) || !bytes.Equal(copied[9:], b) {
			t.Errorf("value %q passes a quick look, copied %q", b, copied)
		}
		frame := rawRequest(t, "GET", "/", "", [][2]string{{"A", string(b)}}, nil, "")
		if err := new(RequestView).Parse(frame); (err == nil) != valueExact(b) {
			t.Errorf("value %q is read as %v", b, err)
		}
		target, proto := len(b) > 0, true
		for _, c := range b {
			target = target && c > 0x20 && c != 0x7f
			proto = proto && c > 0x20 && c < 0x7f
		}
		if targetOK(b) != target || protoOK(b) != proto {
			t.Errorf("target or proto %q: %v, %v", b, targetOK(b), protoOK(b))
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
