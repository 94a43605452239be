// Package report turns results into what people read: text for a terminal,
// report.md, and one self-contained report.html with plots as SVG.
package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/hanzoai/pqgw/bench"
)

// Text writes the results for a terminal.
func Text(w io.Writer, r *bench.Results) error {
	for _, b := range r.Benches {
		fmt.Fprintf(w, "%s (%.0f s)\n", b.Title, b.Seconds)
		if b.Missing != "" {
			fmt.Fprintf(w, "  not there: %s\n", b.Missing)
		}
		for _, e := range b.Experiments {
			if err := textTable(w, experimentTable(e)); err != nil {
				return err
			}
		}
		for _, t := range b.Tables {
			if err := textTable(w, t); err != nil {
				return err
			}
		}
		for _, n := range b.Notes {
			fmt.Fprintf(w, "\n%s\n", n)
		}
		fmt.Fprintln(w)
	}
	return nil
}

func textTable(w io.Writer, t bench.Table) error {
	fmt.Fprintf(w, "\n%s\n", t.Title)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "  "+strings.Join(t.Columns, "\t"))
	for _, row := range t.Rows {
		fmt.Fprintln(tw, "  "+strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if t.Note != "" {
		fmt.Fprintf(w, "  %s\n", t.Note)
	}
	return nil
}

// experimentTable lays an experiment out: a row for each cell, a column for
// each metric that any cell has.
func experimentTable(e *bench.ExperimentData) bench.Table {
	t := bench.Table{Title: e.Title, Columns: []string{"arm"}}
	var metrics []bench.Metric
	for _, m := range e.Metrics {
		if slices.ContainsFunc(e.Cells, func(c *bench.Cell) bool { _, ok := c.Stats[m.Name]; return ok }) {
			metrics = append(metrics, m)
			t.Columns = append(t.Columns, heading(m))
		}
	}
	if slices.ContainsFunc(e.Cells, func(c *bench.Cell) bool { return len(c.Notes) > 0 }) {
		t.Columns = append(t.Columns, "remark")
	}
	whys := make(map[string]bool)
	for i, c := range e.Cells {
		row := []string{c.Name}
		switch {
		case c.Missing != "" && slices.ContainsFunc(e.Cells[:i], func(o *bench.Cell) bool { return o.Missing == c.Missing }):
			continue // told with the first of its kind
		case c.Missing != "":
			row = append(row, "not there"+alike(e.Cells[i+1:], c.Missing)+": "+c.Missing)
		case c.Failed != "":
			row = append(row, "failed: "+c.Failed)
		default:
			for _, m := range metrics {
				s, ok := c.Stats[m.Name]
				switch {
				case !ok:
					row = append(row, "")
				case s.NotMeasured != "":
					whys[s.NotMeasured] = true
					row = append(row, "not measured")
				default:
					row = append(row, interval(s))
				}
			}
		}
		if len(c.Notes) > 0 {
			row = append(row, strings.Join(c.Notes, "; "))
		}
		t.Rows = append(t.Rows, row)
	}
	t.Note = tableNote(e, whys)
	return t
}

// heading of a metric's column.
func heading(m bench.Metric) string {
	if m.Unit == "" || m.Unit == m.Title {
		return m.Title
	}
	return m.Title + ", " + m.Unit
}

// alike says how many more cells are missing for the same reason.
func alike(cells []*bench.Cell, why string) string {
	n := 0
	for _, c := range cells {
		if c.Missing == why {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", with %d more", n)
}

func tableNote(e *bench.ExperimentData, whys map[string]bool) string {
	note := e.Note
	if e.Rounds < e.Planned {
		note = strings.TrimSpace(fmt.Sprintf("%s Rounds that there was time for: %d of %d.", note, e.Rounds, e.Planned))
	}
	for _, why := range sorted(whys) {
		note = strings.TrimSpace(note + " N" + strings.TrimPrefix(why, "n") + ".")
	}
	return note
}

func sorted(set map[string]bool) []string {
	var out []string
	for s := range set {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}
