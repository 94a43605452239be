package throughput

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/link"
	"github.com/hanzoai/pqgw/bench/load"
)

// Metrics.
const (
	ServerCPU = "server_cpu"
	PerGB     = "server_cpu_gb"
	ClientCPU = "client_cpu"
	Allocs    = "allocs"
	GCs       = "gcs"
	PerSecond = "rate"
	Goodput   = "goodput"
	LinkShare = "link_share"
	// Shares of a CPU: load generator and origin share one.
	serverBusy = "server_busy"
	clientBusy = "client_busy"
	originBusy = "origin_busy"
)

var metrics = []bench.Metric{
	{Name: ServerCPU, Title: "server CPU", Unit: "µs/request", Kind: bench.CPU, Headline: true},
	{Name: PerGB, Title: "server CPU", Unit: "s/GB", Kind: bench.CPU},
	{Name: ClientCPU, Title: "client CPU", Unit: "µs/request", Kind: bench.CPU},
	{Name: Allocs, Title: "server allocations", Unit: "each request", Kind: bench.Count},
	{Name: GCs, Title: "server GC cycles", Unit: "each 1000 requests", Kind: bench.Count},
	{Name: PerSecond, Title: "requests", Unit: "1/s", Kind: bench.Rate, Higher: true},
	{Name: Goodput, Title: "goodput", Unit: "Gbit/s", Kind: bench.Rate, Higher: true},
}

// closedLoop is the matrix of transports, sizes, directions and ways.
func (l *lab) closedLoop() bench.Experiment {
	e := bench.Experiment{
		Name: "closed", Title: "Server CPU for each request and each gigabyte, closed loop", Share: 0.8, Metrics: metrics,
		Note: "The server is the gateway, or the server that is asked directly. The null server answers with what it made once: it shows the load generator's own limit.",
		Plots: []bench.Plot{
			{Kind: bench.Bars, Title: "Server CPU of a request through the gateway, 1 KiB (µs)", Metric: ServerCPU, X: "transport", Series: "direction", Where: map[string]string{"way": through, "size": "1 KiB"}},
			{Kind: bench.Bars, Title: "Server CPU of a gigabyte through the gateway, bodies of 1 MiB (s)", Metric: PerGB, X: "transport", Series: "direction", Where: map[string]string{"way": through, "size": "1 MiB"}},
		},
	}
	if l.Link() != nil && l.Link().Rate > 0 {
		e.Metrics = append(e.Metrics[:len(e.Metrics):len(e.Metrics)], bench.Metric{Name: LinkShare, Title: "share of the link", Unit: "%", Kind: bench.Rate, Higher: true})
	}
	list := sizes
	if l.session.Quick {
		list, e.Rounds = quickSizes, 3
	}
	if l.Link() != nil {
		list = linkSizes
		if !l.session.Quick {
			e.Rounds = linkRounds
		}
	}
	if len(l.filter.Sizes) > 0 {
		list = l.filter.Sizes
	}
	for _, size := range list {
		e.Arms = append(e.Arms, l.arm(load.Transports[0], null, size, false, l.closed))
		for _, t := range l.filter.transports() {
			for _, upload := range []bool{false, true} {
				for _, way := range []string{direct, through} {
					e.Arms = append(e.Arms, l.arm(t, way, size, upload, l.closed))
				}
			}
		}
	}
	return e
}

// loop drives the load of an arm once its connections are there.
type loop func(ctx context.Context, size int, s bench.Slice, server *bench.Child) (bench.Sample, error)

func (l *lab) arm(t load.Transport, way string, size int, upload bool, run loop) bench.Arm {
	direction := "download"
	if upload {
		direction = "upload"
	}
	name := fmt.Sprintf("%s, %s %s, %s", t.Name, direction, sizeName(size), way)
	a := bench.Arm{
		Name: name, Missing: t.Missing(),
		Labels: map[string]string{"transport": t.Name, "direction": direction, "size": sizeName(size), "way": way},
	}
	w := load.Work{Transport: t.Name, Root: l.Identity.Root, Group: load.Group, Size: size, Upload: upload, Workers: manyWorkers}
	if size >= largeBody {
		w.Workers = fewWorkers
	}
	server, listener := l.gateway.Child, ""
	switch way {
	case through:
		listener = l.gateway.Addrs[t.Listener()]
	case direct:
		server, listener = l.direct.Child, l.direct.Addrs[t.Listener()]
	case null:
		server, listener = l.direct.Child, l.direct.Addrs["null"]
	}
	w.Addresses = l.Reach(link.Gateway, listener)
	a.Open = func(context.Context) (bench.Runner, error) {
		return bench.RunnerFunc(func(ctx context.Context, s bench.Slice) (bench.Sample, error) {
			// Not kept from round to round: a server closes what lies idle for the
			// minutes that all other arms take.
			if err := l.client.Connect(ctx, w); err != nil {
				return bench.Sample{}, err
			}
			sample, err := run(ctx, size, s, server)
			if e := l.client.Disconnect(ctx); err == nil {
				err = e
			}
			return sample, err
		}), nil
	}
	return a
}

// cost is what a load has taken.
type cost struct {
	server, client, origin time.Duration
	memory                 bench.Memory // of the server, the difference
}

// around runs a load and reads before and after.
func (l *lab) around(ctx context.Context, server *bench.Child, run func() error) (c cost, err error) {
	before, err := server.Memory(ctx)
	if err != nil {
		return c, err
	}
	spent, err := bench.Spent(run, server, l.client, l.origin)
	if err != nil {
		return c, err
	}
	after, err := server.Memory(ctx)
	c = cost{server: spent[0], client: spent[1], origin: spent[2]}
	c.memory = bench.Memory{Mallocs: after.Mallocs - before.Mallocs, GCs: after.GCs - before.GCs}
	return c, err
}

