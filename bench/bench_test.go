package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	RegisterRole("test-spin", spinRole)
	RegisterRole("test-parent", parentRole)
	RunChild()
	goleak.VerifyTestMain(m)
}

// spinRole computes when told to.
func spinRole(context.Context, json.RawMessage) (map[string]Verb, func(), error) {
	return map[string]Verb{
		"spin": func(_ context.Context, args json.RawMessage) (any, error) {
			var d time.Duration
			if err := json.Unmarshal(args, &d); err != nil {
				return nil, err
			}
			before := ownCPU()
			for ownCPU()-before < d {
			}
			return ownCPU() - before, nil
		},
		"environment": func(context.Context, json.RawMessage) (any, error) { return ReadEnvironment(), nil },
		"fail":        func(context.Context, json.RawMessage) (any, error) { return nil, errors.New("as told") },
		"die":         func(context.Context, json.RawMessage) (any, error) { os.Exit(3); return nil, nil },
	}, func() {}, nil
}

// parentRole starts a child of its own and tells its pid.
func parentRole(context.Context, json.RawMessage) (map[string]Verb, func(), error) {
	c, err := startChild("test-spin", nil, -1, nil)
	if err != nil {
		return nil, nil, err
	}
	return map[string]Verb{"pid": func(context.Context, json.RawMessage) (any, error) { return c.PID(), nil }}, c.Stop, nil
}

func session(t *testing.T, o Options, budget time.Duration) *Session {
	t.Helper()
	s := &Session{Options: o, budget: budget, ends: time.Now().Add(budget), processes: make(map[*Process]struct{}), data: new(BenchData)}
	t.Cleanup(s.close)
	return s
}

