package load

import (
	"fmt"

	"github.com/hanzoai/pqgw/bench"
)

// Busy is the share of their CPU that load generator and origin were busy for; a
// sample has it beside its metrics.
const Busy = "generator_busy"

// limit is the share from which on the load generator, not the server, may be
// what bounds a row's rate.
const limit = 0.9

// MarkLimits marks the rows that may show the load generator's limit.
func MarkLimits(e *bench.ExperimentData) {
	for _, c := range e.Cells {
		if m := bench.Median(c.Values(Busy)); m >= limit {
			c.Notes = append(c.Notes, fmt.Sprintf("the load generator (with the origin) is at its limit: busy for %.0f %% of the time", 100*m))
		}
	}
}
