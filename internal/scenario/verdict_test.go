package scenario

// One table of messages and verdicts, for every protocol: what is malformed or
// hostile is refused alike by whichever wire it comes, and nothing of it
// reaches the origin.

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// verdict is what became of a message.
type verdict struct {
	// Status of the answer; 0 where there was none.
	Status int
	// Closed: the connection takes no further request.
	Closed bool
}

func (v verdict) String() string { return fmt.Sprintf("status %d, closed %v", v.Status, v.Closed) }

// The verdicts that recur.
var (
	served  = verdict{Status: 200}
	refused = verdict{Status: 400, Closed: true}
)

// message is one request, as each protocol would write it.
type message struct {
	name string
	h1   string // raw bytes; "" where HTTP/1 cannot say it
	h2   []hpack.HeaderField
	body string // of h2
	// want is the verdict. On HTTP/2 the same answer comes, a malformed message's stream is
	// reset behind it (RFC 9113, section 8.1.1), and the connection goes on.
	want verdict
}

func fields(pairs ...string) (f []hpack.HeaderField) {
	for _, p := range pairs {
		i := strings.Index(p[1:], ": ") + 1
		f = append(f, hpack.HeaderField{Name: p[:i], Value: p[i+2:]})
	}
	return f
}

// get is a GET of HTTP/2 with further fields.
func get(more ...string) []hpack.HeaderField {
	return fields(append([]string{":method: GET", ":scheme: https", ":authority: a.example", ":path: /"}, more...)...)
}

// post is the same with POST.
func post(more ...string) []hpack.HeaderField {
	return fields(append([]string{":method: POST", ":scheme: https", ":authority: a.example", ":path: /"}, more...)...)
}

func repeated(n int, s string) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = s
	}
	return list
}

const host = "Host: a.example\r\n"