func TestRoundsRunArmsInTurnAndLeaveWarmUpOut(t *testing.T) {
	var order []string
	arm := func(name string) Arm {
		return Arm{Name: name, Open: func(context.Context) (Runner, error) {
			return RunnerFunc(func(_ context.Context, s Slice) (Sample, error) {
				order = append(order, name)
				return Sample{Ops: s.Ops, Values: map[string]float64{"cpu": float64(len(order))}}, nil
			}), nil
		}}
	}
	s := session(t, Options{Rounds: 3, Ops: 7}, time.Second)
	d, err := s.Measure(t.Context(), Experiment{Metrics: []Metric{{Name: "cpu", Kind: CPU}}, Arms: []Arm{arm("a"), arm("b")}, Share: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "ab"+"ababab" {
		t.Errorf("order %q", got)
	}
	if got := d.Cells[0].Values("cpu"); !slices.Equal(got, []float64{3, 5, 7}) {
		t.Errorf("samples of a: %v, want those after the warm-up", got)
	}
	if st := d.Cells[0].Stats["cpu"]; st.Median != 5 || st.Low > 5 || st.High < 5 || st.N != 3 {
		t.Errorf("statistics %+v", st)
	}
	if len(d.Quiet) != 3 {
		t.Errorf("%d accounts of the machine for 3 rounds", len(d.Quiet))
	}
}

func TestAnArmThatFailsOrIsMissingSaysSoAndOthersGoOn(t *testing.T) {
	closed := 0
	good := Arm{Name: "good", Open: func(context.Context) (Runner, error) {
		return RunnerFunc(func(context.Context, Slice) (Sample, error) {
			return Sample{Values: map[string]float64{"n": 1}}, nil
		}), nil
	}}
	s := session(t, Options{Rounds: 2}, time.Second)
	d, err := s.Measure(t.Context(), Experiment{Metrics: []Metric{{Name: "n", Kind: Count}}, Share: 1, Arms: []Arm{
		{Name: "missing", Missing: "not there"},
		{Name: "closed", Open: func(context.Context) (Runner, error) { return nil, errors.New("will not open") }},
		{Name: "bad", Open: func(context.Context) (Runner, error) { return &failing{after: 2, closed: &closed}, nil }},
		good,
	}})
	if err != nil {
		t.Fatal(err)
	}
	if c := d.Cells[0]; c.Missing != "not there" || c.Failed != "" || len(c.Samples) != 0 {
		t.Errorf("missing: %+v", c)
	}
	if c := d.Cells[1]; c.Failed != "will not open" {
		t.Errorf("closed: %+v", c)
	}
	if c := d.Cells[2]; c.Failed != "worn out" || len(c.Samples) != 1 || closed != 1 {
		t.Errorf("bad: %+v, closed %d times", c, closed)
	}
	if c := d.Cells[3]; len(c.Samples) != 2 {
		t.Errorf("good: %+v", c)
	}
	if err := s.failures(); err == nil || !strings.Contains(err.Error(), "worn out") {
		t.Errorf("failures: %v", err)
	}
}

// failing works for so many rounds.
type failing struct {
	after  int
	closed *int
}

func (f *failing) Round(context.Context, Slice) (Sample, error) {
	if f.after--; f.after < 0 {
		return Sample{}, errors.New("worn out")
	}
	return Sample{Values: map[string]float64{"n": 1}}, nil
}

func (f *failing) Close() error { *f.closed++; return nil }

func TestRatesOfLoudRoundsAreNotMeasuredAndCPUIs(t *testing.T) {
	loud, quiet := Quiet{Known: true, Foreign: 0.5}, Quiet{Known: true}
	for _, test := range []struct {
		quiet []Quiet
		want  string
	}{
		{[]Quiet{quiet, quiet, quiet}, ""},
		{[]Quiet{quiet, loud, quiet}, ""},
		{[]Quiet{loud, loud, quiet}, "other processes took 50.0 %"},
		{[]Quiet{{Known: true, Load: 100}, {Known: true, Steal: 0.1}, {Known: true, Steal: 0.1}}, "10.0 % of CPU time stolen"},
		{[]Quiet{{}, {}, {}}, "does not tell"},
	} {
		e := &ExperimentData{Quiet: test.quiet}
		c := &Cell{}
		for i := range 3 {
			c.Samples = append(c.Samples, Sample{Round: i, Values: map[string]float64{"rate": 10 * float64(i), "cpu": float64(i)}})
		}
		rate, _ := e.summarise(c, Metric{Name: "rate", Kind: Rate})
		if (test.want == "") != (rate.NotMeasured == "") || !strings.Contains(rate.NotMeasured, test.want) {
			t.Errorf("%v: rate %+v, want %q", test.quiet, rate, test.want)
		}
		if cpu, _ := e.summarise(c, Metric{Name: "cpu", Kind: CPU}); cpu.N != 3 || cpu.NotMeasured != "" {
			t.Errorf("%v: CPU %+v", test.quiet, cpu)
		}
	}
	// Only quiet rounds count.
	e := &ExperimentData{Quiet: []Quiet{quiet, loud, quiet}}
	c := &Cell{Samples: []Sample{{Round: 0, Values: map[string]float64{"rate": 2}}, {Round: 1, Values: map[string]float64{"rate": 100}}, {Round: 2, Values: map[string]float64{"rate": 4}}}}
	if rate, _ := e.summarise(c, Metric{Name: "rate", Kind: Rate}); rate.Median != 3 || rate.N != 2 {
		t.Errorf("rate %+v, want that of the two quiet rounds", rate)
	}
}

func TestStatistics(t *testing.T) {
	if m := Median([]float64{9, 1, 5}); m != 5 {
		t.Error(m)
	}
	if m := Median([]float64{4, 1}); m != 2.5 {
		t.Error(m)
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("the median of nothing")
	}
	if q := Quantile([]float64{0, 10}, 0.25); q != 2.5 {
		t.Error(q)
	}
	values := []float64{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}
	s := Summarise(values)
	if s.Median != 14.5 || s.Low < 10 || s.Low >= 14.5 || s.High <= 14.5 || s.High > 19 {
		t.Errorf("%+v", s)
	}
	if s != Summarise(values) {
		t.Error("the same values gave another interval")
	}
	doubled := make([]float64, len(values))
	for i, v := range values {
		doubled[i] = 2 * v
	}
	// Rounds hit both alike, so their ratio is exact however they scatter.
	if r := Ratio(doubled, values); r.Median != 2 || r.Low != 2 || r.High != 2 {
		t.Errorf("ratio %+v", r)
	}
	if c := Change(values, doubled); c.Median != 2 || c.Low >= 2 || c.High <= 2 {
		t.Errorf("change %+v", c)
	}
	if s := Summarise(nil); s.NotMeasured == "" {
		t.Errorf("%+v", s)
	}
}

func TestTheIntervalHoldsTheMedianAsOftenAsItSays(t *testing.T) {
	held := 0
	const runs = 200
	for run := range runs {
		values := make([]float64, 15)
		for i := range values { // a fixed scatter, symmetric about 0
			values[i] = math.Sin(float64(run*len(values)+i) * 12.9898 * 43.7585)
		}
		if s := Summarise(values); s.Low <= 0 && s.High >= 0 {
			held++
		}
	}
	if share := float64(held) / runs; share < 0.88 {
		t.Errorf("%.0f %% of intervals hold the true median", 100*share)
	}
}

func TestResultsComeBackAsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	r, err := Run(t.Context(), Options{Quick: true, Rounds: 2}, []string{"pqgw", "bench", "x"}, Bench{
		Name: "x", Title: "X", Quick: time.Second, Run: func(ctx context.Context, s *Session) error {
			s.Note("a %s", "note")
			_, err := s.Measure(ctx, Experiment{Name: "e", Share: 1, Metrics: []Metric{{Name: "n", Kind: Count}}, Arms: []Arm{{
				Name: "arm", Labels: map[string]string{"k": "v"}, Open: func(context.Context) (Runner, error) {
					return RunnerFunc(func(context.Context, Slice) (Sample, error) {
						return Sample{Ops: 1, Values: map[string]float64{"n": 3}}, nil
					}), nil
				},
			}}})
			return err
		},
	}, Bench{Name: "y", Run: func(context.Context, *Session) error { return errors.New("not on this system") }})
	if err == nil || !strings.Contains(err.Error(), "bench y: not on this system") {
		t.Errorf("error %v", err)
	}
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	back, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(r)
	b, _ := json.Marshal(back)
	if !bytes.Equal(a, b) {
		t.Errorf("wrote\n%s\nread\n%s", a, b)
	}
	if c := back.Bench("x").Experiment("e").Find(map[string]string{"k": "v"}); c == nil || c.Stats["n"].Median != 3 {
		t.Errorf("cell %+v", c)
	}
	if back.Bench("y").Missing == "" || back.Environment.CPUs == 0 || back.Environment.Go == "" {
		t.Errorf("%+v", back)
	}
	r.Schema++
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "schema") {
		t.Errorf("another schema: %v", err)
	}
}

