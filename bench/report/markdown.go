package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/hanzoai/pqgw/bench"
)

// Markdown writes report.md: everything but the plots.
func Markdown(w io.Writer, r *bench.Results) error {
	p := newPage(r)
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n    %s\n\n", p.Title, p.Command)
	for _, a := range p.About {
		fmt.Fprintf(&b, "%s\n\n", a)
	}
	markdownSection(&b, p.Losses)
	for _, s := range p.Sections {
		markdownSection(&b, s)
	}
	_, err := w.Write(append(bytes.TrimSpace(b.Bytes()), '\n'))
	return err
}

func markdownSection(b *bytes.Buffer, s section) {
	fmt.Fprintf(b, "## %s\n\n", s.Title)
	if s.Missing != "" {
		fmt.Fprintf(b, "Not there: %s\n\n", s.Missing)
	}
	for _, n := range s.Notes {
		fmt.Fprintf(b, "%s\n\n", n)
	}
	for _, p := range s.Parts {
		fmt.Fprintf(b, "### %s\n\n", p.Title)
		markdownRow(b, p.Columns, len(p.Columns))
		fmt.Fprintf(b, "|%s\n", strings.Repeat("---|", len(p.Columns)))
		for _, row := range p.Rows {
			markdownRow(b, row, len(p.Columns))
		}
		b.WriteByte('\n')
		if p.Note != "" {
			fmt.Fprintf(b, "%s\n\n", p.Note)
		}
	}
}

func markdownRow(b *bytes.Buffer, row []string, columns int) {
	b.WriteByte('|')
	for i := range max(columns, len(row)) {
		cell := ""
		if i < len(row) {
			cell = strings.NewReplacer("|", `\|`, "\n", " ").Replace(row[i])
		}
		fmt.Fprintf(b, " %s |", cell)
	}
	b.WriteByte('\n')
}
