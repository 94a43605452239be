package telemetry

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/handshake"
)

// scrape returns the lines of our own metrics as Prometheus reads them.
func scrape(t *testing.T, m *Metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("scrape: %d %s", w.Code, w.Body)
	}
	lines := make(map[string]string)
	for line := range strings.Lines(w.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
			if value == "" {
				name, value, _ = strings.Cut(name, " ")
			} else {
				name += "}"
			}
			lines[name] = value
		}
	}
	return lines
}

// filled has something counted in each series.
func filled() *Metrics {
	m := NewMetrics(Build{Version: "v1", Revision: "abc", Go: "go1.26"})
	l := m.Listeners.Series("edge")
	l.Opened()
	l.Opened()
	l.Closed()
	l.Clear()
	l.Refused("limit")
	l.Handshake(&handshake.Facts{Group: tls.X25519MLKEM768, Version: tls.VersionTLS13, Resumed: true, HRR: false})
	l.Handshake(&handshake.Facts{Group: tls.X25519MLKEM768, Version: tls.VersionTLS13, Resumed: true, HRR: false})
	l.Handshake(&handshake.Facts{Group: tls.CurveP256, Version: tls.VersionTLS12, Resumed: false, HRR: true})
	l.Handshake(&handshake.Facts{Group: 0x7777, Version: 0x0301, Resumed: false, HRR: false})
	l.HandshakeRefused("no_shared_pq_group")
	r := m.Requests.Series("edge", "h2", "chat")
	r.Observe(200, time.Millisecond)
	r.Observe(200, time.Hour)
	r.Observe(0, -time.Second)
	r.Observe(999, 0)
	r.Bytes(10, 20)
	m.Upstreams.Series("inference").Handshake(&handshake.Facts{Group: tls.X25519, Version: tls.VersionTLS13, Resumed: true})
	e := m.Endpoints.Series("inference", "10.0.0.2:8000")
	e.Active.Add(3)
	e.Idle.Add(2)
	e.InFlight.Add(3)
	e.Observe(502, 2*time.Second)
	e.Failed("connect")
	e.Retried()
	m.ConfigLoaded(nil, time.Unix(1000, 5e8))
	m.ConfigLoaded(errors.New("bad"), time.Unix(2000, 0))
	m.SetCertificates([]CertificateStatus{
		{Name: "a.pem", NotAfter: time.Unix(5000, 0)}, {Name: "a.pem", NotAfter: time.Unix(4000, 0)}, {Name: "a.pem", NotAfter: time.Unix(6000, 0)},
	})
	return m
}

