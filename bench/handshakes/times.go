package handshakes

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	"github.com/hanzoai/pqgw/bench"
)

// distances are the round trip times that handshakes are timed over; the
// first and the last give the number of round trips.
func distances(quick bool) []time.Duration {
	if quick {
		return quickDistances
	}
	return allDistances
}

// quickDistances, shorter in tests, let three rounds of all arms fit into ten seconds.
var quickDistances = []time.Duration{5 * time.Millisecond, 25 * time.Millisecond}

// allDistances are those of a full run.
var allDistances = []time.Duration{10 * time.Millisecond, 40 * time.Millisecond, 100 * time.Millisecond}

func distanceMetric(rtt time.Duration) string { return fmt.Sprintf("time_%dms", rtt.Milliseconds()) }

// timedGroups are the groups whose time is measured: the others send flights
// of sizes between theirs.
var timedGroups = []tls.CurveID{tls.X25519, tls.X25519MLKEM768, tls.SecP384r1MLKEM1024}

// timeExperiment measures how long a client waits, over lines of several
// lengths.
func (l *lab) timeExperiment() bench.Experiment {
	groups := timedGroups
	if l.session.Quick {
		groups = groups[:2]
	}
	e := bench.Experiment{
		Name: "time", Title: "From connect to the answer, by round trip time", Share: shareTimes,
		Note: "Through a relay that delays; it charges TCP's own handshake, which it cannot delay, as one round trip. " +
			"Round trips are the growth of the least time from the shortest line to the longest, over the growth of the line.",
		Metrics: []bench.Metric{
			{Name: trips, Title: "round trips", Unit: "", Kind: bench.Count},
			{Name: "time_0ms", Title: "time on the loopback", Unit: "ms", Kind: bench.Time},
		},
		Plots: []bench.Plot{
			{Kind: bench.Bars, Title: "Round trips from connect to the answer", Metric: trips, X: "kind", Series: "arm"},
			{Kind: bench.CDF, Title: "Time on the loopback (ms)", Metric: "time_0ms", X: "kind", Series: "arm", Where: map[string]string{"kind": full}},
		},
	}
	for _, rtt := range distances(l.session.Quick) {
		e.Metrics = append(e.Metrics, bench.Metric{Name: distanceMetric(rtt), Title: "time at " + rtt.String(), Unit: "ms", Kind: bench.Time})
	}
	if l.session.Quick {
		e.Rounds = 3
	}
	for _, transport := range transports {
		for _, kind := range kinds {
			for _, group := range groups {
				if kind == early && transport != overQUIC {
					continue
				}
				e.Arms = append(e.Arms, l.timeArm(task{Transport: transport, Group: group, Auth: authECDSA, Kind: kind}))
			}
		}
	}
	return e
}

func (l *lab) timeArm(t task) bench.Arm {
	labels := t.labels()
	labels["arm"] = t.Transport + " " + labels["group"]
	return bench.Arm{Name: t.name(), Labels: labels, Missing: t.missing(), Open: func(ctx context.Context) (bench.Runner, error) {
		return l.newTimer(ctx, t)
	}}
}

// timer is a time arm with its lines.
type timer struct {
	lab   *lab
	task  task
	lines map[time.Duration]place
}

func (l *lab) newTimer(ctx context.Context, t task) (*timer, error) {
	r := &timer{lab: l, task: t, lines: make(map[time.Duration]place)}
	for _, rtt := range distances(l.session.Quick) {
		var far place
		if err := l.relay.Call(ctx, "open", line{Place: l.places[t.Group][t.Auth], RTT: rtt}, &far); err != nil {
			return nil, err
		}
		r.lines[rtt] = far
	}
	return r, nil
}

// Close has nothing to end: the relays end with their process.
func (r *timer) Close() error { return nil }

// Round times handshakes one after the other on the loopback, and a few at
// the same time over each line.
func (r *timer) Round(ctx context.Context, s bench.Slice) (bench.Sample, error) {
	sample := bench.Sample{Values: make(map[string]float64), Lists: make(map[string][]float64)}
	near := bench.Slice{For: s.For / 8, Ops: s.Ops}
	latencies, err := r.run(ctx, r.lab.places[r.task.Group][r.task.Auth], near, 1)
	if err != nil {
		return sample, err
	}
	sample.Ops = len(latencies)
	sample.Values["time_0ms"], sample.Lists["time_0ms"] = bench.Median(latencies), latencies
	all := distances(r.lab.session.Quick)
	var least []float64
	for _, rtt := range all {
		// One each of parallel connections: nobody waits for a CPU on such a line.
		latencies, err := r.run(ctx, r.lines[rtt], bench.Slice{Ops: parallel, For: time.Minute}, parallel)
		if err != nil {
			return sample, fmt.Errorf("over %v: %w", rtt, err)
		}
		sample.Ops += len(latencies)
		least = append(least, slices.Min(latencies))
		sample.Values[distanceMetric(rtt)], sample.Lists[distanceMetric(rtt)] = bench.Median(latencies), latencies
	}
	last := len(all) - 1
	sample.Values[trips] = (least[last] - least[0]) / float64((all[last]-all[0])/time.Millisecond)
	return sample, nil
}

func (r *timer) run(ctx context.Context, to place, s bench.Slice, at int) ([]float64, error) {
	o := order{Task: r.task, TCP: to.TCP, UDP: to.UDP, Root: r.lab.identities[r.task.Auth].Root, Slice: s, Parallel: at}
	if err := r.lab.both(ctx, "prepare", o, nil); err != nil {
		return nil, err
	}
	var did outcome
	err := r.lab.both(ctx, "run", o, &did)
	return did.Latencies, err
}
