package bench

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// How often progress is told: a terminal rewrites one line, a log gets lines.
const (
	onTerminal = 200 * time.Millisecond
	inLog      = 5 * time.Second
)

// Progress tells what a run is doing and how long it has to go. A nil
// Progress keeps silent.
type Progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	told     time.Time
	ends     time.Time     // of the bench under way, as planned
	after    time.Duration // what the benches after it take
	waiting  map[string]time.Duration
	bench    string
}

// NewProgress tells w.
func NewProgress(w io.Writer) *Progress {
	p := &Progress{w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *Progress) plan(list []Bench, quick bool, within time.Duration) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = make(map[string]time.Duration)
	part := 1.0
	if all := total(list, quick); within > 0 && within < all {
		part = float64(within) / float64(all)
	}
	for _, b := range list {
		d := time.Duration(part * float64(b.length(quick)))
		p.waiting[b.Name] = d
		p.after += d
	}
}

func (p *Progress) begin(name string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bench, p.ends = name, time.Now().Add(p.waiting[name])
	p.after -= p.waiting[name]
}

func (p *Progress) step(experiment, stage, arm string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	every := inLog
	if p.terminal {
		every = onTerminal
	}
	now := time.Now()
	if now.Sub(p.told) < every {
		return
	}
	p.told = now
	left := max(0, p.ends.Sub(now)) + p.after
	p.line(fmt.Sprintf("%s %s, %s: %s; about %s left", p.bench, experiment, stage, arm, left.Round(time.Second)))
}

func (p *Progress) end(name string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	took := p.waiting[name] - time.Until(p.ends)
	p.line(fmt.Sprintf("%s: done in %s; about %s left", name, took.Round(100*time.Millisecond), p.after.Round(time.Second)))
}

func (p *Progress) done() {
	if p == nil || !p.terminal {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.w)
}

func (p *Progress) line(s string) {
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", s)
		return
	}
	fmt.Fprintln(p.w, s)
}
