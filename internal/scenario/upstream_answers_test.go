package scenario

// Promise: whatever an upstream answers, a client gets one sound answer or one that
// is visibly cut, and nothing of it reaches the next request, the client's or another's.

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// poison is what must never be taken for an answer of its own.
const poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON"

const okay = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// badAnswer is what the upstream writes, and what the client is to see: a status and a body, or
// "cut" behind what came of it.
type badAnswer struct {
	name, method, raw string
	status            int
	body              string
}

// is tells whether the client saw what it was to see.
func (a *badAnswer) is(status int, body string) bool {
	switch {
	case status == 0: // QUIC lets a reset overtake the head; its client ends after a few 1xx itself
		return a.body == "cut"
	case a.status == 502: // the text is the gateway's
		return status == 502
	case a.status == 304: // Go's HTTP/2 client misses the body of which Content-Length tells
		return status == 304
	}
	return status == a.status && body == a.body
}

var badAnswers = []badAnswer{
	{"a plain answer", "GET", okay, 200, "ok"},
	{"another answer behind it", "GET", okay + poison, 200, "ok"},
	{"an answer behind one to HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 86\r\n\r\n" + poison, 200, ""},
	{"a body with 204", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 86\r\n\r\n" + poison, 204, ""},
	{"a body with 304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 86\r\n\r\n" + poison, 304, ""},
	{"a chunked body with 304", "GET", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + poison, 304, ""},
	{"interim answers, with fields of the connection", "GET", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: x-hop\r\nX-Hop: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 4) + okay, 200, "ok"},
	{"interim answers without end", "GET", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1000) + poison, 502, "cut"},
	{"a switch that nobody asked for", "GET", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + poison, 502, ""},
	{"a length and chunks", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + poison, 502, ""},
	{"two lengths", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok" + poison, 502, ""},
	{"a length that is none", "GET", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok" + poison, 502, ""},
	{"another transfer encoding", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok" + poison, 502, ""},
	{"bare LF", "GET", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok" + poison, 502, ""},
	{"a CR in a value", "GET", "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\nContent-Length: 2\r\n\r\nok" + poison, 502, ""},
	{"a NUL in a value", "GET", "HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 2\r\n\r\nok" + poison, 502, ""},
	{"a space before the colon", "GET", "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok" + poison, 502, ""},
	{"a folded field", "GET", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok" + poison, 502, ""},
	{"four digits of status", "GET", "HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok" + poison, 502, ""},
	{"status 099", "GET", "HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\nok" + poison, 502, ""},
	{"another protocol", "GET", "ICY 200 OK\r\nContent-Length: 2\r\n\r\nok" + poison, 502, ""},
	{"a head past the limit", "GET", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 200<<10) + "\r\n\r\n" + poison, 502, ""},
	{"fields past the limit", "GET", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: a\r\n", 5000) + "\r\n" + poison, 502, ""},
	{"a body that is short", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok", 200, "cut"},
	{"chunks without their end", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", 200, "cut"},
	{"a chunk that is longer than it says", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n" + poison, 200, "cut"},
	{"chunk extensions past the limit", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("a", 1000)+"\r\nb\r\n", 100) + "0\r\n\r\n" + poison, 200, "cut"},
	{"trailers past the limit", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: " + strings.Repeat("a", 200<<10) + "\r\n\r\n" + poison, 200, "cut"},
}

// rawUpstream answers /N by the Nth of badAnswers and closes, /next as it should.
func rawUpstream(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go answerRaw(c)
		}
	}()
	return ln.Addr().String()
}

func answerRaw(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		n, err := strconv.Atoi(req.URL.Path[1:])
		if err != nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nclean")
			continue
		}
		_, _ = io.WriteString(c, badAnswers[n].raw)
		if badAnswers[n].body == "cut" {
			return
		}
	}
}

func TestNothingOfABadAnswerReachesAnother(t *testing.T) {
	f := NewFront(t, FrontOptions{H3: true, Routes: fmt.Sprintf(`routes: [{to: raw}]
upstreams: {raw: {endpoints: ["http://%s"]}}`, rawUpstream(t))})
	for name, target := range targets(t, f) {
		for i := range badAnswers {
			a := &badAnswers[i]
			t.Run(name+": "+a.name, func(t *testing.T) {
				status, body := ask(t, target.client, a.method, target.url, strconv.Itoa(i))
				if !a.is(status, body) {
					t.Errorf("%d %.60q, want %d %q", status, body, a.status, a.body)
				}
				for range 3 {
					if status, body := ask(t, target.client, "GET", target.url, "next"); status != 200 || body != "clean" {
						t.Fatalf("the next request got %d %.60q", status, body)
					}
				}
			})
		}
	}
}

// ask gives the body as "cut" where it does not come to its end, and with status 0 where no
// head came.
func ask(t *testing.T, client *http.Client, method, url, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(url, "/")+"/"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	limited := *client
	limited.Timeout = 20 * time.Second
	resp, err := limited.Do(req)
	if err != nil {
		t.Log(err)
		return 0, "cut"
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, "cut"
	}
	return resp.StatusCode, string(b)
}