var messages = []message{
	{name: "a plain GET", h1: "GET / HTTP/1.1\r\n" + host + "\r\n", h2: get(), want: served},
	{name: "a POST with a body", h1: "POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc", h2: post("content-length: 3"), body: "abc", want: served},
	{name: "a chunked POST", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", want: served},
	{name: "an absolute target", h1: "GET http://a.example/ HTTP/1.1\r\n" + host + "\r\n", want: served},
	{name: "a host in capitals", h1: "GET / HTTP/1.1\r\nHost: A.EXAMPLE\r\n\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: A.EXAMPLE", ":path: /"), want: served},
	{name: "an offer of h2c is ignored", h1: "GET / HTTP/1.1\r\n" + host + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", want: served},

	// Line ends and the shape of lines.
	{name: "bare LF everywhere", h1: "GET / HTTP/1.1\nHost: a.example\n\n", want: refused},
	{name: "bare LF behind one field", h1: "GET / HTTP/1.1\r\n" + host + "X: a\nY: b\r\n\r\n", want: refused},
	{name: "bare LF at the end of the head", h1: "GET / HTTP/1.1\r\n" + host + "\n", want: refused},
	{name: "a folded field", h1: "GET / HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n", want: refused},
	{name: "a field folded with a tab", h1: "GET / HTTP/1.1\r\n" + host + "X: a\r\n\tb\r\n\r\n", want: refused},
	{name: "a line without a colon", h1: "GET / HTTP/1.1\r\n" + host + "X\r\n\r\n", want: refused},

	// The request line.
	{name: "two spaces behind the method", h1: "GET  / HTTP/1.1\r\n" + host + "\r\n", want: refused},
	{name: "two spaces before the version", h1: "GET /  HTTP/1.1\r\n" + host + "\r\n", want: refused},
	{name: "a tab for a space", h1: "GET\t/ HTTP/1.1\r\n" + host + "\r\n", want: refused},
	{name: "a leading space", h1: " GET / HTTP/1.1\r\n" + host + "\r\n", want: refused},
	{name: "no version", h1: "GET /\r\n" + host + "\r\n", want: refused},
	{name: "a version in small letters", h1: "GET / http/1.1\r\n" + host + "\r\n", want: refused},
	{name: "HTTP/1.2", h1: "GET / HTTP/1.2\r\n" + host + "\r\n", want: verdict{505, true}},
	{name: "two digits of a minor version", h1: "GET / HTTP/1.01\r\n" + host + "\r\n", want: refused},
	{name: "two empty lines before the request line", h1: "\r\n\r\nGET / HTTP/1.1\r\n" + host + "\r\n", want: refused},
	{name: "a LF before the request line", h1: "\nGET / HTTP/1.1\r\n" + host + "\r\n", want: refused},
	{name: "HTTP/3.0", h1: "GET / HTTP/3.0\r\n" + host + "\r\n", want: verdict{505, true}},
	{name: "a method that is no token", h1: "G@T / HTTP/1.1\r\n" + host + "\r\n", h2: fields(":method: G@T", ":scheme: https", ":authority: a.example", ":path: /"), want: refused},
	{name: "an empty method", h1: " / HTTP/1.1\r\n" + host + "\r\n", h2: fields(":method: ", ":scheme: https", ":authority: a.example", ":path: /"), want: refused},
	{name: "a control byte in the target", h1: "GET /\x01 HTTP/1.1\r\n" + host + "\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":path: /\x01"), want: refused},
	{name: "a space in the target", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":path: /a b"), want: refused},
	{name: "a fragment in the target", h1: "GET /#a HTTP/1.1\r\n" + host + "\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":path: /#a"), want: refused},
	{name: "a target that is no path", h1: "GET a HTTP/1.1\r\n" + host + "\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":path: a"), want: refused},
	{name: "GET *", h1: "GET * HTTP/1.1\r\n" + host + "\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":path: *"), want: refused},
	{name: "an empty path", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":path: "), want: refused},
	{name: "CONNECT to another host", h1: "CONNECT b.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n", h2: fields(":method: CONNECT", ":authority: b.example:443"), want: verdict{501, true}},

	// Field names and values.
	{name: "a space before the colon", h1: "GET / HTTP/1.1\r\n" + host + "X : a\r\n\r\n", h2: get("x : a"), want: refused},
	{name: "a tab before the colon", h1: "GET / HTTP/1.1\r\n" + host + "X\t: a\r\n\r\n", h2: get("x\t: a"), want: refused},
	{name: "an empty field name", h1: "GET / HTTP/1.1\r\n" + host + ": a\r\n\r\n", want: refused},
	{name: "a parenthesis in a name", h1: "GET / HTTP/1.1\r\n" + host + "X(: a\r\n\r\n", h2: get("x(: a"), want: refused},
	{name: "a name that is not ASCII", h1: "GET / HTTP/1.1\r\n" + host + "X\xe9: a\r\n\r\n", h2: get("x\xe9: a"), want: refused},
	{name: "a NUL in a value", h1: "GET / HTTP/1.1\r\n" + host + "X: a\x00b\r\n\r\n", h2: get("x: a\x00b"), want: refused},
	{name: "a CR in a value", h1: "GET / HTTP/1.1\r\n" + host + "X: a\rb\r\n\r\n", h2: get("x: a\rb"), want: refused},
	{name: "a LF in a value", h2: get("x: a\nb"), want: refused},
	{name: "CR LF and a field in a value", h2: get("x: a\r\nY: b"), want: refused},
	{name: "a DEL in a value", h1: "GET / HTTP/1.1\r\n" + host + "X: a\x7fb\r\n\r\n", h2: get("x: a\x7fb"), want: refused},
	{name: "a capital in a name", h2: get("X: a"), want: refused},

	// Hosts.
	{name: "no host", h1: "GET / HTTP/1.1\r\n\r\n", want: refused},
	{name: "two hosts", h1: "GET / HTTP/1.1\r\n" + host + host + "\r\n", h2: get("host: a.example", "host: a.example"), want: refused},
	{name: "two hosts that differ", h1: "GET / HTTP/1.1\r\n" + host + "Host: b.example\r\n\r\n", h2: get("host: b.example"), want: refused},
	{name: "a host with user information", h1: "GET / HTTP/1.1\r\nHost: u@a.example\r\n\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: u@a.example", ":path: /"), want: refused},
	{name: "a host with a path", h1: "GET / HTTP/1.1\r\nHost: a.example/x\r\n\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example/x", ":path: /"), want: refused},
	{name: "a host with a space", h1: "GET / HTTP/1.1\r\nHost: a example\r\n\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a example", ":path: /"), want: refused},
	{name: "a host with a port that is no number", h1: "GET / HTTP/1.1\r\nHost: a.example:x\r\n\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example:x", ":path: /"), want: refused},

	{name: "a host with two ports", h1: "GET / HTTP/1.1\r\nHost: a.example:1:2\r\n\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example:1:2", ":path: /"), want: refused},
	{name: "a host with user information behind a port", h1: "GET / HTTP/1.1\r\nHost: a.example:80@b\r\n\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example:80@b", ":path: /"), want: refused},
	{name: "a host with a query", h1: "GET / HTTP/1.1\r\nHost: a.example?b\r\n\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example?b", ":path: /"), want: refused},
	{name: "a host with a backslash", h1: "GET / HTTP/1.1\r\nHost: a.example\\b\r\n\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example\\b", ":path: /"), want: refused},
	{name: "an IPv6 host that does not end", h1: "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: [::1", ":path: /"), want: refused},
	{name: "text behind an IPv6 host", h1: "GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: [::1]a", ":path: /"), want: refused},
	{name: "an absolute target with user information", h1: "GET http://u@a.example/ HTTP/1.1\r\n" + host + "\r\n", want: refused},
	{name: "an absolute target without a host", h1: "GET http:///a HTTP/1.1\r\n" + host + "\r\n", want: refused},
	{name: "an absolute target with a fragment", h1: "GET http://a.example#b HTTP/1.1\r\n" + host + "\r\n", want: refused},
	{name: "an absolute target of another scheme", h1: "GET ftp://a.example/ HTTP/1.1\r\n" + host + "\r\n", want: refused},
	{name: "an absolute target and no host", h1: "GET http://a.example/ HTTP/1.1\r\n\r\n", want: refused},
	{name: "an absolute target and a host that is none", h1: "GET http://a.example/ HTTP/1.1\r\nHost: b@c\r\n\r\n", want: refused},
	{name: "an absolute target that overrules the host", h1: "GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n", want: served},

	// Paths that upstreams read in another way.
	{name: "a segment of dots", h1: "GET /a/../b HTTP/1.1\r\n" + host + "\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":path: /a/../b"), want: verdict{Status: 400}},
	{name: "an encoded segment of dots", h1: "GET /a/%2e%2E/b HTTP/1.1\r\n" + host + "\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":path: /a/%2e%2E/b"), want: verdict{Status: 400}},
	{name: "dots before an encoded slash", h1: "GET /a/..%2fb HTTP/1.1\r\n" + host + "\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":path: /a/..%2fb"), want: verdict{Status: 400}},
	{name: "dots between encoded backslashes", h1: "GET /a%5c..%5Cb HTTP/1.1\r\n" + host + "\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":path: /a%5c..%5Cb"), want: verdict{Status: 400}},
	{name: "dots before an encoded semicolon", h1: "GET /a/..%3bc/b HTTP/1.1\r\n" + host + "\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":path: /a/..%3bc/b"), want: verdict{Status: 400}},

	// Framing.
	{name: "length and chunked", h1: "POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", want: refused},
	{name: "chunked and length", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", want: refused},
	{name: "unequal lengths", h1: "POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", h2: post("content-length: 3", "content-length: 4"), body: "abc", want: refused},
	{name: "a list of lengths", h1: "POST / HTTP/1.1\r\n" + host + "Content-Length: 3, 3\r\n\r\nabc", h2: post("content-length: 3, 3"), body: "abc", want: refused},
	{name: "a negative length", h1: "POST / HTTP/1.1\r\n" + host + "Content-Length: -3\r\n\r\nabc", h2: post("content-length: -3"), body: "abc", want: refused},
	{name: "a length with a sign", h1: "POST / HTTP/1.1\r\n" + host + "Content-Length: +3\r\n\r\nabc", h2: post("content-length: +3"), body: "abc", want: refused},
	{name: "a hexadecimal length", h1: "POST / HTTP/1.1\r\n" + host + "Content-Length: 0x3\r\n\r\nabc", h2: post("content-length: 0x3"), body: "abc", want: refused},
	{name: "a length past 64 bits", h1: "POST / HTTP/1.1\r\n" + host + "Content-Length: 18446744073709551619\r\n\r\nabc", h2: post("content-length: 18446744073709551619"), body: "abc", want: refused},
	{name: "a length with an underscore", h1: "POST / HTTP/1.1\r\n" + host + "Content-Length: 1_0\r\n\r\nabc", h2: post("content-length: 1_0"), body: "abc", want: refused},
	{name: "an empty transfer encoding and a length", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: \r\nContent-Length: 3\r\n\r\nabc", want: refused},
	{name: "a comma before chunked", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n", want: refused},
	{name: "chunked with a parameter", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", want: refused},
	{name: "chunked named by Connection", h1: "POST / HTTP/1.1\r\n" + host + "Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", want: served},
	{name: "a length named by Connection", h1: "POST / HTTP/1.1\r\n" + host + "Connection: content-length\r\nContent-Length: 3\r\n\r\nabc", want: served},
	{name: "an empty length", h1: "POST / HTTP/1.1\r\n" + host + "Content-Length: \r\n\r\n", h2: post("content-length: "), want: refused},
	{name: "a body longer than its length", h2: post("content-length: 3"), body: "abcd", want: refused},
	{name: "a body shorter than its length", h2: post("content-length: 4"), body: "abc", want: refused},
	{name: "gzip as transfer encoding", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n", want: refused},
	{name: "gzip, chunked", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", want: refused},
	{name: "chunked, chunked", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", want: refused},
	{name: "chunked twice", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", want: refused},
	{name: "identity", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: identity\r\n\r\n", want: refused},
	{name: "chunked in quotes", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", want: refused},
	{name: "chunked behind a vertical tab", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", want: refused},
	{name: "chunked on HTTP/1.0", h1: "POST / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", want: refused},
	{name: "transfer encoding on HTTP/2", h2: post("transfer-encoding: chunked"), want: refused},
	{name: "a connection field on HTTP/2", h2: get("connection: close"), want: refused},
	{name: "an upgrade field on HTTP/2", h2: get("upgrade: websocket"), want: refused},
	{name: "TE other than trailers on HTTP/2", h2: get("te: gzip"), want: refused},
	{name: "a pseudo-header field behind a field", h2: fields(":method: GET", ":scheme: https", ":path: /", "x: a", ":authority: a.example"), want: refused},
	{name: "an unknown pseudo-header field", h2: get(":x: a"), want: refused},
	{name: "no scheme on HTTP/2", h2: fields(":method: GET", ":authority: a.example", ":path: /"), want: refused},
	{name: "an empty scheme on HTTP/2", h2: fields(":method: GET", ":scheme: ", ":authority: a.example", ":path: /"), want: refused},
	{name: "a scheme that is none on HTTP/2", h2: fields(":method: GET", ":scheme: ht tp", ":authority: a.example", ":path: /"), want: refused},
	{name: "a scheme with a host in it on HTTP/2", h2: fields(":method: GET", ":scheme: https://b.example/?", ":authority: a.example", ":path: /"), want: refused},
	{name: "two schemes", h2: fields(":method: GET", ":scheme: https", ":scheme: http", ":authority: a.example", ":path: /"), want: refused},
	{name: "two methods", h2: fields(":method: GET", ":method: POST", ":scheme: https", ":authority: a.example", ":path: /"), want: refused},
	{name: "two authorities", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":authority: b.example", ":path: /"), want: refused},
	{name: "a status in a request", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":path: /", ":status: 200"), want: refused},
	{name: "a host in place of the authority", h2: fields(":method: GET", ":scheme: https", ":path: /", "host: a.example"), want: served},
	{name: "a protocol without CONNECT", h2: fields(":method: GET", ":protocol: websocket", ":scheme: https", ":authority: a.example", ":path: /"), want: refused},
	{name: "an absolute path on HTTP/2", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":path: http://b.example/"), want: refused},
	{name: "a keep-alive field on HTTP/2", h2: get("keep-alive: 5"), want: refused},
	{name: "a proxy-connection field on HTTP/2", h2: get("proxy-connection: close"), want: refused},
	{name: "no method", h2: fields(":scheme: https", ":authority: a.example", ":path: /"), want: refused},
	{name: "two paths", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":path: /", ":path: /b"), want: refused},

	// Expectations, upgrades, limits.
	{name: "an unknown expectation", h1: "POST / HTTP/1.1\r\n" + host + "Expect: 200-ok\r\nContent-Length: 0\r\n\r\n", h2: post("expect: 200-ok"), want: verdict{417, true}},
	{name: "an upgrade with a body", h1: "GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\nabc", want: refused},
	{name: "extended CONNECT to another protocol", h2: fields(":method: CONNECT", ":protocol: connect-udp", ":scheme: https", ":authority: a.example", ":path: /"), want: verdict{Status: 501}},
	{name: "a head past its limit", h1: "GET / HTTP/1.1\r\n" + host + "X: " + strings.Repeat("a", 40<<10) + "\r\n\r\n", h2: get("x: " + strings.Repeat("a", 40<<10)), want: verdict{431, true}},
	{name: "a head that expands past its limit", h1: "GET / HTTP/1.1\r\n" + host + strings.Repeat("X: "+strings.Repeat("a", 3000)+"\r\n", 100) + "\r\n", h2: get(repeated(100, "x: "+strings.Repeat("a", 3000))...), want: verdict{431, true}},
	{name: "a target past the limit on heads", h1: "GET /" + strings.Repeat("a", 40<<10) + " HTTP/1.1\r\n" + host + "\r\n", h2: fields(":method: GET", ":scheme: https", ":authority: a.example", ":path: /"+strings.Repeat("a", 40<<10)), want: verdict{431, true}},
	{name: "too many fields", h1: "GET / HTTP/1.1\r\n" + host + strings.Repeat("X: a\r\n", 140) + "\r\n", h2: get(strings.Split(strings.TrimSuffix(strings.Repeat("x: a\n", 140), "\n"), "\n")...), want: verdict{431, true}},
	{name: "a body past its limit by its length", h1: "POST / HTTP/1.1\r\n" + host + "Content-Length: 5000\r\n\r\n" + strings.Repeat("a", 5000), h2: post("content-length: 5000"), body: strings.Repeat("a", 5000), want: verdict{413, true}},

	// Chunks: the head is good, so the origin may have seen it; no whole request reaches it.
	{name: "a chunk ended by LF", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", want: refused},
	{name: "LF in a chunk extension", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3;a\nb\r\nabc\r\n0\r\n\r\n", want: refused},
	{name: "CR in a chunk extension", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3;a\rb\r\nabc\r\n0\r\n\r\n", want: refused},
	{name: "a space in a chunk size", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n", want: refused},
	{name: "0x before a chunk size", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n", want: refused},
	{name: "a negative chunk size", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n", want: refused},
	{name: "a chunk size past 64 bits", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n", want: refused},
	{name: "data longer than its chunk", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", want: refused},
	{name: "chunk extensions past their limit", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("a", 100)+"\r\nb\r\n", 50) + "0\r\n\r\n", want: refused},
	{name: "a chunk without a size", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n;a\r\nabc\r\n0\r\n\r\n", want: refused},
	{name: "a chunk size of many zeros", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("0", 400) + "3\r\nabc\r\n0\r\n\r\n", want: refused},
	{name: "two CRs behind a chunk size", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\r\nabc\r\n0\r\n\r\n", want: refused},
	{name: "chunk data ended by LF", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\n0\r\n\r\n", want: refused},
	{name: "a chunked body ended by LF", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\n", want: refused},
	{name: "a folded trailer", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: a\r\n b\r\n\r\n", want: refused},
	{name: "trailers past the limit on heads", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + strings.Repeat("a", 40<<10) + "\r\n\r\n", want: verdict{431, true}},
	{name: "too many trailers", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: a\r\n", 140) + "\r\n", want: verdict{431, true}},
	{name: "a bad trailer", h1: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\nX : a\r\n\r\n", want: refused},
}

// wire is a way to bring a message.
type wire struct {
	name string
	send func(t *testing.T, m *message) (verdict, bool) // false where it cannot say it
}

func TestTheSameMessageGetsTheSameVerdictOnEveryProtocol(t *testing.T) {
	var whole atomic.Int64 // requests that reached the origin to their last byte
	origin := NewOrigin(t, false, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			whole.Add(1)
		}
	}))
	for _, engine := range []string{"auto", "portable"} {
		t.Run(engine, func(t *testing.T) { testVerdicts(t, origin, &whole, engine) })
	}
}

func testVerdicts(t *testing.T, origin *Origin, whole *atomic.Int64, engine string) {
	ca := NewCA(t)
	leaf := ca.Leaf(t, "a.example", "127.0.0.1")
	clear, secure, zap := FreeAddr(t), FreeAddr(t), FreeAddr(t)
	Run(t, fmt.Sprintf(`
version: 1
tls: {t: {certificates: {files: {cert: %s, key: %s}}}}
listeners:
  - {name: clear, address: %q, protocols: [h1, h2c], engine: %s}
  - {name: secure, address: %q, protocols: [h1, h2, h3, zap], tls: t, engine: %[4]s}
  - {name: zap, address: %[7]q, protocols: [zap], engine: %[4]s}
routes: [{match: {host: a.example}, to: o}]
upstreams: {o: {endpoints: [%[6]q]}}
limits: {body_bytes: 4KiB}
`, leaf.CertFile, leaf.KeyFile, clear, engine, secure, origin.URL, zap))
	config := func(proto string) *tls.Config {
		return &tls.Config{RootCAs: ca.Pool(), ServerName: "a.example", NextProtos: []string{proto}}
	}
	dialTLS := func(proto string) func(*testing.T) net.Conn {
		return func(t *testing.T) net.Conn {
			c, err := tls.Dial("tcp", secure, config(proto))
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
	}
	dialClear := func(t *testing.T) net.Conn {
		c, err := net.Dial("tcp", clear)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, w := range []wire{
		{"h1 in the clear", overHTTP1(dialClear)},
		{"h1 over TLS", overHTTP1(dialTLS("http/1.1"))},
		{"h2 over TLS", overHTTP2(dialTLS("h2"))},
		{"h2 in the clear", overHTTP2(dialClear)},
		{"h3", overHTTP3(secure, config("h3"))},
		{"zap over TLS", overZAP(dialTLS("zap-http/1"))},
		{"zap in the clear", overZAP(func(t *testing.T) net.Conn {
			c, err := net.Dial("tcp", zap)
			if err != nil {
				t.Fatal(err)
			}
			return c
		})},
	} {
		t.Run(w.name, func(t *testing.T) {
			for i := range messages {
				judge(t, w, &messages[i], whole)
			}
		})
	}
}

func judge(t *testing.T, w wire, m *message, whole *atomic.Int64) {
	t.Run(m.name, func(t *testing.T) {
		before := whole.Load()
		got, said := w.send(t, m)
		if !said {
			return
		}
		want := m.want
		if !strings.HasPrefix(w.name, "h1") {
			want.Closed = false
		}
		if got != want {
			t.Errorf("%v, want %v", got, want)
		}
		if n := whole.Load() - before; (n == 1) != (want.Status == 200) || n > 1 {
			t.Errorf("%d requests reached the origin", n)
		}
	})
}

// overHTTP1 sends the raw bytes and looks whether a further request is served.
func overHTTP1(dial func(*testing.T) net.Conn) func(*testing.T, *message) (verdict, bool) {
	return func(t *testing.T, m *message) (verdict, bool) {
		if m.h1 == "" {
			return verdict{}, false
		}
		c := dial(t)
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c, m.h1)
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return verdict{Closed: true}, true
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_, _ = io.WriteString(c, "GET /next HTTP/1.1\r\nHost: b.example\r\n\r\n")
		_, err = http.ReadResponse(r, nil)
		return verdict{Status: resp.StatusCode, Closed: err != nil}, true
	}
}

// overHTTP2 sends frames of its own making, and looks whether a PING is answered.
func overHTTP2(dial func(*testing.T) net.Conn) func(*testing.T, *message) (verdict, bool) {
	return func(t *testing.T, m *message) (verdict, bool) {
		if m.h2 == nil {
			return verdict{}, false
		}
		c := dial(t)
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c, http2.ClientPreface)
		fr := http2.NewFramer(c, c)
		fr.AllowIllegalWrites = true
		fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		_ = fr.WriteSettings()
		writeHead(fr, m)
		if m.body != "" {
			_ = fr.WriteData(1, true, []byte(m.body))
		}
		_ = fr.WritePing(false, [8]byte{1})
		return readVerdict(t, fr), true
	}
}

func writeHead(fr *http2.Framer, m *message) {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for _, f := range m.h2 {
		_ = enc.WriteField(f)
	}
	block := b.Bytes()
	first := min(len(block), 16384)
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:first], EndStream: m.body == "", EndHeaders: first == len(block)})
	for block = block[first:]; len(block) > 0; {
		n := min(len(block), 16384)
		_ = fr.WriteContinuation(1, n == len(block), block[:n])
		block = block[n:]
	}
}

// readVerdict reads until both the stream has ended and the PING is answered, or the
// connection ends.
func readVerdict(t *testing.T, fr *http2.Framer) (v verdict) {
	ended, ponged := false, false
	for !ended || !ponged {
		f, err := fr.ReadFrame()
		if err != nil {
			var se http2.StreamError
			if errors.As(err, &se) {
				t.Fatal(err)
			}
			v.Closed = true
			return v
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				if h.Name == ":status" {
					_, _ = fmt.Sscan(h.Value, &v.Status)
				}
			}
			ended = ended || f.StreamEnded()
		case *http2.DataFrame:
			ended = ended || f.StreamEnded()
		case *http2.RSTStreamFrame:
			ended = true
		case *http2.PingFrame:
			ponged = f.IsAck()
		case *http2.GoAwayFrame:
			v.Closed = true
		}
	}
	return v
}
