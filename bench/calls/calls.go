// Package calls measures typed calls end to end: a client sends a record, the
// server reads all its fields and answers with another. ZAP records over ZAP
// stand beside JSON over HTTP/1.1, by each of the JSON libraries, served by our
// own transport and by fasthttp. The record is that of bench/codec; each side
// carries the same values, and every answer is compared.
package calls

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/identity"
	"github.com/hanzoai/pqgw/bench/link"
	"github.com/hanzoai/pqgw/bench/load"
)

// Bench is what `bench calls` runs.
var Bench = bench.Bench{
	Name: "calls", Title: "Typed calls end to end: ZAP against JSON", Order: 55,
	Quick: 14 * time.Second, Full: 2 * time.Minute, Run: run,
}

func init() { bench.Register(Bench) }

// Metrics.
const (
	ServerCPU = "server_cpu"
	ClientCPU = "client_cpu"
	PerSecond = "rate"
)

const (
	group   = tls.X25519MLKEM768
	ours    = "zap"
	workers = 16
)

func run(ctx context.Context, s *bench.Session) error {
	site, err := load.NewSite(ctx, s)
	if err != nil {
		return err
	}
	id, err := identity.New("ECDSA P-256")
	if err != nil {
		return err
	}
	server, err := site.Spawn(link.Gateway)(serverRole, load.OriginSettings{Host: site.Host(), Identity: id, Group: group})
	if err != nil {
		return err
	}
	var addrs map[string]string
	if err := server.Call(ctx, "addrs", nil, &addrs); err != nil {
		return err
	}
	client, err := load.StartClient(site.Spawn(link.Load))
	if err != nil {
		return err
	}
	e := bench.Experiment{
		Name: "calls", Title: "CPU of the server for each call", Share: 0.9,
		Note: "Warm connections; the server decodes every field of the request and encodes the answer. The client's CPU is our load generator's, which decodes neither.",
		Metrics: []bench.Metric{
			{Name: ServerCPU, Title: "server CPU", Unit: "µs/call", Kind: bench.CPU, Headline: true},
			{Name: ClientCPU, Title: "client CPU", Unit: "µs/call", Kind: bench.CPU},
			{Name: PerSecond, Title: "calls", Unit: "1/s", Kind: bench.Rate, Higher: true},
		},
		Plots:  []bench.Plot{{Kind: bench.Bars, Title: "Server CPU of a call (µs)", Metric: ServerCPU, X: "by", Series: "security"}},
		Versus: &bench.Versus{Subject: "by", Ours: ours, Match: []string{"security"}},
	}
	for _, w := range arms(id.Root) {
		w.Work.Addresses = site.Reach(link.Gateway, addrs[w.listener])
		e.Arms = append(e.Arms, bench.Arm{
			Name: w.by + ", " + w.security, Labels: map[string]string{"by": w.by, "security": w.security},
			Open: func(context.Context) (bench.Runner, error) {
				return bench.RunnerFunc(func(ctx context.Context, s bench.Slice) (bench.Sample, error) {
					return round(ctx, server, client, w.Work, s)
				}), nil
			},
		})
	}
	_, err = s.Measure(ctx, e)
	return err
}

func round(ctx context.Context, server *bench.Child, client *load.Client, w load.Work, s bench.Slice) (bench.Sample, error) {
	if err := client.Connect(ctx, w); err != nil {
		return bench.Sample{}, err
	}
	before, err := cpu(server, client)
	if err != nil {
		return bench.Sample{}, err
	}
	done, err := client.Closed(ctx, s)
	if err != nil {
		return bench.Sample{}, err
	}
	after, err := cpu(server, client)
	if err != nil {
		return bench.Sample{}, err
	}
	each := func(i int) float64 {
		return float64(after[i]-before[i]) / float64(time.Microsecond) / float64(done.Ops)
	}
	return bench.Sample{Ops: done.Ops, Seconds: done.Wall.Seconds(), Values: map[string]float64{
		ServerCPU: each(0), ClientCPU: each(1), PerSecond: float64(done.Ops) / done.Wall.Seconds(),
	}}, client.Disconnect(ctx)
}

func cpu(server *bench.Child, client *load.Client) (both [2]time.Duration, err error) {
	if both[0], err = server.CPU(); err == nil {
		both[1], err = client.CPU()
	}
	return both, err
}
