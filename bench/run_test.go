package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBenchesFitIntoTheTimeOfTheRun(t *testing.T) {
	var got []time.Duration
	say := func(_ context.Context, s *Session) error {
		got = append(got, s.Budget())
		return nil
	}
	list := []Bench{{Name: "a", Full: time.Hour, Run: say}, {Name: "b", Full: 3 * time.Hour, Run: say}}
	if _, err := Run(t.Context(), Options{Within: 2 * time.Hour}, nil, list...); err != nil {
		t.Fatal(err)
	}
	if d := got[0] - 30*time.Minute; d > 0 || d < -time.Minute {
		t.Errorf("a quarter of the work may take %v of two hours", got[0])
	}
	if d := got[1] - 90*time.Minute; d > 31*time.Minute || d < -time.Minute {
		t.Errorf("the rest may take %v", got[1])
	}
	got = nil
	if _, err := Run(t.Context(), Options{Within: 10 * time.Hour}, nil, list...); err != nil || got[0] != time.Hour {
		t.Errorf("with time to spare it takes %v: %v", got[0], err)
	}
	o := Options{Within: time.Hour}
	if d := o.budget(list, 2*time.Hour); d != 0 {
		t.Errorf("when time is up there are %v left", d)
	}
}

func TestARunThatIsCutShortLeavesWhatItHas(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var left []string
	o := Options{Partly: func(r *Results) error {
		left = slices.Clone(r.Ahead)
		if r.Bench("a") == nil {
			t.Error("the first bench is not there")
		}
		return nil
	}}
	fine := func(context.Context, *Session) error { return nil }
	_, err := Run(ctx, o, nil, Bench{Name: "a", Run: fine}, Bench{Name: "b", Run: func(context.Context, *Session) error { cancel(); return nil }}, Bench{Name: "c", Run: fine})
	if !errors.Is(err, context.Canceled) || strings.Join(left, " ") != "b c" {
		t.Errorf("%v, ahead of what was stored: %v", err, left)
	}
	full := errors.New("the disk is full")
	o.Partly = func(*Results) error { return full }
	if _, err := Run(t.Context(), o, nil, Bench{Name: "a", Run: fine}, Bench{Name: "b", Run: fine}); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

func TestAcrossALinkABenchHasAnotherName(t *testing.T) {
	var lab string
	b := Bench{Name: "x", Full: time.Minute, Linkable: true, Run: func(_ context.Context, s *Session) error { lab = s.Link; return nil }}
	r, err := Run(t.Context(), Options{}, nil, b, b.Across("far"))
	if err != nil || lab != "far" || r.Bench("x") == nil || r.Bench("x"+LinkSuffix) == nil {
		t.Errorf("%v, lab %q, %+v", err, lab, r)
	}
}

func TestRoundsAreTrimmedToUsefulSlices(t *testing.T) {
	s := session(t, Options{}, time.Minute)
	for _, c := range []struct {
		length  time.Duration
		weights float64
		want    int
	}{{time.Hour, 10, 15}, {100 * usefulSlice, 10, 9}, {usefulSlice, 10, leastRounds}} {
		if got := s.affordable(15, c.length, c.weights); got != c.want {
			t.Errorf("%v for weights of %v: %d rounds, wanted %d", c.length, c.weights, got, c.want)
		}
	}
	s.Rounds = 40
	if got := s.affordable(40, usefulSlice, 10); got != 40 {
		t.Errorf("%d rounds where 40 were asked for", got)
	}
}
