package pool

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// An endpoint that cannot be reached is left alone for ejectFirst, and twice as
// long each time it turns out still not to be, up to ejectMost. When the time is over one
// request tries it; others do not follow for probeTime or until it went well.
const (
	ejectFirst = 500 * time.Millisecond
	ejectMost  = 30 * time.Second
	probeTime  = 5 * time.Second
)

// health is what dialling has shown of an endpoint. The zero value is well.
type health struct {
	failing atomic.Bool // the others count only while it is set

	mu      sync.Mutex
	fails   int
	until   time.Time
	probing bool
}

func (h *health) succeeded() {
	if !h.failing.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails, h.probing = 0, false
	h.failing.Store(false)
}

// failed ejects the endpoint. Dials that were under way when it was ejected do
// not make its time longer.
func (h *health) failed(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fails > 0 && !h.probing && now.Before(h.until) {
		return
	}
	away := ejectFirst << min(h.fails, 10)
	away = min(away, ejectMost)
	away += rand.N(away / 4) //nolint:gosec // spreads probes, no secret
	h.fails++
	h.until, h.probing = now.Add(away), false
	h.failing.Store(true)
}

// try tells whether a request may go there; of an endpoint whose time is over,
// only the first that asks.
func (h *health) try(now func() time.Time) bool {
	if !h.failing.Load() {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fails == 0 {
		return true
	}
	t := now()
	if t.Before(h.until) {
		return false
	}
	h.until, h.probing = t.Add(probeTime), true
	return true
}

func (h *health) state(now time.Time) string {
	if !h.failing.Load() {
		return "up"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fails > 0 && now.Before(h.until) {
		return "ejected"
	}
	return "up"
}
