package zapcodec

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func pair(name, value string) Pair { return Pair{[]byte(name), []byte(value)} }

func getRequest(headers ...Pair) Request {
	return Request{Method: []byte("GET"), Target: []byte("/"), Proto: []byte("HTTP/1.1"), Headers: headers}
}

// rawRequest writes a request frame without any check, so that what readers
// must refuse can be put before them.
func rawRequest(t interface{ Fatal(args ...any) }, method, target, proto string, headers, trailers [][2]string, body string) []byte {
	b := Build(nil, Version1, TypeRequest<<8)
	o := b.Object(httpFixed)
	o.SetText(requestMethod, method)
	o.SetText(requestTarget, target)
	o.SetText(requestProto, proto)
	o.SetBytes(httpHeaders, rawBlock(headers))
	o.SetText(httpBody, body)
	o.SetBytes(httpTrailers, rawBlock(trailers))
	frame, err := b.Finish(o)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func rawBlock(pairs [][2]string) (b []byte) {
	if len(pairs) == 0 {
		return nil
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(pairs)))
	for _, p := range pairs {
		for _, s := range p {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
			b = append(b, s...)
		}
	}
	return b
}

func TestRequestGrammarIsTheSameForReadersAndWriters(t *testing.T) {
	type frame struct {
		method, target, proto string
		headers, trailers     [][2]string
		body                  string
	}
	ok := frame{method: "GET", target: "/", proto: "HTTP/1.1"}
	with := func(change func(*frame)) frame { f := ok; change(&f); return f }
	header := func(name, value string) frame {
		return with(func(f *frame) { f.headers = [][2]string{{name, value}} })
	}
	trailer := func(name, value string) frame {
		return with(func(f *frame) { f.trailers = [][2]string{{name, value}} })
	}
	for name, c := range map[string]struct {
		frame frame
		want  error
	}{
		"a plain request":                   {ok, nil},
		"every token byte in a name":        {header("!#$%&'*+-.^_`|~09AZaz", "v"), nil},
		"a tab and high bytes in a value":   {header("A", "a\tb\x80\xff\x01\x7f"), nil},
		"high bytes in a target":            {with(func(f *frame) { f.target = "/\x80\xff" }), nil},
		"an empty value":                    {header("A", ""), nil},
		"a long value":                      {header("A", strings.Repeat("v", 70000)), nil},
		"an empty method":                   {with(func(f *frame) { f.method = "" }), ErrMethod},
		"a method with a colon":             {with(func(f *frame) { f.method = "GET:" }), ErrMethod},
		"a method with a high byte":         {with(func(f *frame) { f.method = "G\x80T" }), ErrMethod},
		"a target with DEL":                 {with(func(f *frame) { f.target = "/abcdefghij\x7f" }), ErrTarget},
		"a target with NUL at its end":      {with(func(f *frame) { f.target = "/abcdefgh\x00" }), ErrTarget},
		"a proto with a space":              {with(func(f *frame) { f.proto = "HTTP/1.1 x" }), ErrProto},
		"a proto with LF":                   {with(func(f *frame) { f.proto = "HTTP/1.1\n" }), ErrProto},
		"a name with a colon":               {header("A:", "v"), ErrName},
		"a name with a high byte":           {header("Abcdefghijk\xc3", "v"), ErrName},
		"a name with NUL":                   {header("A\x00", "v"), ErrName},
		"an empty name":                     {header("", "v"), ErrName},
		"a name of one DEL":                 {header("\x7f", "v"), ErrName},
		"a value with LF":                   {header("A", "abcdefghijkl\nm"), ErrValue},
		"a value with CR last":              {header("A", "abcdefgh\r"), ErrValue},
		"a short value with NUL":            {header("A", "\x00"), ErrValue},
		"Transfer-Encoding in any case":     {header("tRANSFER-eNCODING", "chunked"), ErrTransferEncoding},
		"Transfer-Encoding as a trailer":    {trailer("Transfer-Encoding", "chunked"), ErrTransferEncoding},
		"two Hosts":                         {with(func(f *frame) { f.headers = [][2]string{{"Host", "a"}, {"hOST", "a"}} }), ErrHost},
		"Host as a trailer":                 {trailer("Host", "a"), ErrHost},
		"a trailer's value with CR":         {trailer("A", "\r"), ErrValue},
		"a trailer's name with a space":     {trailer("A B", "v"), ErrName},
		"a name like Host that is not":      {with(func(f *frame) { f.headers = [][2]string{{"Hos7", "a"}, {"Hos7", "b"}} }), nil},
		"a name of 17 like no Transfer-Enc": {header("Transfer_Encoding", "v"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			raw := rawRequest(t, c.frame.method, c.frame.target, c.frame.proto, c.frame.headers, c.frame.trailers, c.frame.body)
			var v RequestView
			readErr := v.Parse(raw)
			r := Request{Method: []byte(c.frame.method), Target: []byte(c.frame.target), Proto: []byte(c.frame.proto), Body: []byte(c.frame.body)}
			for _, p := range c.frame.headers {
				r.Headers = append(r.Headers, pair(p[0], p[1]))
			}
			for _, p := range c.frame.trailers {
				r.Trailers = append(r.Trailers, pair(p[0], p[1]))
			}
			written, writeErr := r.Append(nil, 0)
			if c.want == nil {
				if readErr != nil || writeErr != nil || !bytes.Equal(raw, written) {
					t.Fatalf("read: %v; write: %v; same bytes: %v", readErr, writeErr, bytes.Equal(raw, written))
				}
				return
			}
			for what, err := range map[string]error{"read": readErr, "write": writeErr} {
				if !errors.Is(err, c.want) || !errors.Is(err, ErrGrammar) {
					t.Errorf("%s: %v, want %v", what, err, c.want)
				}
			}
		})
	}
}

