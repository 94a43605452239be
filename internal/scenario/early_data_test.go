package scenario

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quic-go/quic-go/http3"
)

// The promise: with `early_data: safe` a client that comes again is served before its
// handshake has ended, the service is told so and may say 425, and what an
// eavesdropper sends a second time is served to nobody. Without, nothing is early.

// earlyFront is a front whose HTTP/3 clients come by a path that can be held up, and an
// origin that refuses early requests for /late.
type earlyFront struct {
	*Front
	path *udpPath
	tls  *tls.Config

	mu   sync.Mutex
	seen []string // target and Early-Data of each request
}

func newEarlyFront(t *testing.T, option string) *earlyFront {
	t.Helper()
	e := &earlyFront{}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.seen = append(e.seen, r.Method+" "+r.RequestURI+" "+r.Header.Get("Early-Data"))
		e.mu.Unlock()
		if r.URL.Path == "/late" && r.Header.Get("Early-Data") == "1" {
			w.WriteHeader(http.StatusTooEarly)
		}
	}))
	t.Cleanup(origin.Close)
	ca := NewCA(t)
	e.Front = &Front{CA: ca, Leaf: ca.Leaf(t, "localhost", "127.0.0.1"), Addr: FreeAddr(t), Plain: FreeAddr(t)}
	e.Front.Gateway = Run(t, strings.Replace(e.Config(FrontOptions{H3: true, Routes: To(origin.URL)}), "tls: public,", "tls: public, "+option+",", 1))
	e.path = newUDPPath(t, e.Addr)
	return e
}

// get makes a request on a connection of its own, as early data where method says so.
func (e *earlyFront) get(t *testing.T, method, target string) (int, error) {
	t.Helper()
	tr := &http3.Transport{TLSClientConfig: e.tls.Clone()}
	defer func() { _ = tr.Close() }()
	return roundTrip(t, tr, method, "https://"+e.path.addr+target)
}

func roundTrip(t *testing.T, tr http.RoundTripper, method, url string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

// ticket makes a connection that gets one, which is the only one that get has from
// here on: each is good for early data once.
func (e *earlyFront) ticket(t *testing.T) {
	t.Helper()
	cache := &ticketCache{ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	e.tls = &tls.Config{RootCAs: e.CA.Pool(), ServerName: "localhost", ClientSessionCache: cache}
	tr := &http3.Transport{TLSClientConfig: e.tls.Clone()}
	defer func() { _ = tr.Close() }()
	if status, err := roundTrip(t, tr, http.MethodGet, "https://"+e.path.addr+"/ticket"); err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}
	Await(t, "a session ticket", func() bool { return cache.put.Load() > 0 })
}

// asked are the requests for a target, as the origin saw them.
func (e *earlyFront) asked(target string) (seen []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.seen {
		if strings.Contains(s, " "+target+" ") {
			seen = append(seen, s)
		}
	}
	return seen
}

func TestEarlyDataIsServedAndToldOf(t *testing.T) {
	e := newEarlyFront(t, "early_data: safe")
	for target, want := range map[string]int{"/x": http.StatusOK, "/late": http.StatusTooEarly} {
		e.ticket(t)
		e.path.hold() // the handshake cannot end
		answer := make(chan int, 1)
		go func() {
			status, err := e.get(t, http3.MethodGet0RTT, target)
			if err != nil {
				t.Error(err)
			}
			answer <- status
		}()
		Await(t, "the early request at the origin", func() bool { return len(e.asked(target)) > 0 })
		e.path.release()
		if got := <-answer; got != want {
			t.Errorf("%s: %d, want %d", target, got, want)
		}
		if seen := strings.Join(e.asked(target), ", "); seen != "GET "+target+" 1" {
			t.Errorf("the origin saw %s, want it once, with Early-Data: 1", seen)
		}
	}
	e.ticket(t)
	// What the client sends again after its handshake is as good as any.
	if status, err := e.get(t, http.MethodGet, "/late"); err != nil || status != http.StatusOK {
		t.Errorf("after the handshake: %d, %v", status, err)
	}
}

func TestEarlyDataThatIsReplayedReachesNobody(t *testing.T) {
	e := newEarlyFront(t, "early_data: safe")
	e.ticket(t)
	e.path.record.Store(true)
	if status, err := e.get(t, http3.MethodGet0RTT, "/once"); err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}
	e.path.record.Store(false)
	if seen := e.asked("/once"); len(seen) != 1 {
		t.Fatalf("the origin saw %v", seen)
	}
	before := e.accepted(t)
	// For some seconds what belongs to a closed connection is not looked at.
	Await(t, "the replay to be taken for a new connection", func() bool {
		e.path.replay(t)
		return e.accepted(t) > before
	})
	e.ticket(t) // a connection behind it
	if seen := e.asked("/once"); len(seen) != 1 {
		t.Errorf("the origin saw %v, want one", seen)
	}
}

func TestNothingIsEarlyUnlessAskedFor(t *testing.T) {
	e := newEarlyFront(t, "early_data: off")
	e.ticket(t)
	if status, err := e.get(t, http3.MethodGet0RTT, "/x"); err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}
	if seen := strings.Join(e.asked("/x"), ", "); seen != "GET /x " {
		t.Errorf("the origin saw %q, want no Early-Data", seen)
	}
}

// accepted is how many connections the listener has had.
func (e *earlyFront) accepted(t *testing.T) (n int) {
	t.Helper()
	_, metrics := e.Admin(t, http.MethodGet, "/metrics")
	for line := range strings.Lines(metrics) {
		if count, ok := strings.CutPrefix(line, `pqgw_connections_accepted_total{listener="edge"} `); ok {
			if _, err := fmt.Sscan(count, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no count of connections among the metrics")
	return 0
}

// ticketCache counts the tickets that come.
type ticketCache struct {
	tls.ClientSessionCache
	put atomic.Int64
}

func (c *ticketCache) Put(key string, s *tls.ClientSessionState) {
	c.ClientSessionCache.Put(key, s)
	if s != nil {
		c.put.Add(1)
	}
}
