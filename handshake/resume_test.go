package handshake

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// clock is a time that tests move.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Now().Truncate(TicketPeriod).Add(TicketPeriod / 2).Unix())
	return c
}

func (c *clock) now() time.Time            { return time.Unix(c.at.Load(), 0) }
func (c *clock) forward(d time.Duration)   { c.at.Add(int64(d / time.Second)) }
func root(fill byte) []byte                { return append(make([]byte, 31), fill) }
func resumes(t *testing.T, o outcome) bool { t.Helper(); mustBoth(t, o); return o.server.Resumed }
func session(roots *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: roots, ServerName: "example.com", ClientSessionCache: tls.NewLRUClientSessionCache(4)}
}

func mustBoth(t *testing.T, o outcome) {
	t.Helper()
	if err := errors.Join(o.serverErr, o.clientErr); err != nil {
		t.Fatal(err)
	}
	if o.server.Resumed != o.client.Resumed {
		t.Fatalf("one side resumed: server %+v, client %+v", o.server, o.client)
	}
}

func TestAResumedSessionKeepsAPostQuantumKeyExchange(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	srv := newServer(t, Settings{Sources: []Source{src}})
	client := session(roots)
	if resumes(t, shake(t, srv, client)) {
		t.Fatal("the first resumed")
	}
	o := shake(t, srv, client)
	if !resumes(t, o) || !o.server.PQ() || !o.client.PQ() {
		t.Errorf("server %+v, client %+v", o.server, o.client)
	}
}

func TestTicketsOutliveAReloadOfTheSameSettings(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	client := session(roots)
	mustBoth(t, shake(t, newServer(t, Settings{Sources: []Source{src}}), client))
	if !resumes(t, shake(t, newServer(t, Settings{Sources: []Source{src}}), client)) {
		t.Error("a new server of the process did not resume")
	}
}

func TestNoTicketsAreGivenWhenTheyAreOff(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	srv := newServer(t, Settings{Sources: []Source{src}, Tickets: Tickets{Off: true}})
	client := session(roots)
	mustBoth(t, shake(t, srv, client))
	if resumes(t, shake(t, srv, client)) {
		t.Error("resumed")
	}
}

func TestTwoGatewaysWithOneRootResumeEachOthersSessions(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	one := newServer(t, Settings{Sources: []Source{src}, Tickets: Tickets{Roots: [][]byte{root(1)}}})
	two := newServer(t, Settings{Sources: []Source{src}, Tickets: Tickets{Roots: [][]byte{root(1)}}})
	other := newServer(t, Settings{Sources: []Source{src}, Tickets: Tickets{Roots: [][]byte{root(2)}}})
	client := session(roots)
	mustBoth(t, shake(t, one, client))
	if !resumes(t, shake(t, two, client)) {
		t.Error("the one with the same root did not resume")
	}
	if resumes(t, shake(t, other, client)) {
		t.Error("the one with another root resumed")
	}
}

// TestATicketIsGoodUntilTheEndOfTheNextPeriod moves the server's clock. Each
// handshake gives a new ticket, so each case begins anew.
func TestATicketIsGoodUntilTheEndOfTheNextPeriod(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	for _, tt := range []struct {
		later time.Duration
		want  bool
	}{{0, true}, {TicketPeriod, true}, {2 * TicketPeriod, false}, {-TicketPeriod, true}, {-2 * TicketPeriod, false}} {
		time := newClock()
		srv := newServer(t, Settings{Sources: []Source{src}, Time: time.now, Tickets: Tickets{Roots: [][]byte{root(1)}}})
		client := session(roots)
		mustBoth(t, shake(t, srv, client))
		time.forward(tt.later)
		src.cert.Leaf.NotAfter = time.now().Add(TicketPeriod)
		if got := resumes(t, shake(t, srv, client)); got != tt.want {
			t.Errorf("after %v: resumed %t, want %t", tt.later, got, tt.want)
		}
	}
}

