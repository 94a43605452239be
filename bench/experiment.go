package bench

import (
	"context"
	"fmt"
	"time"
)

// Experiment compares arms in interleaved rounds.
type Experiment struct {
	Name    string // within the bench
	Title   string
	Note    string
	Metrics []Metric
	Arms    []Arm
	Rounds  int     // 0 means the run's
	Share   float64 // of the bench's time, in (0, 1]
	Plots   []Plot
	Versus  *Versus
}

// Arm is one of the things an experiment compares.
type Arm struct {
	Name   string
	Labels map[string]string
	// Weight is its part of a round's time beside arms of weight 1; 0 means 1.
	Weight float64
	// Missing is why there is nothing to measure; such an arm is only listed.
	Missing string
	// Open makes ready: processes, connections. What it costs is not counted.
	Open func(ctx context.Context) (Runner, error)
}

// Slice bounds one round of one arm: whichever comes first.
type Slice struct {
	For time.Duration `json:"for"` // wall time
	Ops int           `json:"ops"` // operations; 0 means no bound
}

// Over reports whether a slice that began then and has done ops is used up. At
// least one operation is always done.
func (s Slice) Over(began time.Time, ops int) bool {
	return ops > 0 && (s.Ops > 0 && ops >= s.Ops || time.Since(began) >= s.For)
}

// Runner is an arm that is ready.
type Runner interface {
	// Round does the arm's work for a slice and tells what it took.
	Round(ctx context.Context, s Slice) (Sample, error)
	// Close ends the arm.
	Close() error
}

// RunnerFunc is a Runner without anything to close.
type RunnerFunc func(ctx context.Context, s Slice) (Sample, error)

// Round calls f.
func (f RunnerFunc) Round(ctx context.Context, s Slice) (Sample, error) { return f(ctx, s) }

// Close does nothing.
func (f RunnerFunc) Close() error { return nil }

