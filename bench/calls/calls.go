// Package calls measures typed calls end to end: a client sends a record, the
// server reads all its fields and answers with another. ZAP records over ZAP
// stand beside JSON over HTTP/1.1, by each of the JSON libraries, served by our
// own transport and by fasthttp. The record is that of bench/codec; each side
// carries the same values, and every answer is compared.
package calls

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/link"
	"github.com/hanzoai/pqgw/bench/load"
)

// Bench is what `bench calls` runs.
var Bench = bench.Bench{
	Name: "calls", Title: "Typed calls end to end: ZAP against JSON", Order: 55,
	Quick: 14 * time.Second, Full: 2 * time.Minute, Linkable: true, Run: run,
}

func init() { bench.Register(Bench) }

// Metrics.
const (
	ServerCPU = "server_cpu"
	ClientCPU = "client_cpu"
	PerSecond = "rate"
)

const (
	zap     = "zap"
	workers = 16
)

func run(ctx context.Context, s *bench.Session) error {
	var server *bench.Child
	var client *load.Client
	var addrs map[string]string
	l, err := load.NewLab(ctx, s, func(l *load.Lab) (err error) {
		if server, err = l.Spawn(link.Gateway)(serverRole, load.OriginSettings{Host: l.Host(), Identity: l.Identity, Group: load.Group}); err != nil {
			return err
		}
		if err = server.Call(ctx, "addrs", nil, &addrs); err != nil {
			return err
		}
		client, err = l.Client()
		return err
	})
	if err != nil {
		return err
	}
	defer l.Close()
	e := bench.Experiment{
		Name: "calls", Title: "CPU of the server for each call", Share: 0.9,
		Note: "Warm connections; the server decodes every field of the request and encodes the answer. The client's CPU is our load generator's, which decodes neither.",
		Metrics: []bench.Metric{
			{Name: ServerCPU, Title: "server CPU", Unit: "µs/call", Kind: bench.CPU, Headline: true},
			{Name: ClientCPU, Title: "client CPU", Unit: "µs/call", Kind: bench.CPU},
			{Name: PerSecond, Title: "calls", Unit: "1/s", Kind: bench.Rate, Higher: true},
		},
		Plots:  []bench.Plot{{Kind: bench.Bars, Title: "Server CPU of a call (µs)", Metric: ServerCPU, X: "by", Series: "security"}},
		Versus: &bench.Versus{Subject: "by", Ours: zap, Match: []string{"security"}},
	}
	for _, w := range arms(l.Identity.Root) {
		w.Work.Addresses = l.Reach(link.Gateway, addrs[w.listener])
		e.Arms = append(e.Arms, bench.Arm{
			Name: w.by + ", " + w.security, Labels: map[string]string{"by": w.by, "security": w.security},
			Open: func(context.Context) (bench.Runner, error) {
				return bench.RunnerFunc(func(ctx context.Context, s bench.Slice) (bench.Sample, error) {
					return round(ctx, server, client, w.Work, s)
				}), nil
			},
		})
	}
	e.Rounds = fullRounds
	if s.Quick {
		e.Rounds = quickRounds
	}
	s.Note("%s", l.Describe())
	data, err := s.Measure(ctx, e)
	if err != nil {
		return err
	}
	load.MarkLimits(data)
	s.Table(against(data))
	return nil
}

// Rounds are many and short: what differs between arms is a microsecond, and the
// machine drifts by more within a minute.
const (
	fullRounds  = 45
	quickRounds = 11
)

// against tells how much more of the server's CPU a call takes by JSON, from the
// pairs of each round.
func against(e *bench.ExperimentData) bench.Table {
	t := bench.Table{
		Title:   "Server CPU of a JSON call over that of a ZAP call",
		Note:    "Above 1 ZAP takes less. In both the kernel's part, a read and a write of a socket, is the most of it.",
		Columns: []string{"by", inClear, overTLS},
	}
	ours := map[string][]float64{}
	rows := map[string]int{}
	for _, c := range e.Cells {
		by, security := c.Labels["by"], c.Labels["security"]
		values := c.Values(ServerCPU)
		if by == zap {
			ours[security] = values
			continue
		}
		if _, there := rows[by]; !there {
			rows[by] = len(t.Rows)
			t.Rows = append(t.Rows, []string{by, "–", "–"})
		}
		if r := bench.Ratio(values, ours[security]); r.N > 0 {
			t.Rows[rows[by]][slices.Index(t.Columns, security)] = fmt.Sprintf("%.2f× (%.2f–%.2f)", r.Median, r.Low, r.High)
		}
	}
	return t
}

func round(ctx context.Context, server *bench.Child, client *load.Client, w load.Work, s bench.Slice) (bench.Sample, error) {
	if err := client.Connect(ctx, w); err != nil {
		return bench.Sample{}, err
	}
	var done load.Done
	spent, err := bench.Spent(func() (err error) {
		done, err = client.Closed(ctx, s)
		return err
	}, server, client)
	if err != nil {
		return bench.Sample{}, err
	}
	return bench.Sample{Ops: done.Ops, Seconds: done.Wall.Seconds(), Values: map[string]float64{
		ServerCPU: bench.Micros(spent[0], done.Ops), ClientCPU: bench.Micros(spent[1], done.Ops), PerSecond: float64(done.Ops) / done.Wall.Seconds(),
		load.Busy: spent[1].Seconds() / done.Wall.Seconds(),
	}}, client.Disconnect(ctx)
}
