package layers

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/link"
)

// Connections of a round: many for the CPU, so that the server has something
// to do all the time; one for the median, so that nothing waits for another.
const (
	manyConns = 16
	cpuPart   = 0.6 // of a slice
)

func (l *lab) experiment() bench.Experiment {
	e := bench.Experiment{
		Name: "layers", Title: "The same request, with one layer more each time", Share: 0.95,
		Metrics: []bench.Metric{
			{Name: ServerCPU, Title: "server CPU", Unit: "µs/request", Kind: bench.CPU, Headline: true},
			{Name: ClientCPU, Title: "client CPU", Unit: "µs/request", Kind: bench.CPU},
			{Name: Median, Title: "median time", Unit: "µs", Kind: bench.Time},
			{Name: added, Title: "server CPU added", Unit: "µs/request", Kind: bench.CPU},
		},
		Plots: []bench.Plot{{Kind: bench.Waterfall, Title: "Server CPU that each layer adds to a request (µs)", Metric: added, X: "layer", Where: map[string]string{"chain": "whole"}}},
		Note:  "Runs of their own, not parts of one: a layer that lets the next do better takes less than nothing.",
	}
	for _, y := range chain {
		e.Arms = append(e.Arms, l.arm(y, "whole"))
	}
	for _, y := range inClear {
		e.Arms = append(e.Arms, l.arm(y, "clear"))
	}
	return e
}

func (l *lab) arm(y layer, chain string) bench.Arm {
	server, listener := l.plain, l.addrs[y.listener]
	if y.gateway {
		server, listener = l.gateway.Child, l.gateway.Addrs[y.listener]
	}
	t := target{Address: l.Reach(link.Gateway, listener)[0]}
	if y.secure {
		t.Root = l.Identity.Root
	}
	return bench.Arm{
		Name: y.name, Labels: map[string]string{"layer": y.name, "chain": chain},
		Open: func(context.Context) (bench.Runner, error) {
			return bench.RunnerFunc(func(ctx context.Context, s bench.Slice) (bench.Sample, error) {
				return l.round(ctx, server, t, s)
			}), nil
		},
	}
}

// round asks over many connections, then over one.
func (l *lab) round(ctx context.Context, server *bench.Child, t target, s bench.Slice) (bench.Sample, error) {
	many, one := s, s
	many.For = time.Duration(cpuPart * float64(s.For))
	one.For = s.For - many.For
	t.Conns = manyConns
	if err := l.client.Call(ctx, "connect", t, nil); err != nil {
		return bench.Sample{}, err
	}
	var done, alone asked
	spent, err := bench.Spent(func() error { return l.client.Call(ctx, "run", many, &done) }, server, l.client)
	if err != nil {
		return bench.Sample{}, err
	}
	t.Conns = 1
	if err := l.client.Call(ctx, "connect", t, nil); err != nil {
		return bench.Sample{}, err
	}
	if err := l.client.Call(ctx, "run", one, &alone); err != nil {
		return bench.Sample{}, err
	}
	return bench.Sample{Ops: done.Ops, Values: map[string]float64{
		ServerCPU: bench.Micros(spent[0], done.Ops),
		ClientCPU: bench.Micros(spent[1], done.Ops),
		Median:    bench.Micros(alone.Median, 1),
	}}, nil
}

// added is a metric of the chain: what a layer takes beyond the one before.
const added = "added_cpu"

// addDifferences gives the cells of the chain what each layer adds, round by
// round.
func addDifferences(e *bench.ExperimentData) {
	var last string
	for _, y := range chain {
		d := difference(e, ServerCPU, y.name, last)
		last = y.name
		c := e.Find(map[string]string{"layer": y.name})
		if len(d) == 0 {
			continue // it could not be measured
		}
		for i := range d {
			c.Samples[i].Values[added] = d[i]
		}
		c.Stats[added] = bench.Summarise(d)
	}
}

// waterfall tells what each layer adds, from differences within rounds.
func waterfall(e *bench.ExperimentData) bench.Table {
	t := bench.Table{
		Title:   "What each layer adds to a request",
		Columns: []string{"layer", "server CPU added, µs", "share of the whole", "median added, µs"},
		Note: "“Unexplained” is what the whole takes beyond the sum of its parts measured apart: the whole in the clear, and TLS as it adds to the codec alone. " +
			"Below nothing, the parts together take less than apart.",
	}
	whole := bench.Median(values(e, "+ upstream", ServerCPU))
	var last string
	for _, y := range chain {
		name := y.name
		t.Rows = append(t.Rows, []string{name, addedBy(e, ServerCPU, name, last), share(difference(e, ServerCPU, name, last), whole), addedBy(e, Median, name, last)})
		last = name
	}
	t.Rows = append(t.Rows, []string{"of it a second pair of sockets", addedBy(e, ServerCPU, bareRelay, "socket echo"), share(difference(e, ServerCPU, bareRelay, "socket echo"), whole), addedBy(e, Median, bareRelay, "socket echo")})
	rest := func(metric string) []float64 {
		all, clear := values(e, "+ upstream", metric), values(e, "upstream, in the clear", metric)
		secure := difference(e, metric, "+ TLS", "+ codec")
		var out []float64
		for i := range min(len(all), len(clear), len(secure)) {
			out = append(out, all[i]-clear[i]-secure[i])
		}
		return out
	}
	t.Rows = append(t.Rows,
		[]string{"unexplained", interval(rest(ServerCPU)), share(rest(ServerCPU), whole), timed(e, rest(Median))},
		[]string{"the whole", interval(values(e, "+ upstream", ServerCPU)), "100 %", timed(e, values(e, "+ upstream", Median))})
	return t
}

func values(e *bench.ExperimentData, layer, metric string) []float64 {
	return e.Find(map[string]string{"layer": layer}).Values(metric)
}

// difference of two layers in each round; of a layer alone where less is "".
func difference(e *bench.ExperimentData, metric, more, less string) []float64 {
	a := values(e, more, metric)
	if less == "" {
		return a
	}
	b := values(e, less, metric)
	var out []float64
	for i := range min(len(a), len(b)) {
		out = append(out, a[i]-b[i])
	}
	return out
}

func addedBy(e *bench.ExperimentData, metric, more, less string) string {
	d := difference(e, metric, more, less)
	if metric == Median {
		return timed(e, d)
	}
	return interval(d)
}

// timed is a wall time, which only a quiet machine gives.
func timed(e *bench.ExperimentData, d []float64) string {
	for _, c := range e.Cells {
		if s, ok := c.Stats[Median]; ok && s.NotMeasured != "" {
			return "not measured"
		}
	}
	return interval(d)
}

func interval(d []float64) string {
	s := bench.Summarise(d)
	if s.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f (%.1f–%.1f)", s.Median, s.Low, s.High)
}

func share(d []float64, whole float64) string {
	if len(d) == 0 || !(whole > 0) {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", math.Round(100*bench.Median(d)/whole)+0) // +0: no minus before a nought
}
