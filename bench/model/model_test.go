package model

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/bench"
)

func exact(v float64) Range { return Range{v, v, v} }

var costs = Costs{
	Group:   "X25519MLKEM768",
	Full:    Handshake{CPU: Range{400, 380, 440}, BytesUp: 1500, BytesDown: 1800},
	Resumed: Handshake{CPU: exact(200), BytesUp: 1700, BytesDown: 1500},
	Request: exact(20), Byte: exact(0.001), Included: 1024,
}

var load = Load{Clients: 60000, Lifetime: time.Minute, RPS: 0.5, Bytes: 11024, Resumed: 0.25, Utilisation: 0.5, Link: 2.5e9}

func TestReckonIsTheArithmeticItShows(t *testing.T) {
	n := Reckon(load, costs)
	for what, v := range map[string][2]float64{
		"connections":     {n.Connections, 1000},
		"requests":        {n.Requests, 30000},
		"per life":        {n.RequestsPerLife, 30},
		"handshake cores": {n.HandshakeCores.Value, 0.35}, // 1000 × (0.75 × 400 + 0.25 × 200) µs
		"at most":         {n.HandshakeCores.High, 0.38},  // 1000 × (0.75 × 440 + 50)
		"request cores":   {n.RequestCores.Value, 0.9},    // 30000 × (20 + 10000 × 0.001)
		"cores":           {n.Cores.Value, 1.25},          // the sum
		"plan":            {float64(n.Plan), 3},           // 1.25 / 0.5, and no halves of cores
		"all full":        {n.AllFull.Value, 1.3},         // 0.4 + 0.9
		"all resumed":     {n.AllResumed.Value, 1.1},      // 0.2 + 0.9
		"down":            {n.BitsDown, 1538. / 1448 * 8 * (1000*1725 + 30000*(512+11024+22))},
		"up":              {n.BitsUp, 1538. / 1448 * 8 * (1000*1550 + 30000*(512+22))},
		"links":           {float64(n.Links), 3}, // 2.96 Gbit/s over 1.25
	} {
		if math.Abs(v[0]-v[1]) > 1e-6*math.Abs(v[1]) {
			t.Errorf("%s: %v, want %v", what, v[0], v[1])
		}
	}
	text := strings.Join(Arithmetic(load, costs, n), "\n")
	for _, want := range []string{"60000 clients / 1m0s = 1000.0 per second", "= 350 µs", "0.350 + 0.900 = 1.250 busy, / 50 % = 3"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestLoadsThatCannotBeAreRefused(t *testing.T) {
	if err := load.Check(); err != nil {
		t.Error(err)
	}
	for what, spoil := range map[string]func(*Load){
		"clients": func(l *Load) { l.Clients = 0 }, "lifetime": func(l *Load) { l.Lifetime = 0 }, "rps": func(l *Load) { l.RPS = -1 },
		"bytes": func(l *Load) { l.Bytes = math.NaN() }, "resumed": func(l *Load) { l.Resumed = 1.5 }, "utilisation": func(l *Load) { l.Utilisation = 0 }, "link": func(l *Load) { l.Link = 0 },
	} {
		l := load
		spoil(&l)
		if err := l.Check(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestCostsComeFromResultsOrSayWhatIsMissing(t *testing.T) {
	var missing *MissingError
	basis := Basis{Transport: "tls", Auth: "ECDSA P-256"}
	if _, err := CostsOf(&bench.Results{}, basis, "X25519"); !errors.As(err, &missing) {
		t.Errorf("no results: %v", err)
	}
	life := func(body string, short, long float64) *bench.ExperimentData {
		e := &bench.ExperimentData{}
		for _, group := range []string{"X25519", "X25519MLKEM768"} {
			for n, v := range map[string]float64{"1": short, "101": long} {
				e.Cells = append(e.Cells, &bench.Cell{Labels: map[string]string{"group": group, "requests": n, "body": body}, Samples: []bench.Sample{{Values: map[string]float64{"connection_server_cpu": v}}}})
			}
		}
		return e
	}
	matrix := &bench.ExperimentData{Name: "matrix"}
	for kind, cpu := range map[string]float64{"full": 400, "resumed": 200} {
		matrix.Cells = append(matrix.Cells, &bench.Cell{
			Labels: map[string]string{"transport": "tls", "auth": "ECDSA P-256", "group": "X25519", "kind": kind},
			Stats:  map[string]bench.Stat{"server_cpu": {Median: cpu, Low: cpu - 10, High: cpu + 10}, "bytes_up": {Median: 300}, "bytes_down": {Median: 700}},
		})
	}
	small, large := life("1024", 400, 2400), life("66560", 500, 9100)
	small.Name, large.Name = "requests", "bytes"
	r := &bench.Results{Benches: []*bench.BenchData{
		{Name: "handshake", Experiments: []*bench.ExperimentData{matrix}},
		{Name: "lifetime", Experiments: []*bench.ExperimentData{small, large}},
	}}
	c, err := CostsOf(r, basis, "X25519")
	if err != nil {
		t.Fatal(err)
	}
	if c.Full.CPU != (Range{400, 390, 410}) || c.Resumed.CPU.Value != 200 || c.Full.BytesUp != 300 || c.Request.Value != 20 || c.Included != 1024 {
		t.Errorf("%+v", c)
	}
	if want := (86. - 20) / 65536; math.Abs(c.Byte.Value-want) > 1e-9 {
		t.Errorf("a byte costs %v, want %v", c.Byte.Value, want)
	}
	if _, err := CostsOf(r, basis, "P-256"); !errors.As(err, &missing) || !strings.Contains(err.Error(), "P-256") {
		t.Errorf("another group: %v", err)
	}
}
