package compare

import (
	"context"
	"fmt"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/load"
)

// Metrics.
const (
	ServerCPU = "server_cpu"
	PerSecond = "rate"
)

// work is what gateways are put to.
type work struct {
	name      string
	transport string // "" for connections
	size      int
	resumed   bool // of connections
}

// works are all, or those that a quick run has time for.
func works(quick bool) []work {
	var out []work
	for _, t := range load.Transports {
		for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
			if quick && size == 64<<10 {
				continue
			}
			out = append(out, work{name: fmt.Sprintf("%s, %s", t.Name, map[int]string{1 << 10: "1 KiB", 64 << 10: "64 KiB", 1 << 20: "1 MiB"}[size]), transport: t.Name, size: size})
		}
	}
	return append(out, work{name: "full handshake"}, work{name: "resumed handshake", resumed: true})
}

// Workers of the load: requests, or connections, at a time.
const (
	manyWorkers = 32
	fewWorkers  = 8 // of large bodies and of handshakes
)

func (l *lab) experiment() bench.Experiment {
	e := bench.Experiment{
		Name: "compare", Title: "CPU of the gateway for each request, or each connection with one request", Share: 0.9,
		Metrics: []bench.Metric{
			{Name: ServerCPU, Title: "gateway CPU", Unit: "µs/operation", Kind: bench.CPU, Headline: true},
			{Name: PerSecond, Title: "operations", Unit: "1/s", Kind: bench.Rate, Higher: true},
		},
		Plots:  []bench.Plot{{Kind: bench.Bars, Title: "CPU of the gateway for each operation (µs)", Metric: ServerCPU, X: "work", Series: "gateway"}},
		Versus: &bench.Versus{Subject: "gateway", Ours: ours, Match: []string{"work"}},
	}
	if l.session.Quick {
		e.Rounds = 3
	}
	for _, w := range works(l.session.Quick) {
		for _, x := range l.subjects {
			if a, ok := l.arm(w, x); ok {
				e.Arms = append(e.Arms, a)
			}
		}
	}
	return e
}

// arm is false for work that the gateway does not offer by its nature: others
// speak no ZAP.
func (l *lab) arm(w work, x *subject) (bench.Arm, bool) {
	a := bench.Arm{
		Name: w.name + ": " + x.name, Missing: x.missing,
		Labels: map[string]string{"work": w.name, "gateway": x.name},
	}
	run := l.connections(w, x)
	if w.transport != "" {
		t, err := load.Find(w.transport)
		if err != nil || t.Listener() == "zap" && x.zap == "" || x.name != ours && (t.Scheme == "zap+tls" || t.Scheme == "zap+quic") {
			return a, false
		}
		if x.name == ours {
			a.Missing = t.Missing()
		}
		run = l.requests(w, t, x)
	}
	a.Open = func(context.Context) (bench.Runner, error) { return run, nil }
	return a, true
}

func (l *lab) requests(w work, t load.Transport, x *subject) bench.RunnerFunc {
	k := load.Work{Transport: t.Name, Root: l.Identity.Root, Group: load.Group, Size: w.size, Workers: manyWorkers}
	if w.size >= 1<<20 {
		k.Workers = fewWorkers
	}
	k.Addresses = []string{map[string]string{"clear": x.clear, "zap": x.zap, "tls": x.secure}[t.Listener()]}
	return func(ctx context.Context, s bench.Slice) (bench.Sample, error) {
		if err := l.client.Connect(ctx, k); err != nil {
			return bench.Sample{}, err
		}
		sample, err := l.cost(x, func() (load.Done, error) { return l.client.Closed(ctx, s) })
		if e := l.client.Disconnect(ctx); err == nil {
			err = e
		}
		return sample, err
	}
}

func (l *lab) connections(w work, x *subject) bench.RunnerFunc {
	h := load.Handshakes{Address: x.secure, Root: l.Identity.Root, Group: load.Group, Resumed: w.resumed, Workers: fewWorkers}
	return func(ctx context.Context, s bench.Slice) (bench.Sample, error) {
		h.Slice = s
		return l.cost(x, func() (load.Done, error) { return l.client.Handshakes(ctx, h) })
	}
}

// cost reads the gateway's CPU around what the load does.
func (l *lab) cost(x *subject, run func() (load.Done, error)) (bench.Sample, error) {
	var done load.Done
	spent, err := bench.Spent(func() (err error) {
		done, err = run()
		return err
	}, x.process, l.client, l.origin)
	if err != nil {
		return bench.Sample{}, err
	}
	return bench.Sample{Ops: done.Ops, Seconds: done.Wall.Seconds(), Values: map[string]float64{
		ServerCPU: bench.Micros(spent[0], done.Ops), PerSecond: float64(done.Ops) / done.Wall.Seconds(),
		load.Busy: (spent[1] + spent[2]).Seconds() / done.Wall.Seconds(),
	}}, nil
}