// Measure runs an experiment: every arm is opened and warmed up, then the
// rounds run all arms in turn. An arm that fails says so in its cell and sits
// out the rest. The error is ctx's.
func (s *Session) Measure(ctx context.Context, e Experiment) (*ExperimentData, error) {
	m := s.newMeasurement(e)
	s.data.Experiments = append(s.data.Experiments, m.data)
	defer m.close()
	m.warmUp(ctx)
	for round := range m.data.Rounds {
		if m.over(round) {
			m.data.Rounds = round
			break
		}
		m.round(ctx, round)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	m.summarise()
	return m.data, ctx.Err()
}

// leastRounds are run even where time is up: a median needs them.
const leastRounds = 3

// Slices of an arm: it is planned for as many rounds as let each be useful, and
// gets less only when time is shorter than that.
const (
	usefulSlice   = 80 * time.Millisecond
	shortestSlice = 5 * time.Millisecond
)

// over reports whether the machine was too slow for another round. Even the
// least number ends where they have taken half as long again as all should.
func (m *measurement) over(round int) bool {
	late := time.Since(m.ends)
	return round >= leastRounds && late > 0 || round > 0 && late > m.length/2
}

// measurement is an experiment under way.
type measurement struct {
	session  *Session
	arms     []Arm
	runners  []Runner // nil for arms that are missing or have failed
	ends     time.Time
	length   time.Duration // that the experiment was given
	left     float64       // weights of the runs to come, the warm-up counting half
	overhead time.Duration // of a run beyond its slice, a running mean
	data     *ExperimentData
}

// slice is the time of an arm's next run: what is left, shared out, less what
// runs have taken beyond their slices.
func (m *measurement) slice(a Arm) Slice {
	each := time.Duration(a.weight()*float64(time.Until(m.ends))/max(1, m.left)) - m.overhead
	return Slice{Ops: m.session.Ops, For: max(shortestSlice, each)}
}

func (a Arm) weight() float64 {
	if a.Weight > 0 {
		return a.Weight
	}
	return 1
}

// ran notes a run that took so long with its slice, and so much of a round.
func (m *measurement) ran(took time.Duration, s Slice, part float64) {
	m.left -= part
	m.overhead += (max(0, took-s.For) - m.overhead) / 8
}

func (s *Session) newMeasurement(e Experiment) *measurement {
	d := &ExperimentData{Name: e.Name, Title: e.Title, Note: e.Note, Metrics: e.Metrics, Plots: e.Plots, Versus: e.Versus, Planned: s.rounds(e)}
	m := &measurement{session: s, arms: e.Arms, runners: make([]Runner, len(e.Arms)), data: d}
	weights := 0.0
	for _, a := range e.Arms {
		d.Cells = append(d.Cells, &Cell{Name: a.Name, Labels: a.Labels, Missing: a.Missing})
		if a.Missing == "" {
			weights += a.weight()
		}
	}
	m.length = min(time.Duration(e.Share*float64(s.budget)), max(0, time.Until(s.ends)))
	m.ends = time.Now().Add(m.length)
	d.Rounds = s.affordable(d.Planned, m.length, weights)
	m.left = (float64(d.Rounds) + warmUpPart) * weights
	return m
}

func (s *Session) rounds(e Experiment) int {
	switch {
	case s.Rounds > 0:
		return s.Rounds
	case e.Rounds > 0:
		return e.Rounds
	case s.Quick:
		return quickRounds
	}
	return fullRounds
}

// affordable trims planned rounds, unless the user has said how many, to those that
// leave arms of these weights a useful slice each.
func (s *Session) affordable(planned int, length time.Duration, weights float64) int {
	if s.Rounds > 0 || weights == 0 {
		return planned
	}
	fit := int(float64(length)/(weights*float64(usefulSlice)) - warmUpPart)
	return min(planned, max(leastRounds, fit))
}

// warmUpPart is how much of a slice an arm runs for before the first round.
const warmUpPart = 0.5

// warmUp opens every arm and lets it run for half a slice, which is thrown away.
func (m *measurement) warmUp(ctx context.Context) {
	for i, a := range m.arms {
		if a.Missing != "" || ctx.Err() != nil {
			continue
		}
		m.session.Progress.step(m.data.Name, "warm-up", a.Name)
		r, err := a.Open(ctx)
		if err != nil {
			m.data.Cells[i].Failed = err.Error()
			continue
		}
		m.runners[i] = r
		if time.Until(m.ends) < m.length/2 {
			continue // the machine is slow: the rounds need what is left
		}
		slice := m.slice(a)
		slice.For = time.Duration(warmUpPart * float64(slice.For))
		began := time.Now()
		if _, err := r.Round(ctx, slice); err != nil {
			m.fail(i, err)
		}
		m.ran(time.Since(began), slice, warmUpPart*a.weight())
	}
}

func (m *measurement) round(ctx context.Context, round int) {
	before := m.session.machine()
	for i := range m.arms {
		if m.runners[i] == nil || ctx.Err() != nil {
			continue
		}
		m.session.Progress.step(m.data.Name, fmt.Sprintf("round %d of %d", round+1, m.data.Rounds), m.arms[i].Name)
		began, slice := time.Now(), m.slice(m.arms[i])
		sample, err := m.runners[i].Round(ctx, slice)
		m.ran(time.Since(began), slice, m.arms[i].weight())
		if err != nil {
			m.fail(i, err)
			continue
		}
		sample.Round = round
		if sample.Seconds == 0 {
			sample.Seconds = time.Since(began).Seconds()
		}
		m.data.Cells[i].Samples = append(m.data.Cells[i].Samples, sample)
	}
	m.data.Quiet = append(m.data.Quiet, between(m.session.load, before, m.session.machine()))
}

func (m *measurement) fail(i int, err error) {
	m.data.Cells[i].Failed = err.Error()
	_ = m.runners[i].Close()
	m.runners[i] = nil
}

func (m *measurement) close() {
	for i, r := range m.runners {
		if r == nil {
			continue
		}
		if err := r.Close(); err != nil && m.data.Cells[i].Failed == "" {
			m.data.Cells[i].Failed = err.Error()
		}
	}
}

func (m *measurement) summarise() {
	for _, c := range m.data.Cells {
		c.Stats = make(map[string]Stat)
		for _, metric := range m.data.Metrics {
			if s, ok := m.data.summarise(c, metric); ok {
				c.Stats[metric.Name] = s
			}
		}
	}
}

// summarise takes all samples of what holds on a busy machine, and those of
// quiet rounds of what does not: more than half of them, or none.
func (e *ExperimentData) summarise(c *Cell, metric Metric) (Stat, bool) {
	values, all, why := e.quieted(c, metric)
	switch {
	case all == 0:
		return Stat{}, false
	case why != "" && 2*len(values) <= all:
		return Stat{N: len(values), NotMeasured: why}, true
	}
	return Summarise(values), true
}

// Quieted are a metric's samples that its statistics were made of: all, or
// those of quiet rounds where the metric needs them.
func (e *ExperimentData) Quieted(c *Cell, metric Metric) []float64 {
	values, _, _ := e.quieted(c, metric)
	return values
}

// quieted also counts all samples and says why some were left out.
func (e *ExperimentData) quieted(c *Cell, metric Metric) (values []float64, all int, why string) {
	for _, s := range c.Samples {
		v, ok := s.Values[metric.Name]
		if !ok {
			continue
		}
		all++
		if metric.Kind.NeedsQuiet() && s.Round < len(e.Quiet) {
			if reason := e.Quiet[s.Round].Why(); reason != "" {
				why = reason
				continue
			}
		}
		values = append(values, v)
	}
	return values, all, why
}
