package report

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/hanzoai/pqgw/bench"
)

// page is the report as both of its forms show it.
type page struct {
	Title    string
	Command  string
	About    []string
	Sections []section
	Losses   section
}

type section struct {
	ID      string
	Title   string
	Nav     string // among the links to sections
	Missing string
	Notes   []string
	Parts   []part
}

// part is a table with the plots that belong to it.
type part struct {
	bench.Table
	Plots []plot
	Long  bool // folded away on the page
}

type plot struct{ Title, SVG string }

// foldedRows is from how many rows on a table is folded away on the page.
const foldedRows = 30

func newPage(r *bench.Results) page {
	p := page{Title: "What post-quantum costs", Command: strings.Join(r.Command, " "), About: about(r)}
	for _, b := range r.Benches {
		s := section{ID: b.Name, Title: b.Title, Nav: b.Title, Missing: b.Missing, Notes: b.Notes}
		if base, across := strings.CutSuffix(b.Name, bench.LinkSuffix); across && r.Bench(base) != nil {
			s.Nav = "… across a link" // it follows the one over the loopback
		}
		for _, e := range b.Experiments {
			x := part{Table: experimentTable(e)}
			for _, q := range e.Plots {
				if svg := draw(e, q); svg != "" {
					x.Plots = append(x.Plots, plot{q.Title, svg})
				}
			}
			s.Parts = append(s.Parts, x)
		}
		for _, t := range b.Tables {
			s.Parts = append(s.Parts, part{Table: t})
		}
		p.Sections = append(p.Sections, s)
	}
	p.Sections = append(p.Sections, environment(r))
	p.Losses = losses(r)
	for _, s := range p.Sections {
		fold(s.Parts)
	}
	fold(p.Losses.Parts)
	return p
}

func fold(parts []part) {
	for i := range parts {
		parts[i].Long = len(parts[i].Rows) > foldedRows
	}
}

func about(r *bench.Results) []string {
	kind := "A full run"
	if r.Quick {
		kind = "A quick run (intervals are wider than a full run's)"
	}
	out := []string{
		fmt.Sprintf("%s, begun %s; it took %.0f s. Measured on %s (%d CPUs), kernel %s, %s, commit %s.", kind, r.Began.Format("2006-01-02 15:04 MST"), r.Seconds,
			r.Environment.CPU, r.Environment.CPUs, r.Environment.Kernel, r.Environment.Go, r.Environment.Commit),
		"CPU is what the kernel accounts to a process, not wall time: it holds on a busy machine. Numbers are medians over interleaved rounds, " +
			"in brackets the 95 % bootstrap confidence interval; warm-up is left out. Ratios hold within this run only. Rates and times are given only " +
			"where the machine was quiet; else the cell says “not measured”.",
	}
	if len(r.Ahead) > 0 {
		out = append(out, "The run had not come to its end when this was written. Not there: "+strings.Join(r.Ahead, ", ")+".")
	}
	return out
}

func losses(r *bench.Results) section {
	s := section{ID: "losses", Title: "Where we lose"}
	summary, all := lossTables(r)
	n := compared(r)
	switch {
	case n == 0:
		s.Notes = []string{"Nothing was measured that we are compared with."}
	case len(all.Rows) == 0:
		s.Notes = []string{fmt.Sprintf("In none of %d comparisons were we worse by more than chance.", n)}
	default:
		summary.Title = fmt.Sprintf("Worse by more than chance in %d of %d comparisons", len(all.Rows), n)
		summary.Note = "A comparison is of two cells that differ only in who or what was measured; it is lost where the whole interval of the ratio is on the wrong side of 1. Cells of fewer than three rounds are not compared."
		all.Title = "Every lost comparison, the worst first"
		s.Parts = []part{{Table: summary}, {Table: all}}
	}
	return s
}

func environment(r *bench.Results) section {
	e := r.Environment
	t := bench.Table{Title: "Where this was measured", Columns: []string{"what", "value"}}
	add := func(what, value string) {
		if value != "" {
			t.Rows = append(t.Rows, []string{what, value})
		}
	}
	add("CPU", fmt.Sprintf("%s, %d CPUs", e.CPU, e.CPUs))
	add("hypervisor", map[bool]string{true: "yes", false: "none seen"}[e.Virtual])
	add("governor", e.Governor)
	add("memory", fmt.Sprintf("%.1f GiB", float64(e.Memory)/(1<<30)))
	add("system", e.System+", kernel "+e.Kernel)
	add("Go", e.Go)
	add("GOGC", e.GOGC)
	add("GOMEMLIMIT", e.GOMEMLIMIT)
	add("GOMAXPROCS", fmt.Sprint(e.GOMAXPROCS)+"; a process on one CPU has 1")
	add("GODEBUG", e.GODEBUG)
	add("commit", e.Commit)
	add("load before the run", fmt.Sprintf("%.2f", e.Load))
	for _, k := range keys(e.Sysctl) {
		add(k, e.Sysctl[k])
	}
	for _, i := range e.Interfaces {
		add(i.Name, fmt.Sprintf("MTU %d, %d receive and %d transmit queues, qdisc %s, driver %s; %s", i.MTU, i.RxQueues, i.TxQueues, orNone(i.Qdisc), orNone(i.Driver), offloads(i.Offloads)))
	}
	return section{ID: "environment", Title: "Environment", Nav: "Environment", Parts: []part{{Table: t}, {Table: quietness(r)}}}
}

// quietness tells what else the machine did in the rounds of each experiment.
func quietness(r *bench.Results) bench.Table {
	t := bench.Table{
		Title:   "How quiet the machine was",
		Note:    "In brackets the worst round. Rates and times of a round count only where the hypervisor and other processes took little, and the load before the run was low.",
		Columns: []string{"experiment", "rounds", "load before", "stolen, % of all CPUs", "other processes, % of all CPUs", "quiet rounds"},
	}
	for _, b := range r.Benches {
		for _, e := range b.Experiments {
			if len(e.Quiet) == 0 {
				continue // reckoned from others
			}
			var steal, foreign []float64
			quiet := 0
			for _, q := range e.Quiet {
				steal, foreign = append(steal, 100*q.Steal), append(foreign, 100*q.Foreign)
				if q.Why() == "" {
					quiet++
				}
			}
			t.Rows = append(t.Rows, []string{
				experimentName(b.Name, e.Name), fmt.Sprint(len(e.Quiet)), number(e.Quiet[0].Load), worst(steal), worst(foreign), fmt.Sprint(quiet),
			})
		}
	}
	return t
}

func worst(values []float64) string {
	return number(bench.Median(values)) + " (" + number(slices.Max(values)) + ")"
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func keys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

func offloads(m map[string]bool) string {
	var out []string
	for k, on := range m {
		out = append(out, k+map[bool]string{true: " on", false: " off"}[on])
	}
	sort.Strings(out)
	if len(out) == 0 {
		return "offloads unknown"
	}
	return strings.Join(out, ", ")
}
