package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/bench"
)

// run is a small set of results with every kind of plot, with a cell that was
// lost, one that was won, one missing and one that was not measured.
func run(ours ...float64) *bench.Results {
	e := &bench.ExperimentData{
		Name: "e", Title: "An <experiment>", Rounds: 3,
		Metrics: []bench.Metric{{Name: "cpu", Title: "CPU", Unit: "µs", Kind: bench.CPU, Headline: true}, {Name: "rate", Title: "rate", Unit: "1/s", Kind: bench.Rate, Higher: true}},
		Versus:  &bench.Versus{Subject: "who", Ours: "us", Match: []string{"n"}},
		Plots: []bench.Plot{
			{Kind: bench.Bars, Title: "bars", Metric: "cpu", X: "n", Series: "who"},
			{Kind: bench.Stack, Title: "stack", Metric: "cpu", X: "n", Series: "who"},
			{Kind: bench.Waterfall, Title: "waterfall", Metric: "cpu", X: "n"},
			{Kind: bench.Curve, Title: "curve", Metric: "cpu", X: "n", Series: "who"},
			{Kind: bench.CDF, Title: "cdf", Metric: "cpu", X: "n", Series: "who"},
			{Kind: bench.Bars, Title: "nothing to draw", Metric: "rate", X: "n", Series: "who"},
		},
		Quiet: []bench.Quiet{{}, {}, {}},
	}
	add := func(who, n string, values ...float64) {
		c := &bench.Cell{Name: who + " " + n, Labels: map[string]string{"who": who, "n": n}, Stats: map[string]bench.Stat{
			"cpu": bench.Summarise(values), "rate": {NotMeasured: "not measured: load 9.00 before the run"},
		}}
		for i, v := range values {
			c.Samples = append(c.Samples, bench.Sample{Round: i, Ops: 1, Values: map[string]float64{"cpu": v, "rate": 1}, Lists: map[string][]float64{"cpu": {v, v + 1, v + 2}}})
		}
		e.Cells = append(e.Cells, c)
	}
	add("us", "1", ours...)
	add("them", "1", 10, 11, 12)
	add("us", "100", 5, 6, 7)
	add("them & others", "100", 20, 22, 24)
	e.Cells = append(e.Cells,
		&bench.Cell{Name: "us 1000", Labels: map[string]string{"who": "us", "n": "1000"}, Missing: "not written yet"},
		&bench.Cell{Name: "us 10000", Labels: map[string]string{"who": "us", "n": "10000"}, Missing: "not written yet"},
	)
	quiet := bench.ReadEnvironment()
	quiet.Load = 0
	return &bench.Results{
		Schema: bench.Schema, Command: []string{"pqgw", "bench", "all"}, Began: time.Unix(0, 0).UTC(), Quick: true, Environment: quiet,
		Benches: []*bench.BenchData{
			{Name: "b", Title: "A bench", Notes: []string{"A note."}, Experiments: []*bench.ExperimentData{e}, Tables: []bench.Table{{Title: "A table", Columns: []string{"a|b"}, Rows: [][]string{{"1|2"}}}}},
			{Name: "gone", Title: "Another", Missing: "not on this system"},
		},
	}
}

func TestLossesAreThoseBeyondChance(t *testing.T) {
	r := run(20, 22, 24)
	summary, all := lossTables(r)
	if len(all.Rows) != 1 || all.Rows[0][1] != "us 1" || all.Rows[0][4] != "them" || !strings.HasPrefix(all.Rows[0][6], "2.00×") {
		t.Errorf("lost: %v", all.Rows)
	}
	if len(summary.Rows) != 1 || summary.Rows[0][3] != "1 of 1" {
		t.Errorf("summary: %v", summary.Rows)
	}
	if n := compared(r); n != 2 {
		t.Errorf("%d comparisons, want 2", n)
	}
	if _, all := lossTables(run(40)); len(all.Rows) != 0 {
		t.Errorf("one round is taken for sure: %v", all.Rows)
	}
	if _, all := lossTables(run(9, 11, 13)); len(all.Rows) != 0 {
		t.Errorf("a tie is lost: %v", all.Rows)
	}
}

func TestTheReportsSayWhatIsThereAndWhatIsNot(t *testing.T) {
	r := run(20, 22, 24)
	forms := map[string]func(io.Writer, *bench.Results) error{"markdown": Markdown, "html": HTML, "text": Text}
	for form, write := range forms {
		var b bytes.Buffer
		if err := write(&b, r); err != nil {
			t.Fatal(err)
		}
		got := b.String()
		for _, want := range []string{"A bench", "A note.", "22.0 (20.0–24.0)", "not there, with 1 more: not written yet", "not measured", "Not measured: load 9.00 before the run.", "not on this system"} {
			if !strings.Contains(got, want) && !strings.Contains(strings.ToLower(got), strings.ToLower(want)) {
				t.Errorf("%s: no %q", form, want)
			}
		}
		if form != "text" && (!strings.Contains(got, "Where we lose") || !strings.Contains(got, "pqgw bench all") || !strings.Contains(got, "GOGC")) {
			t.Errorf("%s: losses, command or environment are not told", form)
		}
	}
}

