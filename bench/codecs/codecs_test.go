package codecs

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/codec"
)

func TestMain(m *testing.M) {
	bench.RunChild()
	goleak.VerifyTestMain(m)
}

func TestEveryCodecIsMeasuredAndZAPAllocatesNothing(t *testing.T) {
	r, err := bench.Run(t.Context(), bench.Options{Quick: true, Rounds: 2, Ops: batch + 1000}, nil, Bench)
	if err != nil {
		t.Fatal(err)
	}
	d := r.Bench("codec").Experiment("record")
	if want := 4 * (1 + len(codec.JSONCodecs())); len(d.Cells) != want {
		t.Errorf("%d cells, want %d", len(d.Cells), want)
	}
	for _, c := range d.Cells {
		if s, ok := c.Measured("cpu"); !ok || s.Median <= 0 || c.Samples[0].Ops < batch {
			t.Errorf("%s: %+v", c.Name, c)
		}
		// A few allocations are the bench's own.
		if allocs := c.Stats["allocs"].Median; c.Labels["codec"] == "zap" && allocs > 0.1 {
			t.Errorf("%s: %v allocations", c.Name, allocs)
		}
	}
	if rows := r.Bench("codec").Tables[0].Rows; len(rows) != 4 {
		t.Errorf("%v", rows)
	}
}