func TestScrape(t *testing.T) {
	got := scrape(t, filled())
	for name, want := range map[string]string{
		`pqgw_build_info{goversion="go1.26",revision="abc",version="v1"}`:                                                  "1",
		`pqgw_connections{listener="edge"}`:                                                                                "1",
		`pqgw_connections_accepted_total{listener="edge"}`:                                                                 "2",
		`pqgw_connections_refused_total{listener="edge",reason="limit"}`:                                                   "1",
		`pqgw_tls_handshakes_total{group="X25519MLKEM768",hrr="false",listener="edge",resumed="true",version="1.3"}`:       "2",
		`pqgw_tls_handshakes_total{group="P-256",hrr="true",listener="edge",resumed="false",version="1.2"}`:                "1",
		`pqgw_tls_handshakes_total{group="other",hrr="false",listener="edge",resumed="false",version="other"}`:             "1",
		`pqgw_tls_refused_total{listener="edge",reason="no_shared_pq_group"}`:                                              "1",
		`pqgw_exposure_connections_total{class="post_quantum",listener="edge"}`:                                            "2",
		`pqgw_exposure_connections_total{class="classical",listener="edge"}`:                                               "2",
		`pqgw_exposure_connections_total{class="clear",listener="edge"}`:                                                   "1",
		`pqgw_requests_total{code="200",listener="edge",protocol="h2",route="chat"}`:                                       "2",
		`pqgw_requests_total{code="0",listener="edge",protocol="h2",route="chat"}`:                                         "2",
		`pqgw_request_duration_seconds_count{listener="edge",protocol="h2",route="chat"}`:                                  "4",
		`pqgw_request_duration_seconds_sum{listener="edge",protocol="h2",route="chat"}`:                                    "3600.001",
		`pqgw_request_duration_seconds_bucket{listener="edge",protocol="h2",route="chat",le="0.0005"}`:                     "2",
		`pqgw_request_duration_seconds_bucket{listener="edge",protocol="h2",route="chat",le="0.001"}`:                      "3",
		`pqgw_request_duration_seconds_bucket{listener="edge",protocol="h2",route="chat",le="300.0"}`:                      "3",
		`pqgw_request_duration_seconds_bucket{listener="edge",protocol="h2",route="chat",le="+Inf"}`:                       "4",
		`pqgw_request_bytes_total{listener="edge",protocol="h2",route="chat"}`:                                             "10",
		`pqgw_response_bytes_total{listener="edge",protocol="h2",route="chat"}`:                                            "20",
		`pqgw_upstream_tls_handshakes_total{group="X25519",hrr="false",resumed="true",upstream="inference",version="1.3"}`: "1",
		`pqgw_upstream_connections{endpoint="10.0.0.2:8000",state="active",upstream="inference"}`:                          "3",
		`pqgw_upstream_connections{endpoint="10.0.0.2:8000",state="idle",upstream="inference"}`:                            "2",
		`pqgw_upstream_requests_in_flight{endpoint="10.0.0.2:8000",upstream="inference"}`:                                  "3",
		`pqgw_upstream_requests_total{code="502",endpoint="10.0.0.2:8000",upstream="inference"}`:                           "1",
		`pqgw_upstream_request_duration_seconds_bucket{endpoint="10.0.0.2:8000",upstream="inference",le="2.5"}`:            "1",
		`pqgw_upstream_failures_total{endpoint="10.0.0.2:8000",reason="connect",upstream="inference"}`:                     "1",
		`pqgw_upstream_retries_total{endpoint="10.0.0.2:8000",upstream="inference"}`:                                       "1",
		`pqgw_config_last_reload_successful`:                                                                               "0",
		`pqgw_config_last_reload_timestamp_seconds`:                                                                        "1000.5",
		`pqgw_certificate_expiry_seconds{name="a.pem"}`:                                                                    "4000",
		`pqgw_access_log_dropped_total`:                                                                                    "0",
		`pqgw_access_log_suppressed_total`:                                                                                 "0",
	} {
		key := strings.Replace(name, `le="300.0"`, `le="300"`, 1)
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	for _, name := range []string{"go_goroutines", "process_open_fds"} {
		if got[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if t.Failed() {
		for name, value := range got {
			if strings.HasPrefix(name, "pqgw_") && !strings.Contains(name, "_bucket") {
				t.Log(name, value)
			}
		}
	}
}

func TestASeriesAskedForTwiceIsTheSame(t *testing.T) {
	m := NewMetrics(Build{})
	l, r := m.Listeners.Series("a"), m.Requests.Series("a", "h1", "r")
	if again := m.Listeners.Series("a"); again != l || m.Listeners.Series("b") == l {
		t.Error("listeners")
	}
	if again := m.Requests.Series("a", "h1", "r"); again != r || m.Requests.Series("a", "h2", "r") == r {
		t.Error("requests")
	}
}

func TestStatusCountsWhatTheSeriesCount(t *testing.T) {
	m := filled()
	var l ListenerStatus
	l.Count(m.Listeners.Series("edge"))
	want := ListenerStatus{Connections: 1, Accepted: 2, Exposure: Exposure{PostQuantum: 2, Classical: 2, Clear: 1}}
	if !reflect.DeepEqual(l, want) {
		t.Errorf("listener %+v, want %+v", l, want)
	}
	var e EndpointStatus
	e.Count(m.Endpoints.Series("inference", "10.0.0.2:8000"))
	if want := (EndpointStatus{Active: 3, Idle: 2, InFlight: 3, Requests: 1, Failures: 1}); e != want {
		t.Errorf("endpoint %+v, want %+v", e, want)
	}
	if got := m.Upstreams.Series("inference").Exposure(); got != (Exposure{Classical: 1}) {
		t.Errorf("upstream %+v", got)
	}
}

func TestQuietRoutesAreNotShown(t *testing.T) {
	m := NewMetrics(Build{})
	for i := range 10000 {
		m.Requests.Series("edge", "h1", fmt.Sprint("route-", i))
	}
	for name := range scrape(t, m) {
		if strings.Contains(name, "route-") {
			t.Fatalf("%s is shown", name)
		}
	}
}

func TestReasonsHaveABound(t *testing.T) {
	m := NewMetrics(Build{})
	l := m.Listeners.Series("edge")
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				l.HandshakeRefused(handshake.Reason(fmt.Sprint(g, "-", i)))
			}
		})
	}
	wg.Wait()
	seen, sum := 0, uint64(0)
	for _, v := range l.tlsRefused.all() {
		seen++
		sum += v.Load()
	}
	if seen > maxReasons+4 || sum != 4000 {
		t.Errorf("%d reasons, %d counted", seen, sum)
	}
}