func TestThePageNeedsNothingElseAndItsDrawingsAreWellFormed(t *testing.T) {
	var b bytes.Buffer
	if err := HTML(&b, run(20, 22, 24)); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for _, bad := range []string{"<script", "<link", "<img", "src=", "@import", "url(", "NaN", "Inf", "<experiment>"} {
		if strings.Contains(got, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	drawings := strings.Split(got, "<svg ")[1:]
	if len(drawings) != 5 {
		t.Errorf("%d drawings, want 5: what was not measured is not drawn", len(drawings))
	}
	for _, d := range drawings {
		d, _, _ = strings.Cut("<svg "+d, "</svg>")
		dec := xml.NewDecoder(strings.NewReader(d + "</svg>"))
		for {
			_, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in %s", err, d)
			}
		}
	}
}

// TestThePageReadsOnAPhone asks Chromium whether anything sticks out of a
// narrow window. The page's own policy forbids scripts, so the test's copy
// goes without it.
func TestThePageReadsOnAPhone(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium")
	}
	var b bytes.Buffer
	if err := HTML(&b, run(20, 22, 24)); err != nil {
		t.Fatal(err)
	}
	before, after, _ := strings.Cut(b.String(), "<meta http-equiv")
	_, after, _ = strings.Cut(after, "\n")
	probe := `<script>addEventListener("load", () => { document.title = "wide:" + (document.documentElement.scrollWidth <= innerWidth) + " text:" + Math.min(...[...document.querySelectorAll("svg text")].map(e => e.getBoundingClientRect().height)).toFixed(1) })</script>`
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(before+after+probe), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, size := range []string{"1280,900", "500,900"} { // headless windows are 500 wide at least
		cmd := exec.Command(chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(), "--window-size="+size, "--dump-dom", "file://"+file)
		out, err := cmd.Output()
		if err != nil {
			t.Skipf("chromium does not run here: %v", err)
		}
		_, title, _ := strings.Cut(string(out), "<title>")
		title, _, _ = strings.Cut(title, "</title>")
		var fits bool
		var smallest float64
		if _, err := fmt.Sscanf(title, "wide:%t text:%f", &fits, &smallest); err != nil || !fits || smallest < 9 {
			t.Errorf("%s: %q: %v", size, title, err)
		}
	}
}

func TestDiffFindsWhatRegressedAndNothingElse(t *testing.T) {
	before, after := run(20, 22, 24), run(40, 44, 48)
	if d := Diff(before, before, 0.1); d.Regressed != 0 || d.Spread != 0 || len(d.Changes) != 4 || len(d.Warnings) != 0 {
		t.Errorf("a run against itself: %+v", d)
	}
	d := Diff(before, after, 0.1)
	if d.Regressed != 1 || d.Changes[0].Cell != "us 1" || !d.Changes[0].Regressed || math.Abs(d.Changes[0].Ratio.Median-2) > 1e-9 {
		t.Errorf("%+v", d)
	}
	if d := Diff(after, before, 0.1); d.Regressed != 0 || !d.Changes[len(d.Changes)-1].Changed() {
		t.Errorf("what got better: %+v", d)
	}
	if d := Diff(before, after, 2); d.Regressed != 0 {
		t.Errorf("three times as bad was allowed: %+v", d)
	}
	after.Environment.Kernel, after.Benches[0].Experiments[0].Cells[0].Name = "another", "renamed"
	d = Diff(before, after, 0.1)
	if len(d.Warnings) != 1 || len(d.Only) != 2 {
		t.Errorf("%v %v", d.Warnings, d.Only)
	}
	before.Environment.Load = 7
	if d := Diff(before, before, 0.1); len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "7.00 before") {
		t.Errorf("a loaded machine: %v", d.Warnings)
	}
	var b bytes.Buffer
	if err := d.Text(&b); err != nil || !strings.Contains(b.String(), "the runs differ in kernel") || !strings.Contains(b.String(), "2 cells are in one of the runs only") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestNumbersAreReadable(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1234567: "1,234,567", -1234: "-1,234", 12.345: "12.3", 1.234: "1.23", 0.1234: "0.123", 0.00123: "0.0012", 999.6: "1,000"} {
		if got := number(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}