func TestProgressSaysWhatRunsAndHowLongItTakes(t *testing.T) {
	var out bytes.Buffer
	_, err := Run(t.Context(), Options{Quick: true, Progress: NewProgress(&out)}, nil, Bench{Name: "short", Quick: time.Minute, Run: func(_ context.Context, s *Session) error {
		s.Progress.step("e", "round 1 of 2", "arm")
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"short e, round 1 of 2: arm; about 1m0s left\n", "short: done in 0s; about 0s left\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q", want, out.String())
		}
	}
}

func TestASlowMachineGetsShorterSlicesAndFewerRounds(t *testing.T) {
	slow := Arm{Name: "slow", Open: func(context.Context) (Runner, error) {
		return RunnerFunc(func(_ context.Context, s Slice) (Sample, error) {
			time.Sleep(s.For + 20*time.Millisecond) // the work itself: longer than it was given
			return Sample{Values: map[string]float64{"n": 1}}, nil
		}), nil
	}}
	s := session(t, Options{Rounds: 50}, 200*time.Millisecond)
	began := time.Now()
	d, err := s.Measure(t.Context(), Experiment{Arms: []Arm{slow}, Share: 1})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("took %v of 200ms", took)
	}
	if d.Rounds < leastRounds || d.Rounds >= 50 || len(d.Quiet) != d.Rounds || len(d.Cells[0].Samples) != d.Rounds {
		t.Errorf("%d rounds, %d samples", d.Rounds, len(d.Cells[0].Samples))
	}
}
