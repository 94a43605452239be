package transports

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	qhttp3 "github.com/quic-go/quic-go/http3"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
)

// served counts what the handler was asked for, early or not.
type served struct {
	mu          sync.Mutex
	early, full int
}

func (s *served) Serve(x *exchange.Exchange) {
	s.mu.Lock()
	if x.Refusal == nil && x.Conn.Facts.EarlyData {
		s.early++
	} else if x.Refusal == nil {
		s.full++
	}
	s.mu.Unlock()
	if r := x.Refusal; r != nil {
		answer(x, r.Status, r.Reason)
		return
	}
	text := "full"
	if x.Conn.Facts.EarlyData {
		text = "early"
		if !x.Conn.Facts.Resumed || !x.Conn.Facts.PQ() || x.Conn.Facts.SNI != "localhost" {
			text = "without facts"
		}
	}
	answer(x, 200, text)
}

func (s *served) counts() (int, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.early, s.full
}

func earlyRig(t *testing.T, early bool) (*rig, *served) {
	s := new(served)
	return newRig(t, handshake.Prefer, s.Serve, func(set *Settings) {
		set.QUIC.EarlyData, set.HandshakeTimeout = early, time.Second
	}), s
}

// prime makes a connection that gets a ticket.
func prime(t *testing.T, r *rig, addr string) {
	t.Helper()
	tr := r.client(t, addr)
	fetch(t, tr, http.MethodGet)
	eventually(t, "a ticket", func() bool {
		_, ok := r.tls.ClientSessionCache.Get("localhost")
		return ok
	})
	_ = tr.Close()
	eventually(t, "the connection's end", func() bool { return r.metrics.Listeners.Series("edge").Open() == 0 })
}

// earlyMethod asks quic-go's client to send the request as early data.
func earlyMethod(m string) string {
	switch m {
	case http.MethodGet:
		return qhttp3.MethodGet0RTT
	case http.MethodHead:
		return qhttp3.MethodHead0RTT
	}
	return m
}

// held keeps what the server sends back for a while, so that the handshake
// cannot end before the early request has been served.
func held(t *testing.T, to string) *relay {
	return newRelay(t, to, nil, func(_ int, p []byte) [][]byte {
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // the length of the path
		return [][]byte{p}
	})
}

func TestEarlyDataIsServedWhereItIsSafe(t *testing.T) {
	r, s := earlyRig(t, true)
	rl := held(t, r.UDPAddr().String())
	prime(t, r, rl.addr())
	if _, body := fetch(t, r.client(t, rl.addr()), earlyMethod(http.MethodGet)); body != "early" {
		t.Errorf("%q", body)
	}
	if early, full := s.counts(); early != 1 || full != 1 {
		t.Errorf("%d early, %d not", early, full)
	}
}

func TestEarlyDataIsOffUnlessAskedFor(t *testing.T) {
	r, s := earlyRig(t, false)
	rl := held(t, r.UDPAddr().String())
	prime(t, r, rl.addr())
	_, _, _ = try(t, r.client(t, rl.addr()), earlyMethod(http.MethodGet))
	if early, _ := s.counts(); early != 0 {
		t.Errorf("%d served early", early)
	}
}

func TestUnsafeMethodsAreTooEarly(t *testing.T) {
	r, s := earlyRig(t, true)
	rl := held(t, r.UDPAddr().String())
	prime(t, r, rl.addr())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	qc, err := quic.DialAddrEarly(ctx, rl.addr(), r.tls, nil)
	if err != nil {
		t.Fatal(err)
	}
	cc := (&qhttp3.Transport{}).NewClientConn(qc)
	str, err := cc.OpenRequestStream(ctx) // before the handshake's end
	if err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://localhost/", http.NoBody)
	if err := str.SendRequestHeader(req); err != nil {
		t.Fatal(err)
	}
	_ = str.Close()
	res, err := str.ReadResponse()
	if err != nil {
		t.Fatal(err)
	}
	if !qc.ConnectionState().Used0RTT {
		t.Error("no early data: nothing was tested")
	}
	if res.StatusCode != http.StatusTooEarly {
		t.Error(res.StatusCode)
	}
	_ = qc.CloseWithError(0x100, "")
	if early, _ := s.counts(); early != 0 {
		t.Errorf("%d unsafe requests served early", early)
	}
}

