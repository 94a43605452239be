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

// busy is what a row made of what it had: shares of the link in percent, and of
// the server's CPU and the other one, which load generator and origin share.
type busy struct{ link, server, client, origin float64 }

// bound is what stopped a row from going faster.
func (b busy) bound() string {
	load := b.client + b.origin
	switch {
	case b.link >= lineFull:
		return "the line"
	case b.server >= cpuFull && b.server >= load:
		return "the server's CPU"
	case load >= cpuFull && b.client >= 2*b.origin:
		return "the load generator's CPU"
	case load >= cpuFull:
		return "the CPU that load generator and origin share"
	case b.server+load >= cpuFull:
		return "neither CPU alone: each waited for the other, for the line, or for what else ran"
	}
	return "waiting: windows, losses, or what else ran"
}

// ceiling is the goodput at which the busier CPU would be full, in Gbit/s, as
// far as CPU goes: what a row comes to where nothing else takes of it. 0 where
// nothing is known.
func (b busy) ceiling(goodput float64) float64 {
	if most := max(b.server, b.client+b.origin); most > 0 {
		return goodput / most
	}
	return 0
}

// bounds says of each row across a link how near it came to the line, and what
// stopped it. Rows of small bodies are none of the line's.
func bounds(e *bench.ExperimentData) bench.Table {
	t := bench.Table{
		Title: "What stopped each row from reaching the line (bodies of 64 KiB and more)",
		Note: "Medians of all rounds, also where others were busy on the machine: the CPU columns say how much of it the row had. " +
			"“CPU allows” is the goodput at which the busier of the two CPUs would be full.",
		Columns: []string{"row", "goodput, Gbit/s", "% of the link", "server's CPU busy, %", "load generator, %", "origin, % (the same CPU)", "CPU allows, Gbit/s", "bound by"},
	}
	for _, c := range e.Cells {
		size := c.Labels["size"]
		if len(c.Samples) == 0 || size != sizeName(64<<10) && size != sizeName(1<<20) {
			continue
		}
		goodput := bench.Median(c.Values(Goodput))
		b := busy{
			link: bench.Median(c.Values(LinkShare)), server: bench.Median(c.Values(serverBusy)),
			client: bench.Median(c.Values(clientBusy)), origin: bench.Median(c.Values(originBusy)),
		}
		t.Rows = append(t.Rows, []string{
			c.Name, fmt.Sprintf("%.2f", goodput), fmt.Sprintf("%.0f", b.link), fmt.Sprintf("%.0f", 100*b.server),
			fmt.Sprintf("%.0f", 100*b.client), fmt.Sprintf("%.0f", 100*b.origin), fmt.Sprintf("%.2f", b.ceiling(goodput)), b.bound(),
		})
	}
	return t
}
