package lifetime

import (
	"fmt"
	"math"
	"strconv"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/handshake"
)

// shares are those whose crossings are told.
var shares = []float64{0.1, 0.01, 0.001}

// Bill is what connections cost one side, in µs of CPU.
type Bill struct {
	Handshake float64 // of the hybrid group
	PQ        float64 // the part of it that the classical group does not have
	Request   float64 // each request on a warm connection
	Body      int     // bytes of each answer
}

// Share is the post-quantum part of the bill of a connection with n requests.
func (b Bill) Share(n float64) float64 { return b.PQ / (b.Handshake + n*b.Request) }

// Crossing is the number of requests from which on the post-quantum part is
// below a share; 0 where it is from the first.
func (b Bill) Crossing(share float64) float64 {
	return max(0, (b.PQ/share-b.Handshake)/b.Request)
}

// Bills are a side's in each round, from the shortest and the longest life of
// an experiment; side is ServerCPU or ClientCPU.
func Bills(e *bench.ExperimentData, side string) []Bill {
	shortest, longest, body := ends(e)
	if longest <= shortest {
		return nil
	}
	at := func(group, n int) []float64 {
		c := e.Find(map[string]string{"group": handshake.GroupName(Groups[group]), "requests": strconv.Itoa(n)})
		if c == nil {
			return nil
		}
		return c.Values(perConnection + side)
	}
	short, long, classical := at(1, shortest), at(1, longest), at(0, shortest)
	var out []Bill
	for i := range min(len(short), len(long), len(classical)) {
		b := Bill{Request: (long[i] - short[i]) / float64(longest-shortest), PQ: short[i] - classical[i], Body: body}
		b.Handshake = short[i] - float64(shortest)*b.Request
		out = append(out, b)
	}
	return out
}

// ends are the shortest and the longest life of an experiment, and the bytes
// of its answers.
func ends(e *bench.ExperimentData) (shortest, longest, body int) {
	for i, c := range e.Cells {
		n, err := strconv.Atoi(c.Labels["requests"])
		if err != nil {
			continue
		}
		if i == 0 || n < shortest {
			shortest = n
		}
		longest = max(longest, n)
		body, _ = strconv.Atoi(c.Labels["body"])
	}
	return shortest, longest, body
}

// crossings tabulates after how many requests and bytes the post-quantum part
// of the bill is below each share.
func crossings(s *bench.Session, requests, bytes *bench.ExperimentData) {
	t := bench.Table{
		Title: "After how much on one connection the post-quantum part of the bill is below a share",
		Note: "From a handshake's and a request's cost in the same round; the part below a percent is far less than two runs of 10,000 requests " +
			"differ by, so it is calculated, not seen. “0” means from the first request on.",
		Columns: []string{"side", "answers", "handshake, µs", "of it post-quantum, µs", "each request, µs"},
	}
	for _, share := range shares {
		t.Columns = append(t.Columns, fmt.Sprintf("requests to %v %%", 100*share))
	}
	t.Columns = append(t.Columns, "bytes to 1 %")
	for _, side := range []struct{ title, metric string }{{"server", ServerCPU}, {"client", ClientCPU}} {
		for _, e := range []*bench.ExperimentData{requests, bytes} {
			if bills := Bills(e, side.metric); len(bills) > 0 {
				t.Rows = append(t.Rows, append([]string{side.title, fmt.Sprintf("%d KiB", bills[0].Body>>10)}, row(bills)...))
			}
		}
	}
	s.Table(t)
}

// shareCurve adds the post-quantum part of the bill by the number of requests,
// as the costs of each round have it.
func shareCurve(s *bench.Session, experiments ...*bench.ExperimentData) {
	d := &bench.ExperimentData{
		Name: "share", Title: "The post-quantum part of the server's bill, by requests on a connection",
		Note:    "Calculated, as the crossings are.",
		Metrics: []bench.Metric{{Name: "share", Title: "post-quantum part", Unit: "%", Kind: bench.CPU}},
		Plots:   []bench.Plot{{Kind: bench.Curve, Title: "Post-quantum part of the server's CPU (%)", Metric: "share", X: "requests", Series: "answers"}},
	}
	for _, e := range experiments {
		bills := Bills(e, ServerCPU)
		if len(bills) == 0 {
			continue
		}
		answers := fmt.Sprintf("%d KiB", bills[0].Body>>10)
		for n := 1; n <= 100_000; n *= 10 {
			c := &bench.Cell{Name: fmt.Sprintf("%s, %d requests", answers, n), Labels: map[string]string{"answers": answers, "requests": strconv.Itoa(n)}}
			c.Stats = map[string]bench.Stat{"share": over(bills, func(b Bill) float64 { return 100 * b.Share(float64(n)) })}
			d.Cells = append(d.Cells, c)
		}
	}
	s.Data().Experiments = append(s.Data().Experiments, d)
}

// over sums up what a function makes of each round's bill.
func over(bills []Bill, f func(Bill) float64) bench.Stat {
	var values []float64
	for _, b := range bills {
		values = append(values, f(b))
	}
	return bench.Summarise(values)
}

func row(bills []Bill) []string {
	out := []string{
		whole(over(bills, func(b Bill) float64 { return b.Handshake })),
		whole(over(bills, func(b Bill) float64 { return b.PQ })),
		fmt.Sprintf("%.1f", over(bills, func(b Bill) float64 { return b.Request }).Median),
	}
	for _, share := range shares {
		out = append(out, whole(over(bills, func(b Bill) float64 { return b.Crossing(share) })))
	}
	mib := over(bills, func(b Bill) float64 { return b.Crossing(0.01) * float64(b.Body) / (1 << 20) })
	return append(out, fmt.Sprintf("%.2f MiB (%.2f–%.2f)", mib.Median, mib.Low, mib.High))
}

func whole(s bench.Stat) string {
	if math.IsInf(s.Median, 0) || math.IsNaN(s.Median) {
		return "–"
	}
	return fmt.Sprintf("%.0f (%.0f–%.0f)", math.Ceil(s.Median), s.Low, s.High)
}
