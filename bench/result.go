package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Schema is the version of the results file. It grows whenever a reader of
// the old one would misunderstand the new one.
const Schema = 1

// Results is a whole run, as results.json has it.
type Results struct {
	Schema      int          `json:"schema"`
	Command     []string     `json:"command"`
	Began       time.Time    `json:"began"`
	Seconds     float64      `json:"seconds"` // how long the run took
	Quick       bool         `json:"quick"`
	Environment Environment  `json:"environment"`
	Benches     []*BenchData `json:"benches"`
	// Ahead are the benches that a run has not come to yet: it goes on, or was cut short.
	Ahead []string `json:"ahead,omitempty"`
}

// BenchData is what one bench found.
type BenchData struct {
	Name        string            `json:"name"`
	Title       string            `json:"title"`
	Seconds     float64           `json:"seconds"`
	Missing     string            `json:"missing,omitempty"` // why the bench could not run, "" where it did
	Notes       []string          `json:"notes,omitempty"`
	Experiments []*ExperimentData `json:"experiments,omitempty"`
	Tables      []Table           `json:"tables,omitempty"`
}

// ExperimentData is an experiment with what it measured.
type ExperimentData struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Note    string   `json:"note,omitempty"`
	Rounds  int      `json:"rounds"`
	Planned int      `json:"planned"` // rounds, of which time may not have allowed all
	Metrics []Metric `json:"metrics"`
	Plots   []Plot   `json:"plots,omitempty"`
	Versus  *Versus  `json:"versus,omitempty"`
	Quiet   []Quiet  `json:"quiet"` // one for each round
	Cells   []*Cell  `json:"cells"`
}

// Cell is one arm of an experiment.
type Cell struct {
	Name    string            `json:"name"`
	Labels  map[string]string `json:"labels,omitempty"`
	Missing string            `json:"missing,omitempty"` // why there is nothing to measure
	Failed  string            `json:"failed,omitempty"`  // what went wrong while measuring
	Notes   []string          `json:"notes,omitempty"`
	Stats   map[string]Stat   `json:"stats,omitempty"` // by metric
	Samples []Sample          `json:"samples,omitempty"`
}

// Sample is what one round of one arm gave.
type Sample struct {
	Round   int                  `json:"round"`
	Seconds float64              `json:"seconds"` // wall time
	Ops     int                  `json:"ops"`
	Values  map[string]float64   `json:"values"`          // by metric, per operation where the unit says so
	Lists   map[string][]float64 `json:"lists,omitempty"` // single observations, for distributions
}

// Table is a derived view with its cells as they are to be read.
type Table struct {
	Title   string     `json:"title"`
	Note    string     `json:"note,omitempty"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Bench finds a bench's data by its name, nil where the run had none.
func (r *Results) Bench(name string) *BenchData {
	for _, b := range r.Benches {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// Experiment finds an experiment by its name; nil if there is none, also on nil.
func (b *BenchData) Experiment(name string) *ExperimentData {
	if b == nil {
		return nil
	}
	for _, e := range b.Experiments {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// Find returns the first cell that has all the labels; nil if there is none, also on nil.
func (e *ExperimentData) Find(labels map[string]string) *Cell {
	if e == nil {
		return nil
	}
	for _, c := range e.Cells {
		if c.has(labels) {
			return c
		}
	}
	return nil
}

// Metric finds a metric by its name.
func (e *ExperimentData) Metric(name string) (Metric, bool) {
	for _, m := range e.Metrics {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}

func (c *Cell) has(labels map[string]string) bool {
	for k, v := range labels {
		if c.Labels[k] != v {
			return false
		}
	}
	return true
}

// Values are a metric's samples in the order of rounds.
func (c *Cell) Values(metric string) []float64 {
	var out []float64
	for _, s := range c.Samples {
		if v, ok := s.Values[metric]; ok {
			out = append(out, v)
		}
	}
	return out
}

// Measured returns a metric's statistics; false where it is missing or was
// not measured. It may be asked of nil.
func (c *Cell) Measured(metric string) (Stat, bool) {
	if c == nil {
		return Stat{}, false
	}
	s, ok := c.Stats[metric]
	return s, ok && s.NotMeasured == ""
}

// Write stores the results as path, replacing it whole.
func (r *Results) Write(path string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if err := Replace(path, append(data, '\n')); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	return nil
}

// Replace writes a file that others see either as it was or whole.
func Replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Read loads a results file of this version of the schema.
func Read(path string) (*Results, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	var r Results
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: not a results file: %w", path, err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("%s: schema %d, and this binary reads %d; measure again", path, r.Schema, Schema)
	}
	return &r, nil
}

// List joins a metric's single observations over all rounds.
func (c *Cell) List(metric string) []float64 {
	var out []float64
	for _, s := range c.Samples {
		out = append(out, s.Lists[metric]...)
	}
	return out
}
