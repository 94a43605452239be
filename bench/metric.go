package bench

// Kind says what a metric depends on.
type Kind string

// The kinds of metric.
const (
	CPU   Kind = "cpu"   // time computed, from the kernel: holds on a busy machine
	Count Kind = "count" // bytes, packets, allocations: holds anywhere
	Rate  Kind = "rate"  // operations or bytes a second: needs a quiet machine
	Time  Kind = "time"  // wall time: needs a quiet machine
)

// NeedsQuiet reports whether the metric means nothing on a busy machine.
func (k Kind) NeedsQuiet() bool { return k == Rate || k == Time }

// Metric describes one measured quantity.
type Metric struct {
	Name     string `json:"name"`  // key in samples: "server_cpu"
	Title    string `json:"title"` // for readers: "server CPU"
	Unit     string `json:"unit"`  // "µs/op", "B", "Gbit/s"
	Kind     Kind   `json:"kind"`
	Higher   bool   `json:"higher,omitempty"` // more is better
	Headline bool   `json:"headline,omitempty"`
}

// PlotKind is the form of a plot.
type PlotKind string

// The forms a report can draw.
const (
	Bars      PlotKind = "bars"      // one bar for each X, beside each other by Series
	Stack     PlotKind = "stack"     // one bar for each X, Series on top of each other
	CDF       PlotKind = "cdf"       // distribution of a metric's lists, one line for each Series
	Curve     PlotKind = "curve"     // X is a number, both axes logarithmic, one line for each Series
	Waterfall PlotKind = "waterfall" // each X adds to what stands before it, in the order of cells
)

// Plot asks the report to draw an experiment.
type Plot struct {
	Kind   PlotKind          `json:"kind"`
	Title  string            `json:"title"`
	Metric string            `json:"metric"`
	X      string            `json:"x"`                // label that tells bars or points apart
	Series string            `json:"series,omitempty"` // label that tells colours apart
	Where  map[string]string `json:"where,omitempty"`  // only cells with these labels
}

// Versus lets the report say where we lose: cells that agree in the Match
// labels are compared, ours with each of the others, by the headline metrics.
type Versus struct {
	Subject string   `json:"subject"` // label that names who was measured
	Ours    string   `json:"ours"`    // its value for us
	Match   []string `json:"match"`
}
