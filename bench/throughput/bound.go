package throughput

import (
	"fmt"

	"github.com/hanzoai/pqgw/bench"
)

// Shares from which on something is what bounds a row.
const (
	lineFull = 90.0 // percent of the link's rate: headers take 4.5 of a packet of 1500 bytes
	cpuFull  = 0.85 // of a CPU
)

// bound is what stopped a row from going faster. The shares are of the link in
// percent, of the server's CPU, and of the CPU of load generator and origin.
func bound(link, server, generator float64) string {
	switch {
	case link >= lineFull:
		return "the line"
	case server >= cpuFull && server >= generator:
		return "the server's CPU"
	case generator >= cpuFull:
		return "the CPU of load generator and origin"
	case server+generator >= cpuFull:
		return "neither CPU alone: each waited for the other, for the line, or for what else ran"
	}
	return "waiting: windows, losses, or what else ran"
}

// bounds says of each row across a link how near it came to the line, and what
// stopped it. Rows of small bodies are none of the line's.
func bounds(e *bench.ExperimentData) bench.Table {
	t := bench.Table{
		Title:   "What stopped each row from reaching the line (bodies of 64 KiB and more)",
		Note:    "Medians of all rounds, also where others were busy on the machine: the CPU columns say how much of it the row had.",
		Columns: []string{"row", "goodput, % of the link", "server's CPU busy, %", "load's CPU busy, %", "bound by"},
	}
	for _, c := range e.Cells {
		size := c.Labels["size"]
		if len(c.Samples) == 0 || size != sizeName(64<<10) && size != sizeName(1<<20) {
			continue
		}
		link, server, generator := bench.Median(c.Values(LinkShare)), bench.Median(c.Values(serverBusy)), bench.Median(c.Values(busy))
		t.Rows = append(t.Rows, []string{
			c.Name, fmt.Sprintf("%.0f", link), fmt.Sprintf("%.0f", 100*server), fmt.Sprintf("%.0f", 100*generator), bound(link, server, generator),
		})
	}
	return t
}
