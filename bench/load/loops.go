package load

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hanzoai/pqgw/bench"
)

// Done is what a closed loop came to.
type Done struct {
	Ops  int           `json:"ops"`
	Wall time.Duration `json:"wall"`
}

// closed lets every worker ask as soon as it is answered, until the slice is over.
func (g *generator) closed(_ context.Context, s bench.Slice) (Done, error) {
	if s.Ops > 0 {
		s.Ops = (s.Ops + len(g.workers) - 1) / len(g.workers)
	}
	var ops atomic.Int64
	began := time.Now()
	err := g.each(func(k *worker) error {
		done := 0
		for !s.Over(began, done) {
			if err := k.ask(false); err != nil {
				return err
			}
			done++
		}
		ops.Add(int64(done))
		return nil
	})
	return Done{Ops: int(ops.Load()), Wall: time.Since(began)}, err
}

// Pace is a constant rate of requests.
type Pace struct {
	Rate float64       `json:"rate"` // requests a second, all workers together
	For  time.Duration `json:"for"`
}

// Timed is what a run at a constant rate came to. Times run from the moment
// a request should have been sent, so that those that wait behind a slow one count as the
// slow ones they are (coordinated omission).
type Timed struct {
	Done
	P50  time.Duration `json:"p50"`
	P99  time.Duration `json:"p99"`
	P999 time.Duration `json:"p999"`
	Max  time.Duration `json:"max"`
	// Late is the share of requests that no worker was free for when they were due.
	Late float64 `json:"late"`
}

// Bounds of the histogram: 1 µs to a minute, to three digits.
const (
	histogramLowest  = int64(time.Microsecond)
	histogramHighest = int64(time.Minute)
	histogramDigits  = 3
)

// open asks at a rate. One goroutine keeps time and hands out what is due;
// the workers ask and record.
func (g *generator) open(_ context.Context, p Pace) (Timed, error) {
	n := max(1, int(p.Rate*p.For.Seconds()))
	due := make(chan time.Time, n) // all of them fit, so keeping time never waits
	var free, late atomic.Int64
	free.Store(int64(len(g.workers)))
	began := time.Now()
	go func() { // ends when all is handed out
		defer close(due)
		pace(began, p.Rate, n, func(at time.Time) {
			if free.Load() <= int64(len(due)) {
				late.Add(1)
			}
			due <- at
		})
	}()
	all := hdrhistogram.New(histogramLowest, histogramHighest, histogramDigits)
	var mu sync.Mutex
	err := g.each(func(k *worker) error {
		own := hdrhistogram.New(histogramLowest, histogramHighest, histogramDigits)
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			all.Merge(own)
		}()
		for at := range due {
			free.Add(-1)
			err := k.ask(false)
			free.Add(1)
			if err != nil {
				return err
			}
			if err := own.RecordValue(min(int64(time.Since(at)), histogramHighest)); err != nil {
				return err
			}
		}
		return nil
	})
	at := func(q float64) time.Duration { return time.Duration(all.ValueAtQuantile(q)) }
	return Timed{
		Done: Done{Ops: int(all.TotalCount()), Wall: time.Since(began)},
		P50:  at(50), P99: at(99), P999: at(99.9), Max: time.Duration(all.Max()), Late: float64(late.Load()) / float64(n),
	}, err
}

// pace calls f n times at a rate, each with the moment that it stands for.
func pace(began time.Time, rate float64, n int, f func(at time.Time)) {
	each := float64(time.Second) / rate
	for i := range n {
		at := began.Add(time.Duration(math.Round(float64(i) * each)))
		sleepUntil(at)
		f(at)
	}
}
