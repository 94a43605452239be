package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// set is a map of series that many goroutines use: its keys are configured
// names, or reasons of a fixed set. The zero value is empty.
type set[K comparable, V any] struct {
	mu sync.RWMutex
	m  map[K]*V
}

// find returns the value of k, or nil.
func (s *set[K, V]) find(k K) *V {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.m[k]
}

// get returns the value of k, which it makes when it is not there.
func (s *set[K, V]) get(k K) *V {
	if v := s.find(k); v != nil {
		return v
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.m[k]
	if v == nil {
		if s.m == nil {
			s.m = make(map[K]*V)
		}
		v = new(V)
		s.m[k] = v
	}
	return v
}

// len is the number of keys.
func (s *set[K, V]) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.m)
}

// all returns the map as it is now, a copy.
func (s *set[K, V]) all() map[K]*V {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.m)
}

// maxReasons bounds the reasons of one counter; reasons are constants of our
// own code, and this holds even if one of them is not.
const maxReasons = 48

// reasons counts by reason. The zero value is empty.
type reasons struct{ set[string, atomic.Uint64] }

func (r *reasons) add(reason string) {
	v := r.find(reason)
	if v == nil {
		if r.len() >= maxReasons {
			reason = "other"
		}
		v = r.get(label(reason))
	}
	v.Add(1)
}

// Codes of HTTP answers lie in pages of a hundred, each made when its first
// code is counted: a series that only ever answers 2xx holds one page.
const (
	codePages = 6 // 0xx (none was sent) to 5xx
	codePage  = 100
)

// codes counts by status code. The zero value is empty.
type codes struct {
	pages [codePages]atomic.Pointer[[codePage]atomic.Uint64]
}

// add counts one answer; codes outside 0–599 count as 0.
func (c *codes) add(code int) {
	if code < 0 || code >= codePages*codePage {
		code = 0
	}
	p := &c.pages[code/codePage]
	page := p.Load()
	if page == nil {
		page = new([codePage]atomic.Uint64)
		if !p.CompareAndSwap(nil, page) {
			page = p.Load()
		}
	}
	page[code%codePage].Add(1)
}

// each calls f for every code that was counted.
func (c *codes) each(f func(code int, n uint64)) {
	for i := range c.pages {
		page := c.pages[i].Load()
		if page == nil {
			continue
		}
		for j := range page {
			if n := page[j].Load(); n > 0 {
				f(i*codePage+j, n)
			}
		}
	}
}

// bounds are the upper bounds of the durations' buckets: from an answer out of
// memory to a completion that streams for minutes.
var bounds = [...]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute,
}

// histogram counts durations. The zero value is empty.
type histogram struct {
	buckets [len(bounds) + 1]atomic.Uint64
	nanos   atomic.Int64
}

func (h *histogram) observe(d time.Duration) {
	if d < 0 {
		d = 0
	}
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.nanos.Add(int64(d))
}

// snapshot returns what Prometheus wants: the count, the sum in seconds, and
// cumulative buckets.
func (h *histogram) snapshot() (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(bounds))
	for i := range h.buckets {
		count += h.buckets[i].Load()
		if i < len(bounds) {
			buckets[bounds[i].Seconds()] = count
		}
	}
	return count, time.Duration(h.nanos.Load()).Seconds(), buckets
}
