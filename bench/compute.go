package bench

import (
	"runtime"
	"time"
)

// Computed is what a loop in this process took.
type Computed struct {
	Ops    int           `json:"ops"`
	CPU    time.Duration `json:"cpu"`    // of all operations
	Allocs float64       `json:"allocs"` // for each operation
}

// Nanoseconds of CPU for each operation.
func (c Computed) Nanoseconds() float64 { return float64(c.CPU) / float64(c.Ops) }

// Compute runs a loop for a slice, so many operations between two looks at the
// clock. Nothing else should happen in the process: its whole CPU is counted.
func Compute(s Slice, batch int, loop func(n int) error) (Computed, error) {
	var out Computed
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	from, err := OwnCPU()
	if err != nil {
		return out, err
	}
	for began := time.Now(); !s.Over(began, out.Ops); {
		n := batch
		if s.Ops > 0 {
			n = min(n, s.Ops-out.Ops)
		}
		if err := loop(n); err != nil {
			return out, err
		}
		out.Ops += n
	}
	to, err := OwnCPU()
	if err != nil {
		return out, err
	}
	runtime.ReadMemStats(&after)
	out.CPU, out.Allocs = to-from, float64(after.Mallocs-before.Mallocs)/float64(out.Ops)
	return out, nil
}
