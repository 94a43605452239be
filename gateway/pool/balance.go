package pool

import (
	"math/rand/v2"
	"time"
)

// Pick chooses the endpoint for a request: of two by chance the one with fewer
// requests in flight, among those that can be reached and are not in tried. An
// endpoint whose time away is over is tried first. Where none can be reached, the
// one that has been away longest is tried all the same; nil only where all
// have been tried.
func Pick(endpoints, tried []*Endpoint) *Endpoint {
	n := len(endpoints)
	if n == 1 {
		if contains(tried, endpoints[0]) {
			return nil
		}
		return endpoints[0]
	}
	if n == 0 {
		return nil
	}
	r := rand.Uint64() //nolint:gosec // balances, no secret
	i := int(r % uint64(n))
	j := int((r >> 32) % uint64(n-1))
	if j >= i {
		j++
	}
	if len(tried) == 0 && !anyFailing(endpoints) {
		return lighter(endpoints[i], endpoints[j])
	}
	return pickAmong(endpoints, tried, i)
}

func anyFailing(endpoints []*Endpoint) bool {
	for _, e := range endpoints {
		if e.health.failing.Load() {
			return true
		}
	}
	return false
}

func lighter(a, b *Endpoint) *Endpoint {
	if b.Series.InFlight.Load() < a.Series.InFlight.Load() {
		return b
	}
	return a
}

// pickAmong is Pick where some endpoints do not count: one that is to be probed,
// else the lighter of two that are well, else the one that comes back first.
func pickAmong(endpoints, tried []*Endpoint, from int) *Endpoint {
	var well [2]*Endpoint
	var last *Endpoint
	found := 0
	for k := range endpoints {
		e := endpoints[(from+k)%len(endpoints)]
		switch {
		case contains(tried, e):
		case !e.health.failing.Load():
			if found < 2 {
				well[found] = e
				found++
			}
		case e.health.try(time.Now):
			return e
		case last == nil || e.health.back().Before(last.health.back()):
			last = e
		}
	}
	switch found {
	case 2:
		return lighter(well[0], well[1])
	case 1:
		return well[0]
	}
	return last
}

func (h *health) back() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

func contains(list []*Endpoint, e *Endpoint) bool {
	for _, have := range list {
		if have == e {
			return true
		}
	}
	return false
}