func TestNamesThatAreNoUTF8DoNotSpoilAScrape(t *testing.T) {
	m := NewMetrics(Build{Version: "\xff"})
	m.Listeners.Series("\xff").Refused("\xfe")
	m.Requests.Series("\xff", "\xff", "\xff").Observe(200, 0)
	m.Endpoints.Series("\xff", "\xff").Failed("\xff")
	m.Upstreams.Series("\xff").Handshake(&handshake.Facts{})
	m.SetCertificates([]CertificateStatus{{Name: "\xff"}, {Name: "\xfe"}})
	scrape(t, m)
}

func TestLostLinesAreAMetric(t *testing.T) {
	m := NewMetrics(Build{})
	l := newAccessLog(nil, quiet())
	l.dropped.Store(3)
	l.suppressed.Store(4)
	m.SetAccessLog(l)
	got := scrape(t, m)
	if got["pqgw_access_log_dropped_total"] != "3" || got["pqgw_access_log_suppressed_total"] != "4" {
		t.Errorf("%q dropped, %q suppressed", got["pqgw_access_log_dropped_total"], got["pqgw_access_log_suppressed_total"])
	}
}

func TestEveryNamedGroupHasItsCounter(t *testing.T) {
	names := make(map[string]bool)
	for i, g := range groups {
		if groupIndex(g) != i {
			t.Errorf("%v stands at %d, not at %d", g, groupIndex(g), i)
		}
		names[handshake.GroupName(g)] = true
	}
	if len(names) != len(groups) {
		t.Errorf("%d names for %d places: %v", len(names), len(groups), names)
	}
	for g := range 1 << 16 {
		id := tls.CurveID(g)
		if groupIndex(id) == groupOther && handshake.GroupName(id) != "other" {
			t.Errorf("%s is counted as other", handshake.GroupName(id))
		}
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	m := NewMetrics(Build{})
	r, l, e := m.Requests.Series("edge", "h1", "r"), m.Listeners.Series("edge"), m.Endpoints.Series("u", "e")
	count := func() {
		r.Observe(200, time.Millisecond)
		r.Bytes(1, 2)
		l.Opened()
		l.Handshake(&handshake.Facts{Group: tls.X25519MLKEM768, Version: tls.VersionTLS13, Resumed: false, HRR: false})
		l.HandshakeRefused("timeout")
		l.Closed()
		e.Observe(200, time.Millisecond)
		e.Failed("connect")
	}
	count()
	if n := testing.AllocsPerRun(1000, count); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	s := NewMetrics(Build{}).Requests.Series("edge", "h1", "r")
	s.Observe(200, 0)
	b.ReportAllocs()
	for b.Loop() {
		s.Observe(200, 3*time.Millisecond)
		s.Bytes(100, 1024)
	}
}

func BenchmarkHandshakeCounted(b *testing.B) {
	s := NewMetrics(Build{}).Listeners.Series("edge")
	b.ReportAllocs()
	for b.Loop() {
		s.Handshake(&handshake.Facts{Group: tls.X25519MLKEM768, Version: tls.VersionTLS13, Resumed: false, HRR: false})
	}
}
