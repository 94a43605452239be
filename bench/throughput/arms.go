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
	// Shares of a CPU, of the server's and of that of load generator and origin.
	serverBusy = "server_busy"
	busy       = "generator_busy"
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
	if l.site.Lab != nil && l.site.Lab.Rate > 0 {
		e.Metrics = append(e.Metrics[:len(e.Metrics):len(e.Metrics)], bench.Metric{Name: LinkShare, Title: "share of the link", Unit: "%", Kind: bench.Rate, Higher: true})
	}
	list := sizes
	if l.session.Quick {
		list, e.Rounds = quickSizes, 3
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
	w := load.Work{Transport: t.Name, Root: l.id.Root, Group: group, Size: size, Upload: upload, Workers: manyWorkers}
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
	w.Addresses = l.site.Reach(link.Gateway, listener)
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

// account is what is read before and after.
type account struct {
	server, client, origin time.Duration
	memory                 bench.Memory
}

func (l *lab) account(ctx context.Context, server *bench.Child) (a account, err error) {
	if a.memory, err = server.Memory(ctx); err != nil {
		return a, err
	}
	if a.server, err = server.CPU(); err != nil {
		return a, err
	}
	if a.origin, err = l.origin.CPU(); err != nil {
		return a, err
	}
	a.client, err = l.client.CPU()
	return a, err
}

func (l *lab) closed(ctx context.Context, size int, s bench.Slice, server *bench.Child) (bench.Sample, error) {
	before, err := l.account(ctx, server)
	if err != nil {
		return bench.Sample{}, err
	}
	done, err := l.client.Closed(ctx, s)
	if err != nil {
		return bench.Sample{}, err
	}
	after, err := l.account(ctx, server)
	return l.sample(before, after, done, size), err
}

func (l *lab) sample(before, after account, done load.Done, size int) bench.Sample {
	ops, wall := float64(done.Ops), done.Wall.Seconds()
	micro := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / ops }
	v := map[string]float64{
		ServerCPU: micro(after.server - before.server),
		ClientCPU: micro(after.client - before.client),
		Allocs:    float64(after.memory.Mallocs-before.memory.Mallocs) / ops,
		GCs:       1000 * float64(after.memory.GCs-before.memory.GCs) / ops,
		PerSecond: ops / wall,

		serverBusy: (after.server - before.server).Seconds() / wall,
		busy:       (after.client - before.client + after.origin - before.origin).Seconds() / wall,
	}
	if size > 0 {
		bytes := ops * float64(size)
		v[PerGB] = (after.server - before.server).Seconds() / bytes * 1e9
		v[Goodput] = 8 * bytes / wall / 1e9
		if lab := l.site.Lab; lab != nil && lab.Rate > 0 {
			v[LinkShare] = 100 * 8 * bytes / wall / float64(int(lab.Rate)*lab.Links)
		}
	}
	return bench.Sample{Ops: done.Ops, Seconds: wall, Values: v}
}

// generatorLimit is the share of its one CPU from which on the load generator,
// not the server, may be what bounds a row's rate.
const generatorLimit = 0.9

// markLimits tells of rows that may show the load generator's limit.
func markLimits(e *bench.ExperimentData) {
	for _, c := range e.Cells {
		if m := bench.Median(c.Values(busy)); m >= generatorLimit && c.Labels["way"] != null {
			c.Notes = append(c.Notes, fmt.Sprintf("the load generator (with the origin) is at its limit: busy for %.0f %% of the time", 100*m))
		}
	}
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
		before, err := l.account(ctx, server)
		if err != nil {
			return bench.Sample{}, err
		}
		timed, err := l.client.Open(ctx, p)
		if err != nil {
			return bench.Sample{}, err
		}
		after, err := l.account(ctx, server)
		sample := l.sample(before, after, timed.Done, size)
		for name, d := range map[string]time.Duration{p50: timed.P50, p99: timed.P99, p999: timed.P999} {
			sample.Values[name] = float64(d) / float64(time.Microsecond)
		}
		sample.Values[late] = 100 * timed.Late
		return sample, err
	}
}
