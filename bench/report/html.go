package report

import (
	_ "embed"
	"html/template"
	"io"

	"github.com/hanzoai/pqgw/bench"
)

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	// Drawings are made here of escaped text.
	"svg":  func(s string) template.HTML { return template.HTML(s) },
	"wide": func(row []string, columns []string) int { return max(1, len(columns)-len(row)+1) },
	"last": func(i int, row []string) bool { return i == len(row)-1 },
}).Parse(pageHTML))

// HTML writes report.html: one page that needs nothing else, no script and no
// font, and reads on a phone.
func HTML(w io.Writer, r *bench.Results) error { return pageTemplate.Execute(w, newPage(r)) }
