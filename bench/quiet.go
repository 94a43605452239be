package bench

import (
	"fmt"
	"runtime"
	"time"
)

// What a quiet machine is: below these, others take less from a measurement
// than its rounds differ by anyway.
const (
	maxLoad    = 0.5  // load average of the last minute before the run, for each CPU
	maxSteal   = 0.01 // share of the CPUs' time that the hypervisor gave to others
	maxForeign = 0.05 // share of the CPUs' time that other processes took
)

// Quiet is what else the machine did during a round.
type Quiet struct {
	Load    float64 `json:"load"`    // load average of the last minute, before the run
	Steal   float64 `json:"steal"`   // share of all CPUs' time
	Foreign float64 `json:"foreign"` // share of all CPUs' time
	Known   bool    `json:"known"`   // whether this system tells
}

// Why is the reason not to trust rates and times, "" if there is none.
func (q Quiet) Why() string {
	switch {
	case !q.Known:
		return "not measured: this system does not tell what else runs"
	case q.Load > maxLoad*float64(runtime.NumCPU()):
		return fmt.Sprintf("not measured: load %.2f before the run", q.Load)
	case q.Steal > maxSteal:
		return fmt.Sprintf("not measured: %.1f %% of CPU time stolen", 100*q.Steal)
	case q.Foreign > maxForeign:
		return fmt.Sprintf("not measured: other processes took %.1f %% of CPU time", 100*q.Foreign)
	}
	return ""
}

// machine is the kernel's account of all CPUs at one moment.
type machine struct {
	at          time.Time
	busy, steal time.Duration
	ours        time.Duration
	known       bool
}

// between says how quiet the machine was from one moment to another.
func between(load float64, a, b machine) Quiet {
	if !a.known || !b.known {
		return Quiet{Load: load}
	}
	all := float64(b.at.Sub(a.at)) * float64(runtime.NumCPU())
	if all <= 0 {
		return Quiet{Load: load}
	}
	// The kernel counts the machine in ticks of 10 ms, us in nanoseconds: a
	// tick for each CPU is noise, not others.
	foreign := float64(b.busy-a.busy) - float64(b.ours-a.ours) - float64(runtime.NumCPU())*float64(tick)
	return Quiet{Load: load, Steal: float64(b.steal-a.steal) / all, Foreign: max(0, foreign/all), Known: true}
}

// tick is the unit of /proc/stat (USER_HZ, which Linux fixes for all programs).
const tick = 10 * time.Millisecond
