package bench

import "time"

// Computer is whatever the kernel keeps an account of CPU for.
type Computer interface {
	// CPU is the time it has computed so far.
	CPU() (time.Duration, error)
}

var _ Computer = (*Process)(nil)

// Spent runs f and tells what each of those who compute has spent meanwhile.
func Spent(f func() error, on ...Computer) ([]time.Duration, error) {
	before, err := accounts(on)
	if err != nil {
		return nil, err
	}
	if err := f(); err != nil {
		return nil, err
	}
	after, err := accounts(on)
	if err != nil {
		return nil, err
	}
	for i := range after {
		after[i] -= before[i]
	}
	return after, nil
}

func accounts(on []Computer) ([]time.Duration, error) {
	out := make([]time.Duration, len(on))
	for i, c := range on {
		var err error
		if out[i], err = c.CPU(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Micros of a time for each of so many operations.
func Micros(d time.Duration, ops int) float64 {
	return float64(d) / float64(time.Microsecond) / float64(max(1, ops))
}
