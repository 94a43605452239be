package zapcodec

import (
	"bytes"
	"errors"
	"testing"
)

// fullRequest has fields that are dropped among those that are written.
func fullRequest() Request {
	return Request{
		Method: []byte("POST"), Target: []byte("/up"), Proto: []byte("HTTP/2.0"),
		Headers:  []Pair{pair("Host", "a"), pair("Connection", "close"), pair("Content-Length", "4"), pair("X", "1")},
		Body:     []byte("body"),
		Trailers: []Pair{pair("Sum", "ff"), pair("Trailer", "Sum")},
	}
}

func TestSplitEncodingJoinsToTheOnePieceEncoding(t *testing.T) {
	for _, opt := range []Options{0, Prefix, Prefix | Extended} {
		for _, change := range []func(*Request){
			func(*Request) {},
			func(r *Request) { r.Trailers = nil },
			func(r *Request) { r.Body = nil },
			func(r *Request) { r.Headers, r.Body, r.Trailers = nil, nil, nil },
			func(r *Request) { r.Body = bytes.Repeat([]byte("x"), 1<<20) },
		} {
			r := fullRequest()
			change(&r)
			whole, err := r.Append(nil, opt)
			if err != nil {
				t.Fatal(err)
			}
			head, tail, err := r.Split(nil, opt)
			if err != nil {
				t.Fatal(err)
			}
			if joined := bytes.Join([][]byte{head, r.Body, tail}, nil); !bytes.Equal(joined, whole) {
				t.Errorf("joined\n %x\nwhole\n %x", joined, whole)
			}
		}
	}
	resp := Response{Status: 200, Headers: []Pair{pair("A", "1")}, Body: []byte("b"), Trailers: []Pair{pair("T", "1")}}
	whole, _ := resp.Append([]byte("before"), 0)
	head, tail, err := resp.Split([]byte("before"), 0)
	if joined := bytes.Join([][]byte{head, resp.Body, tail}, nil); err != nil || !bytes.Equal(joined, whole) {
		t.Errorf("response: %v, joined %x, whole %x", err, joined, whole)
	}
}

func TestAHeadIsWrittenIntoTheHeadroomBeforeItsBody(t *testing.T) {
	for _, opt := range []Options{0, Prefix} {
		r := fullRequest()
		whole, err := r.Append(nil, opt)
		if err != nil {
			t.Fatal(err)
		}
		const bodyAt = 400
		buf := make([]byte, 1024)
		copy(buf[bodyAt:], r.Body)

		size := RequestHeadSize(opt, r.Method, r.Target, r.Proto)
		for _, p := range r.Headers {
			size.Field(p.Name, p.Value)
		}
		from := bodyAt - size.Len()
		var e Encoder
		e.Request(buf[from:from], opt, r.Method, r.Target, r.Proto)
		for _, p := range r.Headers {
			e.Field(p.Name, p.Value)
		}
		e.BodyInPlace(len(r.Body))
		for _, p := range r.Trailers {
			e.Trailer(p.Name, p.Value)
		}
		frame, err := e.Finish()
		if err != nil || !bytes.Equal(frame, whole) || &frame[0] != &buf[from] {
			t.Errorf("%v: in place\n %x\nwhole\n %x", err, frame, whole)
		}
	}
}

func TestAResponseHeadIsSizedExactly(t *testing.T) {
	for _, proto := range []string{"", "HTTP/1.1"} {
		var e Encoder
		e.Response(nil, Prefix, 404, []byte("Not Found"), []byte(proto))
		size := ResponseHeadSize(Prefix, []byte("Not Found"), []byte(proto))
		for range 3 {
			e.Field([]byte("Keep-Alive"), []byte("5"))
			size.Field([]byte("Keep-Alive"), []byte("5"))
			e.Field([]byte("Date"), []byte("now"))
			size.Field([]byte("Date"), []byte("now"))
		}
		e.BodyApart(1 << 30)
		head, tail, err := e.Parts()
		if err != nil || len(tail) != 0 || len(head) != size.Len() {
			t.Errorf("head of %d bytes, sized %d; tail %d, %v", len(head), size.Len(), len(tail), err)
		}
	}
}

