package layers

import (
	"math"
	"testing"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/bench"
	_ "github.com/hanzoai/pqgw/internal/benchgateway" // the gateway's role
)

func TestMain(m *testing.M) {
	bench.RunChild()
	goleak.VerifyTestMain(m)
}

// TestEveryLayerAnswersTheSame runs the whole bench with few requests; the
// client compares each answer's 1024 bytes.
func TestEveryLayerAnswersTheSame(t *testing.T) {
	r, err := bench.Run(t.Context(), bench.Options{Quick: true, Rounds: 2, Ops: 64}, nil, Bench)
	if err != nil {
		t.Fatal(err)
	}
	d := r.Bench("layers")
	cells := d.Experiment("layers").Cells
	if len(cells) != len(chain)+len(inClear) {
		t.Errorf("%d layers", len(cells))
	}
	for _, c := range cells {
		for _, m := range []string{ServerCPU, ClientCPU} {
			if s, ok := c.Measured(m); !ok || s.Median <= 0 || s.N != 2 {
				t.Errorf("%s: %s %+v", c.Name, m, s)
			}
		}
		if len(c.Values(Median)) != 2 {
			t.Errorf("%s has no times", c.Name)
		}
	}
	sum := 0.0
	for _, y := range chain {
		sum += bench.Median(d.Experiment("layers").Find(map[string]string{"layer": y.name}).Values(added))
	}
	whole := d.Experiment("layers").Find(map[string]string{"layer": "+ upstream"}).Values(ServerCPU)
	if math.Abs(sum-bench.Median(whole)) > bench.Median(whole)/100 { // of two rounds the median is the mean
		t.Errorf("the layers add up to %.2f, and the whole takes %v", sum, whole)
	}
	if rows := d.Tables[0].Rows; len(rows) != len(chain)+3 || rows[len(chain)+1][0] != "unexplained" {
		t.Errorf("%v", rows)
	}
}

func TestUnexplainedIsWhatPartsDoNotAddUpTo(t *testing.T) {
	cell := func(layer string, cpu float64) *bench.Cell {
		return &bench.Cell{Labels: map[string]string{"layer": layer}, Samples: []bench.Sample{{Values: map[string]float64{ServerCPU: cpu, Median: cpu}}}}
	}
	e := &bench.ExperimentData{Cells: []*bench.Cell{
		cell("socket echo", 10), cell("+ frames", 11), cell("+ codec", 13), cell("+ TLS", 16), cell("+ transport and checks", 17),
		cell("+ routing and policies", 19), cell("+ upstream", 30), cell("upstream, in the clear", 25), cell(bareRelay, 18),
	}}
	rows := waterfall(e).Rows
	for i, want := range []string{"10.0 (10.0–10.0)", "1.0 (1.0–1.0)", "2.0 (2.0–2.0)", "3.0 (3.0–3.0)", "1.0 (1.0–1.0)", "2.0 (2.0–2.0)", "11.0 (11.0–11.0)", "8.0 (8.0–8.0)", "2.0 (2.0–2.0)", "30.0 (30.0–30.0)"} {
		if rows[i][1] != want {
			t.Errorf("%s: %s, wanted %s", rows[i][0], rows[i][1], want)
		}
	}
}
