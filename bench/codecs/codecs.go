// Package codecs runs the comparison of bench/codec as a bench: ZAP against
// JSON libraries on one record, encoded and decoded, in a process of its own.
package codecs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/codec"
)

// Bench is what `bench codec` runs.
var Bench = bench.Bench{
	Name: "codec", Title: "The codec against JSON", Order: 50,
	Quick: 10 * time.Second, Full: time.Minute, Run: run,
}

const role = "codec"

func init() {
	bench.Register(Bench)
	bench.RegisterRole(role, open)
}

// batch is how many operations pass between looks at the clock: a decoding
// takes nanoseconds.
const batch = 4096

// order names an arm.
type order struct {
	Name  string      `json:"name"`
	Slice bench.Slice `json:"slice"`
}

func name(a codec.Arm) string { return a.What + " " + a.Codec }

func open(context.Context, json.RawMessage) (map[string]bench.Verb, func(), error) {
	all := make(map[string]codec.Arm)
	for _, a := range codec.Arms() {
		all[name(a)] = a
	}
	return map[string]bench.Verb{"run": func(_ context.Context, args json.RawMessage) (any, error) {
		var o order
		if err := json.Unmarshal(args, &o); err != nil {
			return nil, err
		}
		a, ok := all[o.Name]
		if !ok {
			return nil, fmt.Errorf("no arm %q", o.Name)
		}
		return bench.Compute(o.Slice, batch, a.Loop)
	}}, func() {}, nil
}

func run(ctx context.Context, s *bench.Session) error {
	cpu, _ := bench.Apart()
	child, err := s.SpawnOn(cpu, role, nil)
	if err != nil {
		return err
	}
	e := bench.Experiment{
		Name: "record", Title: "A blockchain balance query and its answer: CPU for each message", Share: 0.9,
		Note: "“decode” and “encode” are the request, 162 bytes with its answer in ZAP, 233 in JSON. Every field is read. " +
			"The record is from the wire's test vectors. encoding/json/v2 is there when the toolchain was told to build it.",
		Metrics: []bench.Metric{
			{Name: "cpu", Title: "CPU", Unit: "ns", Kind: bench.CPU, Headline: true},
			{Name: "allocs", Title: "allocations", Kind: bench.Count},
		},
		Plots:  []bench.Plot{{Kind: bench.Bars, Title: "CPU for each message (ns)", Metric: "cpu", X: "what", Series: "codec"}},
		Versus: &bench.Versus{Subject: "codec", Ours: "zap", Match: []string{"what"}},
	}
	for _, a := range codec.Arms() {
		e.Arms = append(e.Arms, bench.Arm{
			Name: name(a), Labels: map[string]string{"what": a.What, "codec": a.Codec},
			Open: func(context.Context) (bench.Runner, error) { return runner(child, name(a)), nil },
		})
	}
	d, err := s.Measure(ctx, e)
	if err != nil {
		return err
	}
	s.Table(fastest(d))
	return nil
}

func runner(child *bench.Child, arm string) bench.Runner {
	return bench.RunnerFunc(func(ctx context.Context, s bench.Slice) (bench.Sample, error) {
		var c bench.Computed
		if err := child.Call(ctx, "run", order{Name: arm, Slice: s}, &c); err != nil {
			return bench.Sample{}, err
		}
		return bench.Sample{Ops: c.Ops, Values: map[string]float64{"cpu": c.Nanoseconds(), "allocs": c.Allocs}}, nil
	})
}

// fastest sets ZAP against the library that is fastest at each operation.
func fastest(d *bench.ExperimentData) bench.Table {
	t := bench.Table{Title: "ZAP against the fastest JSON library of each operation", Columns: []string{"operation", "ZAP, ns", "fastest JSON", "its CPU, ns", "JSON over ZAP"}}
	for _, c := range d.Cells {
		zap, ok := c.Measured("cpu")
		if c.Labels["codec"] != "zap" || !ok {
			continue
		}
		var best *bench.Cell
		for _, o := range d.Cells {
			st, ok := o.Measured("cpu")
			if o.Labels["codec"] == "zap" || o.Labels["what"] != c.Labels["what"] || !ok {
				continue
			}
			if best == nil || st.Median < best.Stats["cpu"].Median {
				best = o
			}
		}
		if best == nil {
			continue
		}
		r := bench.Ratio(best.Values("cpu"), c.Values("cpu"))
		t.Rows = append(t.Rows, []string{
			strings.ReplaceAll(c.Labels["what"], "-", " "), fmt.Sprintf("%.1f", zap.Median), best.Labels["codec"],
			fmt.Sprintf("%.1f", best.Stats["cpu"].Median), fmt.Sprintf("%.1f× (%.1f–%.1f)", r.Median, r.Low, r.High),
		})
	}
	return t
}
