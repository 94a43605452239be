package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hanzoai/pqgw/bench"
)

// loss is a cell in which we are worse than another, by more than chance.
type loss struct {
	bench, where, metric, ours, rival string
	mine, theirs                      bench.Stat
	ratio                             bench.Stat // by how much we are worse, above 1
}

// contest sums up one rival in one metric of one experiment.
type contest struct {
	bench, experiment, metric, rival string
	cells                            int
	lost                             []loss
}

// contests compares us with every rival, cell by cell, as the experiments ask.
func contests(r *bench.Results) []*contest {
	var out []*contest
	for _, b := range r.Benches {
		for _, e := range b.Experiments {
			if e.Versus == nil {
				continue
			}
			for _, m := range e.Metrics {
				if m.Headline {
					out = append(out, compete(b, e, m)...)
				}
			}
		}
	}
	return out
}

func compete(b *bench.BenchData, e *bench.ExperimentData, m bench.Metric) []*contest {
	rivals := make(map[string]*contest)
	var out []*contest
	for _, ours := range e.Cells {
		if ours.Labels[e.Versus.Subject] != e.Versus.Ours {
			continue
		}
		for _, theirs := range e.Cells {
			rival := theirs.Labels[e.Versus.Subject]
			if rival == e.Versus.Ours || rival == "" || !agree(ours, theirs, e.Versus.Match) {
				continue
			}
			l, ok := compare(b, e, m, ours, theirs)
			if !ok {
				continue
			}
			if rivals[rival] == nil {
				rivals[rival] = &contest{bench: b.Name, experiment: e.Name, metric: m.Title, rival: rival}
				out = append(out, rivals[rival])
			}
			rivals[rival].cells++
			if l.ratio.Low > 1 {
				rivals[rival].lost = append(rivals[rival].lost, l)
			}
		}
	}
	return out
}

func agree(a, b *bench.Cell, labels []string) bool {
	for _, l := range labels {
		if a.Labels[l] != b.Labels[l] {
			return false
		}
	}
	return true
}

// compare tells by how much we are worse, with the rounds in pairs; false
// where one of the two was not measured, or not often enough.
func compare(b *bench.BenchData, e *bench.ExperimentData, m bench.Metric, ours, theirs *bench.Cell) (loss, bool) {
	mine, ok := ours.Measured(m.Name)
	if !ok {
		return loss{}, false
	}
	other, ok := theirs.Measured(m.Name)
	if !ok {
		return loss{}, false
	}
	worse, better := e.Quieted(ours, m), e.Quieted(theirs, m)
	if m.Higher {
		worse, better = better, worse
	}
	ratio := bench.Ratio(worse, better)
	return loss{
		bench: b.Name, where: ours.Name, metric: m.Title + ", " + m.Unit, ours: e.Versus.Ours, rival: theirs.Labels[e.Versus.Subject],
		mine: mine, theirs: other, ratio: ratio,
	}, ratio.Sure()
}

// lossTables are what the section "where we lose" shows: who beats us how
// often, and every cell of it.
func lossTables(r *bench.Results) (summary, all bench.Table) {
	summary = bench.Table{Columns: []string{"bench", "metric", "against", "cells lost", "median of those", "worst of those"}}
	all = bench.Table{Columns: []string{"bench", "cell", "metric", "ours", "against", "theirs", "worse by"}}
	var lost []loss
	for _, c := range contests(r) {
		if len(c.lost) == 0 {
			continue
		}
		slices.SortFunc(c.lost, byRatio)
		worst := c.lost[0]
		middle := c.lost[len(c.lost)/2]
		summary.Rows = append(summary.Rows, []string{
			experimentName(c.bench, c.experiment), c.metric, c.rival, fmt.Sprintf("%d of %d", len(c.lost), c.cells),
			fmt.Sprintf("%.2f×", middle.ratio.Median), fmt.Sprintf("%.2f× (%s)", worst.ratio.Median, worst.where),
		})
		lost = append(lost, c.lost...)
	}
	slices.SortStableFunc(lost, byRatio)
	for _, l := range lost {
		all.Rows = append(all.Rows, []string{
			l.bench, l.where, l.metric, interval(l.mine), l.rival, interval(l.theirs),
			fmt.Sprintf("%.2f× (%.2f–%.2f)", l.ratio.Median, l.ratio.Low, l.ratio.High),
		})
	}
	return summary, all
}

// experimentName names an experiment; one that has its bench's name needs but that.
func experimentName(name, experiment string) string {
	if strings.TrimSuffix(name, bench.LinkSuffix) == experiment {
		return name
	}
	return name + " " + experiment
}

func byRatio(a, b loss) int { return cmp.Compare(b.ratio.Median, a.ratio.Median) }

// compared counts the pairs of cells that were held against each other.
func compared(r *bench.Results) int {
	n := 0
	for _, c := range contests(r) {
		n += c.cells
	}
	return n
}