func TestHopByHopFieldsAreDroppedBothWays(t *testing.T) {
	dropped := []string{
		"Connection", "keep-alive", "Proxy-Connection", "TE", "Upgrade", "trailer", "Proxy-Authenticate",
		"PROXY-AUTHORIZATION", "Content-Length",
	}
	raw := [][2]string{{"A", "1"}}
	r := getRequest(pair("A", "1"))
	for _, name := range dropped {
		raw = append(raw, [2]string{name, "0"})
		r.Headers = append(r.Headers, pair(name, "0"))
		r.Trailers = append(r.Trailers, pair(name, "0"))
	}
	raw, r.Headers = append(raw, [2]string{"B", "2"}), append(r.Headers, pair("B", "2"))
	want := [][2]string{{"A", "31"}, {"B", "32"}}

	var v RequestView
	if err := v.Parse(rawRequest(t, "GET", "/", "HTTP/1.1", raw, raw[1:len(raw)-1], "")); err != nil {
		t.Fatal(err)
	}
	if got := collect(v.Headers()); mustJSON(t, got) != mustJSON(t, want) {
		t.Errorf("read %v", got)
	}
	if got := collect(v.Trailers()); len(got) != 0 {
		t.Errorf("read trailers %v", got)
	}
	frame, err := r.Append(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Parse(frame); err != nil {
		t.Fatal(err)
	}
	if p := v.Headers(); p.Count() != 2 || mustJSON(t, collect(p)) != mustJSON(t, want) {
		t.Errorf("written %v", collect(p))
	}
	if p := v.Trailers(); p.Count() != 0 {
		t.Errorf("written trailers %v", collect(p))
	}
}

func TestFieldsNamedByConnectionAreDropped(t *testing.T) {
	var v RequestView
	raw := [][2]string{{"X-Hop", "1"}, {"Connection", "close, x-hop"}, {"X-Keep", "2"}, {"Connection", "\tX-Other\t,,"}, {"x-other", "3"}}
	if err := v.Parse(rawRequest(t, "GET", "/", "HTTP/1.1", raw, nil, "")); err != nil {
		t.Fatal(err)
	}
	if got := mustJSON(t, collect(v.Headers())); got != `[["X-Keep","32"]]` {
		t.Errorf("read %s", got)
	}
	many := [][2]string{}
	for range maxNominations + 1 {
		many = append(many, [2]string{"Connection", "a"})
	}
	if err := v.Parse(rawRequest(t, "GET", "/", "HTTP/1.1", many, nil, "")); !errors.Is(err, ErrConnection) {
		t.Errorf("many Connection fields: %v", err)
	}
	long := [][2]string{{"Connection", strings.Repeat("a,", nominationBytes)}}
	if err := v.Parse(rawRequest(t, "GET", "/", "HTTP/1.1", long, nil, "")); !errors.Is(err, ErrConnection) {
		t.Errorf("a long Connection field: %v", err)
	}
}

func TestContentLengthThatContradictsTheBodyIsRefused(t *testing.T) {
	var v RequestView
	for value, ok := range map[string]bool{"3": true, "03": true, "4": false, "": false, "3x": false, "-3": false, "99999999999999999999": false} {
		err := v.Parse(rawRequest(t, "POST", "/", "HTTP/1.1", [][2]string{{"Content-Length", value}}, nil, "abc"))
		if ok != (err == nil) || !ok && !errors.Is(err, ErrContentLength) {
			t.Errorf("%q beside 3 bytes: %v", value, err)
		}
	}
	two := [][2]string{{"Content-Length", "3"}, {"Content-Length", "4"}}
	if err := v.Parse(rawRequest(t, "POST", "/", "HTTP/1.1", two, nil, "abc")); !errors.Is(err, ErrContentLength) {
		t.Errorf("two lengths: %v", err)
	}
}

func TestStatusIsHeldToItsRange(t *testing.T) {
	for status, ok := range map[int]bool{-1: false, 0: false, 99: false, 100: true, 999: true, 1000: false, 65636: false} {
		r := Response{Status: status}
		frame, err := r.Append(nil, 0)
		if ok != (err == nil) || !ok && !errors.Is(err, ErrStatus) {
			t.Errorf("write %d: %v", status, err)
		}
		if ok {
			frame[HeaderLen] ^= 0xff
			frame[HeaderLen+1] ^= 0xff
			var v ResponseView
			if err := v.Parse(frame); !errors.Is(err, ErrStatus) {
				t.Errorf("read %d: %v", status^0xffff, err)
			}
		}
	}
	bad := Response{Status: 200, Reason: []byte("a\rb")}
	if _, err := bad.Append(nil, 0); !errors.Is(err, ErrReason) {
		t.Errorf("reason with CR: %v", err)
	}
}

func TestHeaderBlocksThatLieAreRefused(t *testing.T) {
	good := rawBlock([][2]string{{"A", "1"}, {"B", "2"}})
	for name, block := range map[string][]byte{
		"no room for a count":  {1, 0, 0},
		"a pair too many":      append([]byte{3}, good[1:]...),
		"a pair too few":       append([]byte{1}, good[1:]...),
		"cut in a value":       good[:len(good)-1],
		"cut before a value":   good[:len(good)-5],
		"a name without end":   {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 'A'},
		"a value without end":  {1, 0, 0, 0, 1, 0, 0, 0, 'A', 0xff, 0xff, 0xff, 0xff},
		"four billion pairs":   {0xff, 0xff, 0xff, 0xff},
		"bytes after no pairs": {0, 0, 0, 0, 0},
	} {
		b := Build(nil, Version1, TypeEnd<<8)
		o := b.Object(8)
		o.SetBytes(0, block)
		frame, err := b.Finish(o)
		if err != nil {
			t.Fatal(err)
		}
		var v EndView
		if err := v.Parse(frame); !errors.Is(err, ErrBlock) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFlagsOfOtherFormatsAreRefusedAndUnknownOnesIgnored(t *testing.T) {
	r := getRequest()
	frame, err := r.Append(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 {
		frame[6] = 1 << bit
		var v RequestView
		err := v.Parse(frame)
		if refused := bit < 3; refused != errors.Is(err, ErrFlags) || !refused && err != nil {
			t.Errorf("flag %#x: %v", 1<<bit, err)
		}
		if err == nil && v.Extended() != (bit == 7) {
			t.Errorf("flag %#x: Extended is %v", 1<<bit, v.Extended())
		}
	}
}

func TestStreamedHeadsCarryNoBody(t *testing.T) {
	r := getRequest()
	r.Streamed, r.Body = true, []byte("x")
	if _, err := r.Append(nil, 0); !errors.Is(err, ErrBody) {
		t.Errorf("write: %v", err)
	}
	raw := rawRequest(t, "GET", "/", "HTTP/1.1", nil, nil, "x")
	raw[7] = TypeRequestHead
	var v RequestView
	if err := v.Parse(raw); !errors.Is(err, ErrBody) {
		t.Errorf("read: %v", err)
	}
}

func TestAStreamedRequestIsHeadDataAndEnd(t *testing.T) {
	r := getRequest(pair("A", "1"))
	r.Streamed = true
	frame, err := r.Append(nil, Prefix|Extended)
	if err != nil {
		t.Fatal(err)
	}
	var v RequestView
	if err := v.Parse(frame[prefixLen:]); err != nil || !v.Streamed() || !v.Extended() {
		t.Errorf("head: %v", err)
	}
	data, err := AppendData(nil, Extended, []byte("chunk"))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := ParseData(data); err != nil || string(s.Of(data)) != "chunk" || data[6] != FlagExtended {
		t.Errorf("data: %v", err)
	}
	end, err := AppendEnd(nil, 0, []Pair{pair("T", "1")})
	if err != nil {
		t.Fatal(err)
	}
	var e EndView
	if err := e.Parse(end); err != nil || mustJSON(t, collect(e.Trailers())) != `[["T","31"]]` {
		t.Errorf("end: %v", err)
	}
	for kind, frame := range map[byte][]byte{TypeRequestHead: frame[prefixLen:], TypeData: data, TypeEnd: end} {
		if got, err := FrameType(frame); got != kind || err != nil {
			t.Errorf("type %d, %v; want %d", got, err, kind)
		}
	}
}

func TestSpansLeadToWhatTheAccessorsReturn(t *testing.T) {
	for _, v := range loadVectors(t) {
		if v.Kind != "http-request" || v.Verdict == "reject" {
			continue
		}
		frame := v.bytes(t)
		var r RequestView
		if err := r.Parse(frame); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			s Span
			b []byte
		}{{r.MethodSpan(), r.Method()}, {r.TargetSpan(), r.Target()}, {r.ProtoSpan(), r.Proto()}, {r.BodySpan(), r.Body()}} {
			if !bytes.Equal(frame[c.s.Off:c.s.Off+c.s.Len], c.b) {
				t.Errorf("%s: span %v is not %q", v.Name, c.s, c.b)
			}
		}
		p := r.Headers()
		for p.Next() {
			name, value := p.Spans()
			if !bytes.Equal(name.Of(r.Frame()), p.Name()) || !bytes.Equal(value.Of(r.Frame()), p.Value()) {
				t.Errorf("%s: spans of %q", v.Name, p.Name())
			}
		}
	}
}

func TestAbsentProtoReadsAsTheDefault(t *testing.T) {
	var v RequestView
	if err := v.Parse(rawRequest(t, "GET", "/", "", nil, nil, "")); err != nil || string(v.Proto()) != DefaultProto {
		t.Errorf("%q, %v", v.Proto(), err)
	}
	r := Request{Method: []byte("GET"), Target: []byte("/")}
	frame, err := r.Append(nil, 0)
	if err != nil || !strings.Contains(hex.EncodeToString(frame), hex.EncodeToString([]byte(DefaultProto))) {
		t.Errorf("%x, %v", frame, err)
	}
}
