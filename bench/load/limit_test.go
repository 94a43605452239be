package load

import (
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/bench"
)

func TestARowThatHitsTheGeneratorsLimitIsMarked(t *testing.T) {
	cell := func(busy ...float64) *bench.Cell {
		c := new(bench.Cell)
		for _, b := range busy {
			c.Samples = append(c.Samples, bench.Sample{Values: map[string]float64{Busy: b}})
		}
		return c
	}
	e := &bench.ExperimentData{Cells: []*bench.Cell{cell(0.95, 0.97, 0.2), cell(0.95, 0.5, 0.5), cell()}}
	MarkLimits(e)
	if n := e.Cells[0].Notes; len(n) != 1 || !strings.Contains(n[0], "95 %") {
		t.Errorf("busy at the median: %v", n)
	}
	if len(e.Cells[1].Notes)+len(e.Cells[2].Notes) > 0 {
		t.Errorf("idle, or without samples: %v, %v", e.Cells[1].Notes, e.Cells[2].Notes)
	}
}
