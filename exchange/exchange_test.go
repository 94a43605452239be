package exchange

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// request builds a request head the way a transport would.
func request(method, target string, fields ...string) *Head {
	h := &Head{}
	h.Reset(nil)
	h.SetMethod([]byte(method))
	h.SetTarget([]byte(target))
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		h.AddString(name, value)
	}
	return h
}

func TestEveryKnownNameIsFoundInAnyCase(t *testing.T) {
	for n := Name(1); n < numNames; n++ {
		if n.String() == "" {
			t.Fatalf("name %d has no spelling", n)
		}
		for _, s := range []string{n.String(), n.Lower(), strings.ToUpper(n.String())} {
			if got := LookupName([]byte(s)); got != n {
				t.Errorf("LookupName(%q) = %v, want %v", s, got, n)
			}
		}
	}
	for _, s := range []string{"", "x", "x-unknown", "content-typo", "host:"} {
		if got := LookupName([]byte(s)); got != Unknown {
			t.Errorf("LookupName(%q) = %v, want Unknown", s, got)
		}
	}
}

func TestRequestVerdicts(t *testing.T) {
	host := "Host: a.example"
	for _, c := range []struct {
		name   string
		method string
		target string
		fields []string
		want   *Refusal
	}{
		{"a plain request is served", "GET", "/", []string{host}, nil},
		{"a path of raw UTF-8 is served", "GET", "/ü", []string{host}, nil},
		{"an IPv6 host is served", "GET", "/", []string{"Host: [::1]:8443"}, nil},
		{"two equal lengths count once", "POST", "/", []string{host, "Content-Length: 5", "content-length: 5"}, nil},
		{"OPTIONS * is served", "OPTIONS", "*", []string{host}, nil},
		{"no host", "GET", "/", nil, RefuseHost},
		{"two hosts", "GET", "/", []string{host, host}, RefuseHost},
		{"a host with user information", "GET", "/", []string{"Host: u@a.example"}, RefuseHost},
		{"a host with a path", "GET", "/", []string{"Host: a.example/b"}, RefuseHost},
		{"a host with a bad port", "GET", "/", []string{"Host: a.example:8x"}, RefuseHost},
		{"a host with an open bracket", "GET", "/", []string{"Host: [::1"}, RefuseHost},
		{"GET *", "GET", "*", []string{host}, RefuseTarget},
		{"a target with a space", "GET", "/a b", []string{host}, RefuseTarget},
		{"a target with a fragment", "GET", "/a#b", []string{host}, RefuseTarget},
		{"an empty target", "GET", "", []string{host}, RefuseTarget},
		{"CONNECT to another host", "CONNECT", "a:1", []string{host}, RefuseConnect},
		{"a method that is no token", "GE T", "/", []string{host}, RefuseMethod},
		{"an empty field name", "GET", "/", []string{host, ": x"}, RefuseFieldName},
		{"a space before the colon", "GET", "/", []string{host, "X : y"}, RefuseFieldName},
		{"a NUL in a value", "GET", "/", []string{host, "X: a\x00b"}, RefuseFieldValue},
		{"a CR in a value", "GET", "/", []string{host, "X: a\rb"}, RefuseFieldValue},
		{"a DEL in a value", "GET", "/", []string{host, "X: a\x7fb"}, RefuseFieldValue},
		{"unequal lengths", "POST", "/", []string{host, "Content-Length: 5", "Content-Length: 6"}, RefuseLength},
		{"a length list", "POST", "/", []string{host, "Content-Length: 5, 5"}, RefuseLength},
		{"a signed length", "POST", "/", []string{host, "Content-Length: +5"}, RefuseLength},
		{"a length past int64", "POST", "/", []string{host, "Content-Length: 9223372036854775808"}, RefuseLength},
		{"an empty length", "POST", "/", []string{host, "Content-Length: "}, RefuseLength},
		{"length and chunked", "POST", "/", []string{host, "Content-Length: 5", "Transfer-Encoding: chunked"}, RefuseLengthAndTE},
		{"an unknown encoding", "POST", "/", []string{host, "Transfer-Encoding: gzip"}, RefuseEncoding},
		{"chunked twice", "POST", "/", []string{host, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"}, RefuseEncoding},
		{"gzip, chunked", "POST", "/", []string{host, "Transfer-Encoding: gzip, chunked"}, RefuseEncoding},
		{"chunked with a vertical tab", "POST", "/", []string{host, "Transfer-Encoding: \x0bchunked"}, RefuseFieldValue},
		{"another expectation", "POST", "/", []string{host, "Expect: 200-ok"}, RefuseExpectation},
		{"an upgrade with a body", "GET", "/", []string{host, "Connection: upgrade", "Upgrade: websocket", "Content-Length: 1"}, RefuseUpgradeBody},
		{"a body past the limit", "POST", "/", []string{host, "Content-Length: 1001"}, RefuseBodySize},
		{"too many fields", "GET", "/", append([]string{host}, strings.Split(strings.Repeat("A: b\n", 8), "\n")...), RefuseFieldCount},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := request(c.method, c.target, c.fields...)
			if got := CheckRequest(h, HTTP1, 1, &Limits{Fields: 8, BodyBytes: 1000}); got != c.want {
				t.Errorf("verdict %v, want %v", got, c.want)
			}
		})
	}
}

