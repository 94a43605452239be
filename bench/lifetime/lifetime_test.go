package lifetime

import (
	"io"
	"math"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/bench"
	_ "github.com/hanzoai/pqgw/internal/benchgateway" // the gateway's role
)

func TestMain(m *testing.M) {
	bench.RunChild()
	goleak.VerifyTestMain(m)
}

// TestEveryLifeIsLived runs the whole bench with short lives. The client
// fails on any other answer, group or handshake than the arm's.
func TestEveryLifeIsLived(t *testing.T) {
	before := lives
	lives = map[int][]int{small: {1, 10, 50}, large: {1, 5}}
	defer func() { lives = before }()
	r, err := bench.Run(t.Context(), bench.Options{Quick: true, Rounds: 2, Ops: 4}, nil, Bench)
	if err != nil {
		t.Fatal(err)
	}
	d := r.Bench("lifetime")
	for _, name := range []string{"requests", "bytes"} {
		e := d.Experiment(name)
		for _, c := range e.Cells {
			for _, m := range e.Metrics {
				if s, ok := c.Measured(m.Name); !ok || s.Median <= 0 || s.N != 2 {
					t.Errorf("%s, %s: %s %+v", e.Name, c.Name, m.Name, s)
				}
			}
		}
	}
	if n := len(d.Experiment("requests").Cells) + len(d.Experiment("bytes").Cells); n != 2*5 {
		t.Errorf("%d cells", n)
	}
	if n := len(d.Experiment("share").Cells); n != 2*6 {
		t.Errorf("%d shares", n)
	}
	// A request on a warm connection is far cheaper than the first.
	at := func(n string) float64 {
		return d.Experiment("requests").Find(map[string]string{"group": "X25519MLKEM768", "requests": n}).Stats[ServerCPU].Median
	}
	if at("50") > at("1")/2 {
		t.Errorf("%v µs a request among 50, %v µs alone", at("50"), at("1"))
	}
	if len(d.Tables) != 1 || len(d.Tables[0].Rows) != 4 {
		t.Errorf("tables %+v", d.Tables)
	}
}

func TestCrossings(t *testing.T) {
	b := Bill{Handshake: 400, PQ: 100, Request: 10}
	for share, want := range map[float64]float64{0.5: 0, 0.1: 60, 0.01: 960, 0.001: 9960} {
		n := b.Crossing(share)
		if math.Abs(n-want) > 1e-6 {
			t.Errorf("crossing of %v: %v, want %v", share, n, want)
		}
		if got := b.Share(n); n > 0 && math.Abs(got-share) > 1e-9 {
			t.Errorf("at %v requests the share is %v, want %v", n, got, share)
		}
	}
}

func TestAnotherBodyIsNoticed(t *testing.T) {
	good := strings.Repeat(letter, 100_000)
	for body, want := range map[string]bool{good: true, good[1:] + "y": false, "y" + good[1:]: false} {
		var c content
		_, err := io.Copy(&c, strings.NewReader(body))
		if (err == nil) != want || want && c.n != len(body) {
			t.Errorf("%d bytes ending with %q: %v", c.n, body[len(body)-1:], err)
		}
	}
}
