package scenario

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Seen is what an origin saw of one request.
type Seen struct {
	Method, Target, Host, Proto string
	Header, Trailer             http.Header
	Bytes                       int64
	SHA256                      string // of the body, in hex
}

// Origin is an HTTP server of Go's own behind the gateway that records what
// arrives.
type Origin struct {
	// URL is its scheme and address; Addr the address alone.
	URL, Addr string

	mu   sync.Mutex
	seen []Seen
}

// NewOrigin starts an origin that speaks HTTP/1.1 and, if h2c, HTTP/2 in the
// clear, until the end of the test. A nil handler is Echo.
func NewOrigin(t testing.TB, h2c bool, handler http.Handler) *Origin {
	t.Helper()
	o := new(Origin)
	if handler == nil {
		handler = http.HandlerFunc(o.Echo)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(h2c)
	server.Start()
	t.Cleanup(server.Close)
	o.URL, o.Addr = server.URL, server.Listener.Addr().String()
	return o
}

// Echo reads the whole request, records it, and answers with it as JSON.
func (o *Origin) Echo(w http.ResponseWriter, r *http.Request) {
	seen := o.Record(r)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(seen)
}

// Record reads the whole request and remembers it.
func (o *Origin) Record(r *http.Request) Seen {
	sum := sha256.New()
	n, _ := io.Copy(sum, r.Body)
	seen := Seen{
		Method: r.Method, Target: r.RequestURI, Host: r.Host, Proto: r.Proto,
		Header: r.Header.Clone(), Trailer: r.Trailer.Clone(),
		Bytes: n, SHA256: hex.EncodeToString(sum.Sum(nil)),
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, seen)
	return seen
}

// Requests are all that have arrived.
func (o *Origin) Requests() []Seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]Seen(nil), o.seen...)
}

// Last is the request that arrived last.
func (o *Origin) Last(t testing.TB) Seen {
	t.Helper()
	seen := o.Requests()
	if len(seen) == 0 {
		t.Fatal("no request has arrived at the origin")
	}
	return seen[len(seen)-1]
}
