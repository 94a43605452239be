package report

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hanzoai/pqgw/bench"
)

// Names of the files that a folder of results has.
const (
	ResultsFile  = "results.json"
	MarkdownFile = "report.md"
	HTMLFile     = "report.html"
)

// WriteResults stores results.json alone in a folder, which is made if it is
// not there.
func WriteResults(dir string, r *bench.Results) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return r.Write(filepath.Join(dir, ResultsFile))
}

// WriteDir stores results.json, report.md and report.html in a folder.
func WriteDir(dir string, r *bench.Results) error {
	if err := WriteResults(dir, r); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer, *bench.Results) error{MarkdownFile: Markdown, HTMLFile: HTML} {
		var b bytes.Buffer
		if err := write(&b, r); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := bench.Replace(filepath.Join(dir, name), b.Bytes()); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	return nil
}
