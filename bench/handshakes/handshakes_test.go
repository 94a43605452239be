package handshakes

import (
	"crypto/tls"
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/handshake"
)

func TestMain(m *testing.M) {
	bench.RunChild()
	goleak.VerifyTestMain(m)
}

// TestEveryArmRunsAndMeasuresWhatItNames runs the whole bench with a few
// operations of each. The client fails an operation whose answer, group,
// certificate or kind is not the arm's, so an arm that skipped work would
// fail here.
func TestEveryArmRunsAndMeasuresWhatItNames(t *testing.T) {
	before := quickDistances
	quickDistances = []time.Duration{4 * time.Millisecond, 16 * time.Millisecond}
	defer func() { quickDistances = before }()
	r, err := bench.Run(t.Context(), bench.Options{Quick: true, Rounds: 1, Ops: 2}, nil, Bench)
	if err != nil {
		t.Fatal(err)
	}
	d := r.Bench("handshake")
	checkMatrix(t, d.Experiment("matrix"))
	for _, c := range d.Experiment("primitives").Cells {
		if s, ok := c.Measured("cpu"); !ok || s.Median <= 0 {
			t.Errorf("%s: %+v", c.Name, c)
		}
	}
	for _, c := range d.Experiment("time").Cells {
		if c.Missing == "" && (len(c.Samples) != 1 || len(c.Samples[0].Lists["time_16ms"]) != parallel || c.Samples[0].Values["time_16ms"] < 16) {
			t.Errorf("%s: %+v", c.Name, c)
		}
	}
	checkParts(t, d)
	if len(d.Tables) != 2 || len(d.Tables[0].Rows) == 0 || len(d.Tables[1].Rows) == 0 {
		t.Errorf("tables %+v", d.Tables)
	}
}

func checkMatrix(t *testing.T, e *bench.ExperimentData) {
	t.Helper()
	if want := 4 * 7 * 5; len(e.Cells) != want {
		t.Errorf("%d cells, want %d", len(e.Cells), want)
	}
	for _, c := range e.Cells {
		hybridRetry := c.Labels["kind"] == retried && c.Labels["group"] == "X25519MLKEM768"
		identity := c.Labels["auth"] == authMLDSA
		if identity && c.Labels["kind"] == early || hybridRetry && (identity || c.Labels["transport"] == overQUIC) {
			if c.Missing == "" || len(c.Samples) != 0 {
				t.Errorf("%s: says nothing of why it is not there", c.Name)
			}
			continue
		}
		for _, m := range e.Metrics {
			if s, ok := c.Measured(m.Name); !ok || s.Median <= 0 {
				t.Errorf("%s: %s %+v", c.Name, m.Name, s)
			}
		}
		if len(c.Samples) != 1 || c.Samples[0].Ops < 2 {
			t.Errorf("%s: samples %+v", c.Name, c.Samples)
		}
	}
	get := func(group tls.CurveID, kind, metric string) float64 {
		return e.Find(task{overTCP, group, "ECDSA P-256", kind}.labels()).Stats[metric].Median
	}
	// An ML-DSA-65 key has 1,952 bytes and a signature 3,309 (FIPS 204, table
	// 2): each side sends one of the one and two of the other.
	proven := e.Find(task{overTCP, tls.X25519, authMLDSA, full}.labels())
	if got := proven.Stats["bytes_up"].Median - get(tls.X25519, full, "bytes_up"); got < 1952+2*3309 || got > 1952+2*3309+1000 {
		t.Errorf("a client that proves an identity sends %v bytes more", got)
	}
	// Known sizes hold the counters to account: an ML-KEM-768 key has 1,184
	// bytes and its ciphertext 1,088 (FIPS 203, table 3).
	for metric, more := range map[string]float64{"bytes_up": 1184, "bytes_down": 1088} {
		if got := get(tls.X25519MLKEM768, full, metric) - get(tls.X25519, full, metric); math.Abs(got-more) > 8 {
			t.Errorf("%s: a hybrid has %v more, want %v", metric, got, more)
		}
	}
	if get(tls.X25519, resumed, "bytes_down") >= get(tls.X25519, full, "bytes_down") {
		t.Error("a resumed handshake sends a certificate")
	}
	if get(tls.SecP256r1MLKEM768, retried, "packets_up") <= get(tls.SecP256r1MLKEM768, full, "packets_up") {
		t.Error("a retry takes no more packets")
	}
}

// checkParts adds the parts up to the whole again.
func checkParts(t *testing.T, d *bench.BenchData) {
	t.Helper()
	for _, side := range []string{"server", "client"} {
		for _, g := range groups {
			sum, names := 0.0, 0
			for _, c := range d.Experiment("parts").Cells {
				if c.Labels["side"] == side && c.Labels["group"] == handshake.GroupName(g) {
					sum += c.Stats["cpu"].Median
					names++
				}
			}
			whole := d.Experiment("matrix").Find(task{overTCP, g, "ECDSA P-256", full}.labels()).Stats[side+"_cpu"].Median
			if names < 5 || math.Abs(sum-whole) > 0.001 {
				t.Errorf("%s %s: %d parts of %v µs, the whole %v µs", side, handshake.GroupName(g), names, sum, whole)
			}
		}
	}
}

func TestAnArmThatGetsAnotherHandshakeFails(t *testing.T) {
	s := tls.ConnectionState{Version: tls.VersionTLS13, CurveID: tls.X25519, HelloRetryRequest: true}
	for _, test := range []struct {
		task task
		kind string
		want string
	}{
		{task{Group: tls.X25519MLKEM768, Kind: full}, full, "wanted 1.3 with X25519MLKEM768"},
		{task{Group: tls.X25519, Kind: resumed}, resumed, "resumed: false"},
		{task{Group: tls.X25519, Kind: full}, full, "HelloRetryRequest: true"},
		{task{Group: tls.X25519, Kind: retried}, retried, "not verified"},
	} {
		w := &worker{order: order{Task: test.task}}
		if err := w.check(&s, test.kind, false); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.task, err, test.want)
		}
	}
}

func TestFewMeasuresWhatTheModelReads(t *testing.T) {
	r, err := bench.Run(t.Context(), bench.Options{Quick: true, Rounds: 1, Ops: 2}, nil, Few(overQUIC, "Ed25519", tls.X25519, tls.X25519MLKEM768))
	if err != nil {
		t.Fatal(err)
	}
	cells := r.Bench("handshake").Experiment("matrix").Cells
	if len(cells) != 4 {
		t.Fatalf("%d cells, want full and resumed of two groups", len(cells))
	}
	for _, c := range cells {
		if s, ok := c.Measured(serverCPU); !ok || s.Median <= 0 || c.Labels["transport"] != overQUIC || c.Labels["auth"] != "Ed25519" {
			t.Errorf("%+v", c)
		}
	}
}
