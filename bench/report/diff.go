package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/hanzoai/pqgw/bench"
)

// Change is one metric of one cell in two runs.
type Change struct {
	Bench      string     `json:"bench"`
	Experiment string     `json:"experiment"`
	Cell       string     `json:"cell"`
	Metric     string     `json:"metric"`
	Kind       bench.Kind `json:"kind"`
	Before     bench.Stat `json:"before"`
	After      bench.Stat `json:"after"`
	// Ratio is after over before, with its interval; Worse the same, turned so
	// that above 1 is worse.
	Ratio bench.Stat `json:"ratio"`
	Worse bench.Stat `json:"worse"`
	// Regressed says that the whole interval is beyond what was allowed.
	Regressed bool `json:"regressed"`
}

// Changed says that the interval leaves out 1.
func (c Change) Changed() bool { return c.Ratio.Sure() && (c.Ratio.Low > 1 || c.Ratio.High < 1) }

// Difference of two runs.
type Difference struct {
	MaxRegression float64  `json:"max_regression"`
	Warnings      []string `json:"warnings,omitempty"`
	// Spread is the median over CPU cells of how far their medians are apart:
	// how well two runs agree.
	Spread    float64  `json:"spread"`
	Regressed int      `json:"regressed"`
	Changes   []Change `json:"changes"`
	Only      []string `json:"only,omitempty"` // cells that only one of the runs has
}

// Diff compares two runs cell by cell. Cells whose metric was not measured in
// both are left out. maxRegression is a share: 0.1 lets a cell be 10 % worse.
func Diff(before, after *bench.Results, maxRegression float64) *Difference {
	d := &Difference{MaxRegression: maxRegression, Warnings: unlike(before, after)}
	old := cellsOf(before)
	fresh := cellsOf(after)
	for key := range old {
		if _, ok := fresh[key]; !ok {
			d.Only = append(d.Only, "before: "+key)
		}
	}
	for _, b := range after.Benches {
		for _, e := range b.Experiments {
			for _, c := range e.Cells {
				key := cellKey(b, e, c)
				was, ok := old[key]
				if !ok {
					d.Only = append(d.Only, "after: "+key)
					continue
				}
				d.cell(b, e, was, located{e, c})
			}
		}
	}
	slices.Sort(d.Only)
	slices.SortStableFunc(d.Changes, func(a, b Change) int { return cmp.Compare(b.Worse.Median, a.Worse.Median) })
	d.Spread = d.spread()
	return d
}

type located struct {
	experiment *bench.ExperimentData
	cell       *bench.Cell
}

func cellKey(b *bench.BenchData, e *bench.ExperimentData, c *bench.Cell) string {
	return b.Name + " " + e.Name + ": " + c.Name
}

// cellsOf are the cells that were measured, not those derived from others.
func cellsOf(r *bench.Results) map[string]located {
	out := make(map[string]located)
	for _, b := range r.Benches {
		for _, e := range b.Experiments {
			for _, c := range e.Cells {
				out[cellKey(b, e, c)] = located{e, c}
			}
		}
	}
	return out
}

func (d *Difference) cell(b *bench.BenchData, e *bench.ExperimentData, was, is located) {
	for _, m := range e.Metrics {
		x, ok := was.cell.Measured(m.Name)
		y, too := is.cell.Measured(m.Name)
		if !ok || !too {
			continue
		}
		before, after := was.experiment.Quieted(was.cell, m), is.experiment.Quieted(is.cell, m)
		if len(before) == 0 || len(after) == 0 || x.Median == 0 || y.Median == 0 {
			continue
		}
		c := Change{Bench: b.Name, Experiment: e.Name, Cell: is.cell.Name, Metric: m.Name, Kind: m.Kind, Before: x, After: y, Ratio: bench.Change(before, after)}
		c.Worse = c.Ratio
		if m.Higher {
			c.Worse = bench.Change(after, before)
		}
		if c.Regressed = c.Worse.Sure() && c.Worse.Low > 1+d.MaxRegression; c.Regressed {
			d.Regressed++
		}
		d.Changes = append(d.Changes, c)
	}
}

func (d *Difference) spread() float64 {
	var apart []float64
	for _, c := range d.Changes {
		if c.Kind == bench.CPU && c.Ratio.Median > 0 {
			apart = append(apart, math.Abs(c.Ratio.Median-1))
		}
	}
	if len(apart) == 0 {
		return 0
	}
	return bench.Median(apart)
}

// unlike says why two runs may differ by more than the code.
func unlike(a, b *bench.Results) []string {
	var out []string
	say := func(what, x, y string) {
		if x != y {
			out = append(out, fmt.Sprintf("%s: %s before, %s after", what, x, y))
		}
	}
	x, y := a.Environment, b.Environment
	say("CPU", x.CPU, y.CPU)
	say("CPUs", fmt.Sprint(x.CPUs), fmt.Sprint(y.CPUs))
	say("kernel", x.Kernel, y.Kernel)
	say("Go", x.Go, y.Go)
	say("governor", x.Governor, y.Governor)
	say("GOGC", x.GOGC, y.GOGC)
	say("GODEBUG", x.GODEBUG, y.GODEBUG)
	say("quick", fmt.Sprint(a.Quick), fmt.Sprint(b.Quick))
	if most := max(x.Load, y.Load); most > 1 {
		out = append(out, fmt.Sprintf("load before the run: %.2f before, %.2f after; what else runs takes caches, and with them CPU for each operation", x.Load, y.Load))
	}
	return out
}

// Text writes the difference for a terminal: what changed by more than chance.
func (d *Difference) Text(w io.Writer) error {
	for _, warning := range d.Warnings {
		fmt.Fprintf(w, "the runs differ in %s\n", warning)
	}
	t := bench.Table{Title: "Changed by more than chance", Columns: []string{"", "cell", "metric", "before", "after", "after/before"}}
	for _, c := range d.Changes {
		if !c.Changed() {
			continue
		}
		mark := "better"
		switch {
		case c.Regressed:
			mark = "REGRESSED"
		case c.Worse.Median > 1:
			mark = "worse"
		}
		t.Rows = append(t.Rows, []string{
			mark, c.Bench + " " + c.Experiment + ": " + c.Cell, c.Metric, interval(c.Before), interval(c.After),
			fmt.Sprintf("%.3f (%.3f–%.3f)", c.Ratio.Median, c.Ratio.Low, c.Ratio.High),
		})
	}
	if err := textTable(w, t); err != nil {
		return err
	}
	if len(d.Only) > 0 {
		fmt.Fprintf(w, "\n%d cells are in one of the runs only\n", len(d.Only))
	}
	_, err := fmt.Fprintf(w, "\n%d of %d comparisons changed, %d regressed by more than %s; the medians of CPU cells are %s apart at the median of cells\n",
		len(t.Rows), len(d.Changes), d.Regressed, percent(d.MaxRegression), percent(d.Spread))
	return err
}