// TestAReplayedFlightIsServedOnce records all that a client sends with 0-RTT and
// sends it again, from elsewhere and after the connection is gone.
func TestAReplayedFlightIsServedOnce(t *testing.T) {
	r, s := earlyRig(t, true)
	var mu sync.Mutex
	var flight [][]byte
	record := false
	rl := newRelay(t, r.UDPAddr().String(), func(_ int, p []byte) [][]byte {
		mu.Lock()
		defer mu.Unlock()
		if record && p[0]&0x80 != 0 { // long header: Initial and 0-RTT
			flight = append(flight, append([]byte(nil), p...))
		}
		return [][]byte{p}
	}, func(_ int, p []byte) [][]byte {
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // the length of the path
		return [][]byte{p}
	})
	prime(t, r, rl.addr())
	mu.Lock()
	record = true
	mu.Unlock()
	tr := r.client(t, rl.addr())
	if _, body := fetch(t, tr, earlyMethod(http.MethodGet)); body != "early" {
		t.Fatalf("%q: nothing was tested", body)
	}
	_ = tr.Close()
	eventually(t, "the connection's end", func() bool { return r.metrics.Listeners.Series("edge").Open() == 0 })
	mu.Lock()
	record = false
	mu.Unlock()
	before := r.metrics.Listeners.Series("edge").Accepted()
	deadlineOfReplay := time.Now().Add(20 * time.Second)
	// quic-go remembers a closed connection for a while, and would not look at it again.
	for r.metrics.Listeners.Series("edge").Accepted() == before {
		if time.Now().After(deadlineOfReplay) {
			t.Fatal("the replay was never taken for a new connection")
		}
		replay(t, flight, r.UDPAddr())
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // between two attempts
	}
	eventually(t, "the end of the replayed connection", func() bool {
		early, _ := s.counts()
		return early > 1 || r.metrics.Listeners.Series("edge").Open() == 0
	})
	if early, _ := s.counts(); early != 1 {
		t.Errorf("served %d times", early)
	}
}

func replay(t *testing.T, flight [][]byte, to net.Addr) {
	t.Helper()
	c := loopback(t)
	defer c.Close()
	for _, p := range flight {
		if _, err := c.WriteTo(p, to); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheGuardRefusesWhatItCannotTell(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	g := newEarlyGuard(func() time.Time { return now })
	given := now
	steps := []struct {
		name   string
		pass   time.Duration
		ticket string
		given  time.Time
		want   bool
	}{
		{"a fresh ticket", 0, "a", given, true},
		{"the same again", 0, "a", given, false},
		{"another", 0, "b", given, true},
		{"one of before our time", 0, "c", given.Add(-time.Second), false},
		{"one without a time", 0, "d", time.Time{}, false},
		{"the same, just before it gets too old", earlyWindow, "a", given, false},
		{"one that has become too old", time.Second, "e", given, false},
		{"a new one", 0, "f", given.Add(earlyWindow), true},
		{"the same a generation later", earlyWindow - time.Second, "f", given.Add(earlyWindow), false},
	}
	for _, s := range steps {
		now = now.Add(s.pass)
		if got := g.first([]byte(s.ticket), s.given); got != s.want {
			t.Errorf("%s: %v", s.name, got)
		}
	}
	for i := range earlyTickets + 1 {
		if !g.first([]byte{byte(i), byte(i >> 8), byte(i >> 16)}, now) {
			return
		}
	}
	t.Error("the memory has no end")
}
