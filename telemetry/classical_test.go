package telemetry

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/handshake"
)

func classicalFacts(sni, ja4 string) *handshake.Facts {
	return &handshake.Facts{Version: tls.VersionTLS13, Group: tls.X25519, SNI: sni, JA4: ja4}
}

var hybridFacts = &handshake.Facts{Version: tls.VersionTLS13, Group: tls.X25519MLKEM768, SNI: "a.test"}

// account is a listener's series with a clock.
func account(t *testing.T) (m *Metrics, s *ListenerSeries, at *time.Time) {
	t.Helper()
	now := time.Unix(1_800_000_000, 0)
	m = NewMetrics(Build{})
	s = m.Listeners.Series("edge")
	s.classical.now = func() time.Time { return now }
	return m, s, &now
}

func TestTheReportTellsWhoWasClassicalInTheLastHourAndDay(t *testing.T) {
	m, s, now := account(t)
	old, browser := classicalFacts("a.test", "t12d_old"), classicalFacts("b.test", "t13d_browser")
	for range 3 {
		s.Handshake(hybridFacts)
	}
	s.Handshake(old)
	s.ClassicalBytes(old, 100)
	s.ClassicalBytes(hybridFacts, 1000)
	s.ClassicalBytes(&handshake.Facts{}, 1000)
	*now = now.Add(2 * time.Hour)
	for range 2 {
		s.Handshake(browser)
		s.ClassicalBytes(browser, 7)
	}
	r := m.PQReport()[0]
	if r.Listener != "edge" || r.TLSHour != 2 || r.TLSDay != 6 || r.Hour != (Use{2, 14}) || r.Day != (Use{3, 114}) {
		t.Errorf("%+v", r)
	}
	if len(r.Clients) != 2 || r.Clients[0].JA4 != "t13d_browser" || r.Clients[0].Hour != (Use{2, 14}) || !r.Clients[0].LastSeen.Equal(*now) ||
		r.Clients[1].SNI != "a.test" || r.Clients[1].Hour != (Use{}) || r.Clients[1].Day != (Use{1, 100}) {
		t.Errorf("%+v", r.Clients)
	}
	*now = now.Add(26 * time.Hour)
	if left := m.PQReport(); len(left) != 0 {
		t.Errorf("after a day there is still %+v", left)
	}
	if n := len(s.classical.clients); n != 0 {
		t.Errorf("%d clients are kept", n)
	}
}

func TestAWindowMovesInItsSlots(t *testing.T) {
	m, s, now := account(t)
	s.Handshake(classicalFacts("a.test", "x"))
	for _, c := range []struct {
		after time.Duration
		hour  uint64
	}{{59 * time.Minute, 1}, {10 * time.Minute, 0}, {-5 * time.Hour, 0}} {
		*now = now.Add(c.after)
		if got := m.PQReport()[0].Hour.Connections; got != c.hour {
			t.Errorf("%v later the last hour has %d, want %d", c.after, got, c.hour)
		}
	}
}

func TestStrangersCannotFillTheAccount(t *testing.T) {
	m, s, _ := account(t)
	busy := classicalFacts("shop.test", "t12d_old")
	for range 10 {
		s.Handshake(busy)
	}
	const flood = 2000
	for i := range flood {
		f := classicalFacts(fmt.Sprintf("%d.example", i), fmt.Sprintf("made-up-%d", i))
		s.Handshake(f)
		s.ClassicalBytes(f, 1)
	}
	s.ClassicalBytes(classicalFacts("0.example", "made-up-0"), 5) // has given way
	r := m.PQReport()[0]
	if n := len(s.classical.clients); n > maxClassicalClients {
		t.Errorf("%d clients are kept", n)
	}
	if r.Clients[0].SNI != "shop.test" || r.Clients[0].Day.Connections != 10 {
		t.Errorf("the busiest is %+v", r.Clients[0])
	}
	rest := r.Clients[len(r.Clients)-1]
	if !rest.Rest || rest.LastSeen.IsZero() || r.Day != (Use{flood + 10, flood + 5}) {
		t.Errorf("in all %+v, the rest %+v", r.Day, rest)
	}
}

func TestMetricsNameOnlyWhatCertificatesAreFor(t *testing.T) {
	m, s, _ := account(t)
	m.SetCertificates([]CertificateStatus{{Hosts: []string{"a.test", "*.shops.test"}}})
	for _, sni := range []string{"A.test", "a.test", "x.shops.test", "y.shops.test", "evil.example", ""} {
		s.Handshake(classicalFacts(sni, "j"))
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, _ := io.ReadAll(w.Body)
	for _, want := range []string{
		`pqgw_classical_connections{listener="edge",sni="a.test",window="hour"} 2`,
		`pqgw_classical_connections{listener="edge",sni="*.shops.test",window="day"} 2`,
		`pqgw_classical_connections{listener="edge",sni="other",window="hour"} 2`,
		`pqgw_classical_bytes{listener="edge",sni="other",window="day"} 0`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(string(body), "evil") {
		t.Error("a stranger made a label")
	}
}

func BenchmarkClassicalAccount(b *testing.B) {
	s := NewMetrics(Build{}).Listeners.Series("edge")
	for name, f := range map[string]*handshake.Facts{"hybrid": hybridFacts, "classical": classicalFacts("a.test", "j")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Handshake(f)
			}
		})
	}
}
