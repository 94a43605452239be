package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/report"
)

// TestMain lets this binary be a process of a bench.
func TestMain(m *testing.M) {
	bench.RunChild()
	os.Exit(m.Run())
}

func TestBenchAllWritesItsThreeFilesAndDiffReadsThem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	code, stdout, stderr := command("bench", "all", "--quick", "--rounds", "3", "--ops", "5000", "--only", "codec", "--out", dir)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, name := range []string{report.ResultsFile, report.MarkdownFile, report.HTMLFile} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err != nil || info.Size() == 0 || !strings.Contains(stdout, path+"\n") {
			t.Errorf("%s: %v; stdout %q", name, err, stdout)
		}
	}
	if !strings.Contains(stderr, " left\n") {
		t.Errorf("no progress on stderr: %q", stderr)
	}
	results := filepath.Join(dir, report.ResultsFile)
	if code, _, stderr := command("bench", "diff", results, results); code != exitOK {
		t.Errorf("a run against itself: exit %d: %s", code, stderr)
	}
	worse := filepath.Join(dir, "worse.json")
	makeWorse(t, results, worse)
	code, stdout, _ = command("bench", "diff", results, worse, "--max-regression", "50%", "--output", "json")
	var d report.Difference
	if err := json.Unmarshal([]byte(stdout), &d); code != exitNotMet || err != nil || d.Regressed == 0 {
		t.Errorf("three times the CPU: exit %d, %v, %d regressed", code, err, d.Regressed)
	}
	if code, _, _ := command("bench", "diff", results, worse, "--max-regression", "250%"); code != exitOK {
		t.Errorf("three times the CPU, as allowed: exit %d", code)
	}
	if code, _, stderr := command("bench", "report", worse, "--out", filepath.Join(dir, "again")); code != exitOK {
		t.Errorf("report: exit %d: %s", code, stderr)
	}
}

// makeWorse triples every sample.
func makeWorse(t *testing.T, from, to string) {
	t.Helper()
	r, err := bench.Read(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range r.Benches {
		for _, e := range b.Experiments {
			for _, c := range e.Cells {
				for _, s := range c.Samples {
					for k := range s.Values {
						s.Values[k] *= 3
					}
				}
			}
		}
	}
	if err := r.Write(to); err != nil {
		t.Fatal(err)
	}
}

func TestBenchRefusesWrongArguments(t *testing.T) {
	for _, args := range [][]string{
		{"bench", "all"},
		{"bench", "all", "--out", t.TempDir(), "--only", "nothing"},
		{"bench", "handshake", "--rounds", "-1"},
		{"bench", "handshake", "--output", "xml"},
		{"bench", "diff", "a.json"},
		{"bench", "diff", "a.json", "b.json", "--max-regression", "much"},
		{"bench", "diff", "a.json", "b.json", "--max-regression", "NaN"},
		{"bench", "report", "a.json"},
	} {
		if code, _, stderr := command(args...); code != exitUsage {
			t.Errorf("%v: exit %d: %s", args, code, stderr)
		}
	}
	if code, _, stderr := command("bench", "diff", "no.json", "such.json"); code != exitFailed || !strings.Contains(stderr, "no.json") {
		t.Errorf("files that are not there: exit %d: %s", code, stderr)
	}
}

func TestBenchModelRefusesWhatCannotBe(t *testing.T) {
	for _, args := range [][]string{
		{"--clients", "0"},
		{"--lifetime", "0s"},
		{"--bytes", "many"},
		{"--link", "2.5"},
		{"--group", "X448"},
		{"--transport", "pigeon"},
		{"--resumed", "2"},
		{"--utilisation", "NaN"},
		{"--output", "xml"},
	} {
		if code, _, stderr := command(append([]string{"bench", "model"}, args...)...); code != exitUsage {
			t.Errorf("%v: exit %d: %s", args, code, stderr)
		}
	}
}

func TestUnits(t *testing.T) {
	for s, want := range map[string]float64{"4KiB": 4096, "1.5 mb": 1.5e6, "12": 12, "100B": 100} {
		if got, err := parseUnits(s, byteUnits); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", s, got, err, want)
		}
	}
	if got, err := parseUnits("2.5Gbit", rateUnits); err != nil || got != 2.5e9 {
		t.Errorf("2.5Gbit: %v, %v", got, err)
	}
}