// TestAClonedConfigurationHasFreshTicketKeys is what QUIC does: it clones the
// configuration when it begins to listen, and serves for months.
func TestAClonedConfigurationHasFreshTicketKeys(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	time := newClock()
	set := Settings{Sources: []Source{src}, Time: time.now, Tickets: Tickets{Roots: [][]byte{root(1)}}}
	srv := newServer(t, set)
	clone := &Server{rules: srv.rules, config: srv.config.Clone()}
	time.forward(5 * TicketPeriod)
	src.cert.Leaf.NotAfter = time.now().Add(TicketPeriod)
	client := session(roots)
	mustBoth(t, shake(t, clone, client))
	if !resumes(t, shake(t, newServer(t, set), client)) {
		t.Error("the clone's ticket is not of the present period")
	}
}

// TestNothingIsLostWhileKeysAndCertificatesChange runs handshakes while files
// are replaced and the hours pass.
func TestNothingIsLostWhileKeysAndCertificatesChange(t *testing.T) {
	dir := t.TempDir()
	files := newFiles(t, FilesOptions{}, writePair(t, dir, "a", false, time.Now().Add(1000*TicketPeriod), "example.com"))
	clock := newClock()
	srv := newServer(t, Settings{Sources: []Source{files}, Time: clock.now})
	stop := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			writePair(t, dir, "a", false, time.Now().Add(1000*TicketPeriod), "example.com")
			if err := files.Reload(); err != nil {
				t.Error(err)
			}
			clock.forward(TicketPeriod)
		}
	})
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() {
			client := session(nil)
			client.InsecureSkipVerify = true
			for range 50 {
				if o := shake(t, srv, client); o.serverErr != nil || o.clientErr != nil {
					t.Error(o.serverErr, o.clientErr)
				}
			}
		})
	}
	clients.Wait()
	close(stop)
	changing.Wait()
}

func TestARootIsReplacedWithoutAGap(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	of := func(fill ...byte) *Server {
		var tickets Tickets
		for _, f := range fill {
			tickets.Roots = append(tickets.Roots, root(f))
		}
		return newServer(t, Settings{Sources: []Source{src}, Tickets: tickets})
	}
	// Fleet-wide steps of a rotation; at each, machines of two neighbouring steps are up at once.
	steps := []*Server{of(1), of(1, 2), of(2, 1), of(2)}
	for i := range len(steps) - 1 {
		for _, pair := range [][2]*Server{{steps[i], steps[i+1]}, {steps[i+1], steps[i]}} {
			client := session(roots)
			mustBoth(t, shake(t, pair[0], client))
			if !resumes(t, shake(t, pair[1], client)) {
				t.Errorf("steps %d and %d do not resume each other's sessions", i, i+1)
			}
		}
	}
}

func TestARootIsReplacedUnderARunningListener(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	srv := newServer(t, Settings{Sources: []Source{src}, Tickets: Tickets{Roots: [][]byte{root(1)}}})
	client := session(roots)
	mustBoth(t, shake(t, srv, client))
	for _, step := range []struct {
		roots [][]byte
		want  bool
	}{{[][]byte{root(1), root(2)}, true}, {[][]byte{root(2), root(1)}, true}, {[][]byte{root(2)}, true}, {[][]byte{root(3)}, false}} {
		if err := srv.SetTicketRoots(step.roots); err != nil {
			t.Fatal(err)
		}
		if got := resumes(t, shake(t, srv, client)); got != step.want {
			t.Errorf("roots %v: resumed %t", step.roots, got)
		}
	}
	var wrong *SettingsError
	if err := srv.SetTicketRoots([][]byte{{1}}); !errors.As(err, &wrong) {
		t.Errorf("a short root: %v", err)
	}
	if !resumes(t, shake(t, srv, client)) {
		t.Error("a bad root replaced the good one")
	}
}

func TestAShortRootIsRefused(t *testing.T) {
	src, _ := selfSigned(t, "example.com")
	_, err := NewServer(Settings{Sources: []Source{src}, Tickets: Tickets{Roots: [][]byte{root(1)[:31]}}})
	var wrong *SettingsError
	if !errors.As(err, &wrong) || wrong.Field != "tickets" {
		t.Errorf("%v", err)
	}
}