func TestTrailersDoNotStandForFieldsOfTheHead(t *testing.T) {
	h := &Head{}
	h.Reset(nil)
	for _, name := range []string{
		"X-Sum", "grpc-status", "X_Sum", "X-PQ", "x-pq-group", "X_PQ", "x-peer_identity", "X-Forwarded-For", "X-Forwarded-Port", "x_forwarded_port",
		"Sec-WebSocket-Key", "sec-websocket-accept", "Content-Length", "content_length", "Transfer-Encoding", "Authorization", "Host", "Early_Data",
		strings.Repeat("x", 100),
	} {
		h.AddString(name, "1")
	}
	if r := CheckTrailers(h, &Limits{}); r != nil {
		t.Fatal(r)
	}
	var kept []string
	for i := range h.Len() {
		if !h.Dropped(i) {
			kept = append(kept, string(h.Name(i)))
		}
	}
	if want := []string{"X-Sum", "grpc-status", "X_Sum", strings.Repeat("x", 100)}; !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
}

func TestHopByHopFieldsAreDropped(t *testing.T) {
	h := request("GET", "/", "Host: a", "Connection: close, X-Hop", "X-Hop: 1", "Keep-Alive: 5", "TE: trailers, gzip",
		"Proxy-Connection: x", "Upgrade: h2c", "HTTP2-Settings: AAA", "X-End: 2", "connection: x-other", "X-Other: 3")
	if r := CheckRequest(h, HTTP1, 1, &Limits{}); r != nil {
		t.Fatal(r)
	}
	var left []string
	for i := range h.Len() {
		if !h.Dropped(i) {
			left = append(left, string(h.Name(i)))
		}
	}
	if strings.Join(left, ",") != "X-End" || h.Live() != 1 {
		t.Errorf("left %v (live %d), want X-End alone", left, h.Live())
	}
	if !h.Close || !h.TETrailers || len(h.Protocol()) != 0 || string(h.Authority()) != "a" {
		t.Errorf("close %v, te trailers %v, protocol %q, authority %q", h.Close, h.TETrailers, h.Protocol(), h.Authority())
	}
}

func TestAnUpgradeToWebSocketIsSeen(t *testing.T) {
	h := request("GET", "/", "Host: a", "Connection: keep-alive, Upgrade", "Upgrade: WebSocket")
	if r := CheckRequest(h, HTTP1, 1, &Limits{}); r != nil || string(h.Protocol()) != "websocket" {
		t.Errorf("verdict %v, protocol %q", r, h.Protocol())
	}
}

func TestAResponseThatSwitchesUnaskedIsRefused(t *testing.T) {
	req := request("GET", "/")
	h := &Head{}
	h.Reset(nil)
	h.Status = 101
	h.AddString("Connection", "upgrade")
	h.AddString("Upgrade", "websocket")
	if r := CheckResponse(h, req, HTTP1, 1, &Limits{}); r != RefuseSwitch {
		t.Errorf("verdict %v, want %v", r, RefuseSwitch)
	}
}

func TestSetReplacesEveryFieldOfAName(t *testing.T) {
	h := request("GET", "/", "X-PQ: 0", "A: 1", "x-pq: 0")
	h.SetString(XPQ, "1")
	if got := string(h.Get(XPQ)); got != "1" || h.Live() != 2 {
		t.Errorf("X-PQ %q, %d live", got, h.Live())
	}
	if i := h.Find("a", 0); i < 0 || string(h.Value(i)) != "1" {
		t.Errorf("field A at %d", i)
	}
}

func TestCancelReachesTheCancellerOnce(t *testing.T) {
	var x Exchange
	calls := 0
	c := &Canceller{Cancel: func(error) { calls++ }}
	if err := x.OnCancel(c); err != nil {
		t.Fatal(err)
	}
	x.Cancel(ErrClientGone)
	x.Cancel(ErrClientGone)
	if calls != 1 || x.OffCancel(c) || !errors.Is(x.Cancelled(), ErrClientGone) {
		t.Errorf("%d calls, reason %v", calls, x.Cancelled())
	}
	if err := x.OnCancel(c); !errors.Is(err, ErrClientGone) {
		t.Errorf("a late canceller learned %v", err)
	}
	x.Reset(nil)
	if x.Cancelled() != nil || x.OnCancel(c) != nil || !x.OffCancel(c) {
		t.Error("a reset exchange is still cancelled")
	}
}

func BenchmarkCheckRequest(b *testing.B) {
	h := request("GET", "/v1/models", "Host: api.example", "Accept: */*", "User-Agent: bench/1", "Connection: keep-alive", "Authorization: Bearer x")
	saved := *h
	lim := &Limits{Fields: 128}
	b.ReportAllocs()
	for b.Loop() {
		fields := h.fields
		*h = saved
		h.fields = fields
		for i := range h.fields {
			h.fields[i].dropped = false
		}
		h.authority = span{}
		if CheckRequest(h, HTTP1, 1, lim) != nil {
			b.Fatal("refused")
		}
	}
}