// Across a link rounds are few and long, and begin once the windows have grown: what
// is asked for is what a connection carries, not how it starts.
const (
	linkRounds = 9
	growth     = 0.25 // of a slice
)

func (l *lab) closed(ctx context.Context, size int, s bench.Slice, server *bench.Child) (bench.Sample, error) {
	var done load.Done
	if l.Link() != nil {
		before := bench.Slice{For: time.Duration(growth * float64(s.For)), Ops: s.Ops}
		if _, err := l.client.Closed(ctx, before); err != nil {
			return bench.Sample{}, err
		}
		s.For -= before.For
	}
	c, err := l.around(ctx, server, func() (err error) {
		done, err = l.client.Closed(ctx, s)
		return err
	})
	if err != nil {
		return bench.Sample{}, err
	}
	return l.sample(c, done, size), nil
}

func (l *lab) sample(c cost, done load.Done, size int) bench.Sample {
	ops, wall := float64(done.Ops), done.Wall.Seconds()
	v := map[string]float64{
		ServerCPU: bench.Micros(c.server, done.Ops),
		ClientCPU: bench.Micros(c.client, done.Ops),
		Allocs:    float64(c.memory.Mallocs) / ops,
		GCs:       1000 * float64(c.memory.GCs) / ops,
		PerSecond: ops / wall,

		serverBusy: c.server.Seconds() / wall,
		clientBusy: c.client.Seconds() / wall,
		originBusy: c.origin.Seconds() / wall,
		load.Busy:  (c.client + c.origin).Seconds() / wall,
	}
	if size > 0 {
		bytes := ops * float64(size)
		v[PerGB] = c.server.Seconds() / bytes * 1e9
		v[Goodput] = 8 * bytes / wall / 1e9
		if lab := l.Link(); lab != nil && lab.Rate > 0 {
			v[LinkShare] = 100 * 8 * bytes / wall / float64(int(lab.Rate)*lab.Links)
		}
	}
	return bench.Sample{Ops: done.Ops, Seconds: wall, Values: v}
}

func sizeName(size int) string {
	switch {
	case size >= 1<<20:
		return fmt.Sprintf("%d MiB", size>>20)
	case size >= 1<<10:
		return fmt.Sprintf("%d KiB", size>>10)
	}
	return fmt.Sprintf("%d B", size)
}

// Times at a constant rate.
const (
	p50  = "p50"
	p99  = "p99"
	p999 = "p999"
	late = "late"
)

// openBody is the size of bodies at a constant rate; loadShare the part of what
// the slowest transport serves in a closed loop that all are asked for.
const (
	openBody  = 1 << 10
	loadShare = 0.5
)

// constantRate asks all transports for the same rate.
func (l *lab) constantRate(closed *bench.ExperimentData) bench.Experiment {
	rate := math.Inf(1) // nothing is known
	for _, c := range closed.Cells {
		if c.Labels["way"] == through && c.Labels["size"] == sizeName(openBody) && len(c.Samples) > 0 {
			rate = min(rate, loadShare*bench.Median(c.Values(PerSecond)))
		}
	}
	e := bench.Experiment{
		Name: "open", Share: 0.15,
		Title: fmt.Sprintf("Times at %.0f requests of 1 KiB a second, through the gateway and directly", rate),
		Note:  "Half of what the slowest transport serves in a closed loop. Times run from when a request was due (coordinated omission corrected).",
		Metrics: []bench.Metric{
			{Name: ServerCPU, Title: "server CPU", Unit: "µs/request", Kind: bench.CPU, Headline: true},
			{Name: p50, Title: "median", Unit: "µs", Kind: bench.Time},
			{Name: p99, Title: "99 %", Unit: "µs", Kind: bench.Time},
			{Name: p999, Title: "99.9 %", Unit: "µs", Kind: bench.Time},
			{Name: late, Title: "due while no worker was free", Unit: "%", Kind: bench.Time},
		},
		Plots: []bench.Plot{{Kind: bench.Bars, Title: "Median time at a constant rate (µs)", Metric: p50, X: "transport", Series: "way"}},
	}
	if l.session.Quick {
		e.Rounds = 3
	}
	for _, t := range l.filter.transports() {
		for _, way := range []string{direct, through} {
			e.Arms = append(e.Arms, l.arm(t, way, openBody, false, l.paced(rate)))
		}
	}
	return e
}

func (l *lab) paced(rate float64) loop {
	return func(ctx context.Context, size int, s bench.Slice, server *bench.Child) (bench.Sample, error) {
		if math.IsInf(rate, 1) {
			return bench.Sample{}, fmt.Errorf("no rate is known: nothing was measured in a closed loop")
		}
		p := load.Pace{Rate: rate, For: s.For}
		if s.Ops > 0 {
			p.For = min(p.For, time.Duration(float64(s.Ops)/rate*float64(time.Second)))
		}
		var timed load.Timed
		c, err := l.around(ctx, server, func() (err error) {
			timed, err = l.client.Open(ctx, p)
			return err
		})
		if err != nil {
			return bench.Sample{}, err
		}
		sample := l.sample(c, timed.Done, size)
		for name, d := range map[string]time.Duration{p50: timed.P50, p99: timed.P99, p999: timed.P999} {
			sample.Values[name] = float64(d) / float64(time.Microsecond)
		}
		sample.Values[late] = 100 * timed.Late
		return sample, nil
	}
}