// TestATicketIsWorthlessUnderOtherSettings gets a ticket from a listener
// without client certificates, and offers it to others with the same root.
func TestATicketIsWorthlessUnderOtherSettings(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	other, _ := selfSigned(t, "other.example")
	of := func(change func(*Settings)) Settings {
		s := Settings{Sources: []Source{src}, Tickets: Tickets{Roots: [][]byte{root(1)}}}
		if change != nil {
			change(&s)
		}
		return s
	}
	cas := func(c ...*x509.Certificate) func(*Settings) {
		return func(s *Settings) { s.ClientAuth, s.ClientCAs = tls.VerifyClientCertIfGiven, c }
	}
	demanded := func(s *Settings) { cas(src.cert.Leaf)(s); s.ClientAuth = tls.RequireAndVerifyClientCert }
	tests := []struct {
		name     string
		from, to func(*Settings)
	}{
		{"client certificates demanded", nil, demanded},
		{"client certificates taken", nil, cas(src.cert.Leaf)},
		{"another client CA", cas(src.cert.Leaf), cas(other.cert.Leaf)},
		{"one more client CA", cas(src.cert.Leaf), cas(src.cert.Leaf, other.cert.Leaf)},
		{"client certificates no longer asked for", demanded, nil},
		{"post-quantum required", nil, func(s *Settings) { s.PQ = Require }},
		{"strict names", nil, func(s *Settings) { s.StrictSNI = true }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := session(roots)
			client.Certificates = []tls.Certificate{src.cert}
			mustBoth(t, shake(t, newServer(t, of(tt.from)), client))
			if resumes(t, shake(t, newServer(t, of(tt.to)), client)) {
				t.Error("resumed")
			}
			if !resumes(t, shake(t, newServer(t, of(tt.to)), client)) {
				t.Error("its own ticket did not resume")
			}
		})
	}
}

func TestAStrictListenerDoesNotResumeUnderAnUnknownName(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	srv := newServer(t, Settings{Sources: []Source{src}, StrictSNI: true})
	cache := tls.NewLRUClientSessionCache(1)
	mustBoth(t, shake(t, srv, &tls.Config{RootCAs: roots, ServerName: "example.com", ClientSessionCache: cache}))
	cs, _ := cache.Get("example.com")
	cache.Put("unknown.example", cs)
	o := shake(t, srv, &tls.Config{InsecureSkipVerify: true, ServerName: "unknown.example", ClientSessionCache: cache})
	if got := reasonOf(t, o.serverErr); got != NoSNIMatch {
		t.Errorf("%s: %v", got, o.serverErr)
	}
}

// TestUpstreamTLSResumes shows that the second connection to an endpoint
// resumes, and that endpoints that share a name but no ticket keys do not
// spoil each other's sessions.
func TestUpstreamTLSResumes(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	endpoints := map[string]*Server{}
	for i, e := range []string{"10.0.0.1:443", "10.0.0.2:443"} {
		endpoints[e] = newServer(t, Settings{Sources: []Source{src}, Tickets: Tickets{Roots: [][]byte{root(byte(i))}}})
	}
	for _, pq := range []PQ{Prefer, Require, Off} {
		client, err := NewClient(ClientSettings{PQ: pq, Roots: roots, ServerName: "example.com"})
		if err != nil {
			t.Fatal(err)
		}
		for round := range 3 {
			for e, srv := range endpoints {
				f := upstreamOnce(t, client, e, srv)
				if f.Resumed != (round > 0) || f.PQ() != (pq != Off) || f.PeerName != "example.com" {
					t.Errorf("pq %s, %s, round %d: %+v", pq, e, round, f)
				}
			}
		}
	}
}

// upstreamOnce makes one connection as a pool would and reads the answer.
func upstreamOnce(t *testing.T, client *Client, endpoint string, srv *Server) Facts {
	t.Helper()
	near, far := loopback(t)
	done := make(chan struct{})
	go func(c net.Conn) {
		defer close(done)
		conn := srv.Conn(c)
		if _, err := srv.Handshake(context.Background(), conn); err == nil {
			_, _ = conn.Write([]byte("!"))
		}
	}(far)
	conn := client.Conn(near, endpoint)
	f, err := client.Handshake(context.Background(), conn, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	<-done
	return f
}

func TestTheConfigurationOfAnEndpointIsBuiltOnce(t *testing.T) {
	client, err := NewClient(ClientSettings{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := client.Config("[::1]:443"), client.Config("[::1]:443")
	if a != b || a.ServerName != "::1" {
		t.Errorf("%p %p, name %q", a, b, a.ServerName)
	}
	if n := testing.AllocsPerRun(100, func() { client.Config("[::1]:443") }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
