package zapcodec

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"testing"
)

// seed adds every vector.
func seed(f *testing.F, add func(frame []byte)) {
	f.Helper()
	for _, v := range loadVectors(f) {
		add(v.bytes(f))
	}
}

// FuzzRequest also holds the encoder against the parser: what was parsed is
// written and parsed again, with nothing lost and nothing new.
func FuzzRequest(f *testing.F) {
	seed(f, func(frame []byte) { f.Add(frame) })
	f.Fuzz(func(t *testing.T, frame []byte) {
		var v, again RequestView
		if v.Parse(frame) != nil {
			return
		}
		r := Request{
			Method: v.Method(), Target: v.Target(), Proto: v.Proto(), Headers: gather(v.Headers()),
			Body: v.Body(), Trailers: gather(v.Trailers()), Streamed: v.Streamed(),
		}
		written, err := r.Append(nil, 0)
		if err != nil {
			t.Fatalf("what was read is not written: %v", err)
		}
		if err := again.Parse(written); err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		if !bytes.Equal(again.Method(), r.Method) || !bytes.Equal(again.Target(), r.Target) || !bytes.Equal(again.Proto(), r.Proto) ||
			!bytes.Equal(again.Body(), r.Body) || !samePairs(again.Headers(), r.Headers) || !samePairs(again.Trailers(), r.Trailers) {
			t.Fatalf("%x\nbecame\n%x", frame, written)
		}
	})
}

// FuzzResponse does for responses what FuzzRequest does for requests.
func FuzzResponse(f *testing.F) {
	seed(f, func(frame []byte) { f.Add(frame) })
	f.Fuzz(func(t *testing.T, frame []byte) {
		var v, again ResponseView
		if v.Parse(frame) != nil {
			return
		}
		r := Response{
			Status: v.Status(), Reason: v.Reason(), Proto: v.Proto(), Headers: gather(v.Headers()),
			Body: v.Body(), Trailers: gather(v.Trailers()), Streamed: v.Streamed(),
		}
		written, err := r.Append(nil, 0)
		if err == nil {
			err = again.Parse(written)
		}
		if err != nil {
			t.Fatal(err)
		}
		if again.Status() != r.Status || !bytes.Equal(again.Reason(), r.Reason) || !bytes.Equal(again.Proto(), r.Proto) ||
			!bytes.Equal(again.Body(), r.Body) || !samePairs(again.Headers(), r.Headers) || !samePairs(again.Trailers(), r.Trailers) {
			t.Fatalf("%x\nbecame\n%x", frame, written)
		}
	})
}

func gather(p Pairs) (list []Pair) {
	for name, value := range p.All() {
		list = append(list, Pair{name, value})
	}
	return list
}

// FuzzStream tries the parsers of data, end and RPC envelopes.
func FuzzStream(f *testing.F) {
	seed(f, func(frame []byte) { f.Add(frame) })
	f.Fuzz(func(t *testing.T, frame []byte) {
		if s, err := ParseData(frame); err == nil && len(s.Of(frame)) > len(frame) {
			t.Error("a chunk larger than its frame")
		}
		var e EndView
		if e.Parse(frame) == nil {
			if _, err := AppendEnd(nil, 0, gather(e.Trailers())); err != nil {
				t.Errorf("what was read is not written: %v", err)
			}
		}
		var q, q2 RPCRequest
		if ParseRPCRequest(frame, &q) == nil {
			written, err := AppendRPCRequest(nil, &q)
			if err != nil || ParseRPCRequest(written, &q2) != nil || !bytes.Equal(q.Cap, q2.Cap) || !bytes.Equal(q.Payload, q2.Payload) {
				t.Errorf("call %+v became %+v", q, q2)
			}
		}
		var s, s2 RPCResponse
		if ParseRPCResponse(frame, &s) == nil {
			written, err := AppendRPCResponse(nil, &s)
			if err != nil || ParseRPCResponse(written, &s2) != nil || !bytes.Equal(s.Body, s2.Body) || s.Status != s2.Status {
				t.Errorf("reply %+v became %+v", s, s2)
			}
		}
	})
}

// FuzzMessage reads a message by every kind of cell at every offset, and
// follows objects as deep as they go.
func FuzzMessage(f *testing.F) {
	seed(f, func(frame []byte) { f.Add(frame) })
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := Open(frame)
		if err != nil {
			return
		}
		const fixed = 32
		o, err := m.Root(fixed)
		if err != nil {
			return
		}
		for off := 0; off+8 <= fixed; off += 4 {
			_, _ = o.Bytes(off)
			if l, err := o.List(off, 4); err == nil {
				for i := range l.Len() {
					_ = l.U32(i)
				}
			}
			if l, err := o.VarList(off); err == nil {
				for l.Next() {
					_ = l.Bytes()
					_, _ = l.Object(8)
				}
			}
			child, ok, err := o.Object(off, fixed)
			for steps := 0; ok && err == nil; steps++ {
				if steps > MaxDepth {
					t.Fatal("deeper than MaxDepth")
				}
				child, ok, err = child.Object(off, fixed)
			}
		}
		if r, err := everything.Open(frame); err == nil && everything.Check(r) == nil {
			if _, ok := fBytes.Get(r); !ok {
				t.Error("a checked cell cannot be read")
			}
		}
	})
}

// FuzzFraming holds the two readers of frames against each other.
func FuzzFraming(f *testing.F) {
	seed(f, func(frame []byte) {
		f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...), uint8(FramingHTTP))
		rpc := append(binary.LittleEndian.AppendUint32(nil, uint32(len(frame))+1), DirectionRequest)
		f.Add(append(rpc, frame...), uint8(FramingRPC))
	})
	f.Fuzz(func(t *testing.T, in []byte, framing uint8) {
		const limit = 1 << 20
		how := Framing(framing % 4)
		r := bufio.NewReaderSize(bytes.NewReader(in), 16)
		for rest := in; ; {
			n, errNext := how.Next(rest, limit)
			frame, errRead := how.Read(r, nil, limit)
			if errNext != nil || n == 0 || n > len(rest) {
				if errRead == nil {
					t.Fatalf("Next: %d, %v; Read: %d bytes", n, errNext, len(frame.Bytes))
				}
				return
			}
			if errRead != nil {
				t.Fatalf("Next: %d; Read: %v", n, errRead)
			}
			var cut Frame
			if cut, rest = how.Cut(rest, n); cut.Tag != frame.Tag || !bytes.Equal(cut.Bytes, frame.Bytes) {
				t.Fatalf("Next and Read differ: %v, %v", cut, frame)
			}
		}
	})
}
