package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Run runs benches one after the other into one set of results. A bench that
// fails is recorded as missing, and its error is among those returned beside
// the results; only the end of ctx stops the run.
func Run(ctx context.Context, o Options, command []string, list ...Bench) (*Results, error) {
	began := time.Now()
	r := &Results{Schema: Schema, Command: command, Began: began.UTC(), Quick: o.Quick, Environment: ReadEnvironment()}
	r.Environment.Interfaces = append(r.Environment.Interfaces, o.Interfaces...)
	o.Progress.plan(list, o.Quick, o.Within)
	var failed []error
	for i, b := range list {
		budget := o.budget(list[i:], time.Since(began))
		data, err := runOne(ctx, o, r.Environment.Load, b, budget)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			failed = append(failed, err)
		}
		r.Benches, r.Ahead = append(r.Benches, data), names(list[i+1:])
		r.Seconds = time.Since(began).Seconds()
		if o.Partly != nil && len(r.Ahead) > 0 {
			if err := o.Partly(r); err != nil {
				return nil, err
			}
		}
	}
	o.Progress.done()
	return r, errors.Join(failed...)
}

func names(list []Bench) (out []string) {
	for _, b := range list {
		out = append(out, b.Name)
	}
	return out
}

// budget is the time of the first of the benches that are left, so that all of
// them fit into what is left of the run.
func (o Options) budget(left []Bench, spent time.Duration) time.Duration {
	own := left[0].length(o.Quick)
	all := total(left, o.Quick)
	if o.Within == 0 || all <= o.Within-spent {
		return own
	}
	return time.Duration(float64(own) * max(0, float64(o.Within-spent)) / float64(all))
}

func total(list []Bench, quick bool) (sum time.Duration) {
	for _, b := range list {
		sum += b.length(quick)
	}
	return sum
}

func runOne(ctx context.Context, o Options, load float64, b Bench, budget time.Duration) (*BenchData, error) {
	began := time.Now()
	s := &Session{
		Options: o, Link: b.Link, load: load, budget: budget, ends: began.Add(budget), processes: make(map[*Process]struct{}),
		data: &BenchData{Name: b.Name, Title: b.Title},
	}
	defer s.close()
	o.Progress.begin(b.Name)
	err := b.Run(ctx, s)
	s.data.Seconds = time.Since(began).Seconds()
	o.Progress.end(b.Name)
	if err != nil {
		s.data.Missing = err.Error()
		return s.data, fmt.Errorf("bench %s: %w", b.Name, err)
	}
	return s.data, s.failures()
}

// failures are the arms that could not be measured though they are there.
func (s *Session) failures() error {
	var failed []error
	for _, e := range s.data.Experiments {
		for _, c := range e.Cells {
			if c.Failed != "" {
				failed = append(failed, fmt.Errorf("bench %s, %s, %s: %s", s.data.Name, e.Name, c.Name, c.Failed))
			}
		}
	}
	return errors.Join(failed...)
}
