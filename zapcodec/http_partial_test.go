package zapcodec

import (
	"bytes"
	"errors"
	"testing"
)

// TestAHeadParsesWithoutItsBody holds the partial reader to the whole one.
func TestAHeadParsesWithoutItsBody(t *testing.T) {
	req := benchRequest(5)
	req.Trailers = benchPairs[3:5]
	msg, err := req.Append(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var whole, head RequestView
	if err := whole.Parse(msg); err != nil {
		t.Fatal(err)
	}
	for n := range HeaderLen + httpFixed {
		if _, ok := LayoutOf(msg[:n], len(msg)); ok {
			t.Fatalf("a layout of %d bytes alone", n)
		}
	}
	l, ok := LayoutOf(msg[:HeaderLen+httpFixed], len(msg))
	if !ok || !l.InOrder || l.Body != whole.BodySpan() {
		t.Fatalf("%+v, %v; the body is at %+v", l, ok, whole.BodySpan())
	}
	if err := head.ParseHead(msg[:l.Body.Off], len(msg)); err != nil {
		t.Fatal(err)
	}
	if string(head.Method()) != "POST" || head.BodySpan() != whole.BodySpan() || countPairs(head.Headers()) != 5 {
		t.Fatalf("%s, body %+v, %d headers", head.Method(), head.BodySpan(), countPairs(head.Headers()))
	}
	var end EndView
	if err := end.ParseBlock(l.Trailers.Of(msg)); err != nil || countPairs(end.Trailers()) != 2 {
		t.Fatalf("%d trailers, %v", countPairs(end.Trailers()), err)
	}
	for n := range int(l.Body.Off) {
		if err := head.ParseHead(msg[:n], len(msg)); err == nil {
			t.Fatalf("the first %d bytes pass for a head", n)
		}
	}
	if err := head.ParseHead(msg[:l.Body.Off], len(msg)-1); !errors.Is(err, ErrSize) {
		t.Fatalf("another size than was announced: %v", err)
	}
}

func countPairs(p Pairs) int { return p.Count() }

// TestABodyBeforeItsHeadersIsNotInOrder: such a message must be gathered.
func TestABodyBeforeItsHeadersIsNotInOrder(t *testing.T) {
	b := Build(nil, Version1, TypeRequest<<8)
	root := b.Object(httpFixed)
	root.SetText(requestMethod, "POST")
	root.SetBytes(httpBody, []byte("body"))
	root.SetText(requestTarget, "/")
	msg, err := b.Finish(root)
	if err != nil {
		t.Fatal(err)
	}
	if l, ok := LayoutOf(msg, len(msg)); !ok || l.InOrder || !bytes.Equal(l.Body.Of(msg), []byte("body")) {
		t.Fatalf("%+v, %v", l, ok)
	}
}

func TestTheChunkOfADataFrameIsFoundEarly(t *testing.T) {
	msg, err := AppendData(nil, 0, []byte("chunk"))
	if err != nil {
		t.Fatal(err)
	}
	if s, ok, err := DataLayout(msg[:DataHeadLen], len(msg)); err != nil || !ok || s != (Span{DataHeadLen, 5}) {
		t.Fatalf("%+v, %v, %v", s, ok, err)
	}
	if _, ok, err := DataLayout(msg[:DataHeadLen-1], len(msg)); ok || err != nil {
		t.Fatal(ok, err)
	}
	msg[DataHeadLen-8] = 9
	if _, _, err := DataLayout(msg[:DataHeadLen], len(msg)); !errors.Is(err, ErrPointer) {
		t.Fatal(err)
	}
}

// FuzzLayout holds the reading of a message as it comes to that of the whole.
func FuzzLayout(f *testing.F) {
	req := benchRequest(3)
	msg, _ := req.Append(nil, 0)
	f.Add(msg)
	f.Fuzz(func(t *testing.T, msg []byte) {
		var whole, head RequestView
		err := whole.Parse(msg)
		l, ok := LayoutOf(msg, len(msg))
		if !ok || !l.InOrder {
			return
		}
		if early := head.ParseHead(msg[:l.Body.Off], len(msg)); early != nil && err == nil {
			t.Fatalf("the whole is sound, its head is not: %v", early)
		}
		if err == nil && (head.BodySpan() != whole.BodySpan() || !bytes.Equal(head.Target(), whole.Target())) {
			t.Fatalf("%+v and %+v", head.BodySpan(), whole.BodySpan())
		}
	})
}