func TestADataHeadFitsRightBeforeItsChunk(t *testing.T) {
	for _, opt := range []Options{0, Prefix, Prefix | Extended} {
		buf := []byte("..............................chunk")
		at := 30 - DataHeadSize(opt)
		head, err := AppendDataHead(buf[at:at], opt, 5)
		if err != nil || len(head) != DataHeadSize(opt) {
			t.Fatalf("%d bytes, %v", len(head), err)
		}
		whole, err := AppendData(nil, opt, []byte("chunk"))
		if err != nil || !bytes.Equal(buf[at:], whole) {
			t.Errorf("in place\n %x\nwhole\n %x", buf[at:], whole)
		}
	}
}

func TestTheEncoderKeepsItsFirstErrorAndRefusesDisorder(t *testing.T) {
	name, value := []byte("A"), []byte("1")
	for what, c := range map[string]struct {
		write func(e *Encoder)
		want  error
	}{
		"nothing begun":          {func(*Encoder) {}, ErrOrder},
		"a field after the body": {func(e *Encoder) { e.Request(nil, 0, name, name, nil); e.Body(value); e.Field(name, value) }, ErrOrder},
		"two bodies":             {func(e *Encoder) { e.Request(nil, 0, name, name, nil); e.Body(value); e.Body(value) }, ErrOrder},
		"a body in an end":       {func(e *Encoder) { e.End(nil, 0); e.Body(value) }, ErrOrder},
		"a header in an end":     {func(e *Encoder) { e.End(nil, 0); e.Field(name, value) }, ErrOrder},
		"Finish without a body":  {func(e *Encoder) { e.Request(nil, 0, name, name, nil); e.BodyApart(1) }, ErrOrder},
		"no room for the body":   {func(e *Encoder) { e.Request(nil, 0, name, name, nil); e.BodyInPlace(1 << 20) }, ErrOrder},
		"a body below nothing":   {func(e *Encoder) { e.Request(nil, 0, name, name, nil); e.BodyApart(-1) }, ErrTooLarge},
		"the first of two errors": {func(e *Encoder) {
			e.Request(nil, 0, nil, name, nil)
			e.Field(nil, value)
		}, ErrMethod},
	} {
		var e Encoder
		c.write(&e)
		if _, err := e.Finish(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	var e Encoder
	e.Request(nil, 0, name, name, nil)
	e.BodyApart(maxMessage)
	if _, _, err := e.Parts(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a body that makes the message too large: %v", err)
	}
	e.End(nil, 0)
	if _, err := e.Finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Finish(); !errors.Is(err, ErrOrder) {
		t.Errorf("finished twice: %v", err)
	}
}

func TestHotFunctionsAllocateNothing(t *testing.T) {
	req, resp := benchRequest(12), benchResponse(12)
	buf := make([]byte, 0, 4096)
	reqFrame, _ := req.Append(nil, 0)
	respFrame, _ := resp.Append(nil, 0)
	stream, _ := resp.Append(nil, Prefix)
	call, _ := AppendRPCRequest(nil, &RPCRequest{Method: 1, Payload: []byte("x")})
	var (
		rv RequestView
		sv ResponseView
		rc RPCRequest
	)
	for name, f := range map[string]func(){
		"append a request":  func() { _, _ = req.Append(buf, Prefix) },
		"append a response": func() { _, _ = resp.Append(buf, Prefix) },
		"split":             func() { _, _, _ = resp.Split(buf, Prefix) },
		"parse a request":   func() { _ = rv.Parse(reqFrame) },
		"parse a response":  func() { _ = sv.Parse(respFrame) },
		"data":              func() { f, _ := AppendData(buf, 0, req.Body); _, _ = ParseData(f) },
		"end":               func() { _, _ = AppendEnd(buf, 0, req.Headers[2:4]) },
		"parse a call":      func() { _ = ParseRPCRequest(call, &rc) },
		"next frame":        func() { _, _ = FramingHTTP.Next(stream, 0) },
		"walk": func() {
			p := rv.Headers()
			for p.Next() {
				_ = p.Name()
			}
		},
		"size": func() {
			s := RequestHeadSize(Prefix, req.Method, req.Target, req.Proto)
			s.Field(req.Headers[0].Name, req.Headers[0].Value)
		},
	} {
		if n := testing.AllocsPerRun(50, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
