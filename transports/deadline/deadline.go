// Package deadline is the lazy clock of the transports: one goroutine looks
// over all connections a few times a second, cuts those whose time has run
// out, and notices clients that went away while nobody reads from them. A
// request costs a store instead of a timer.
package deadline

import (
	"sync"
	"sync/atomic"
	"time"
)

// Tick is how often a Watch looks. A deadline is never early, and late by two
// ticks at most: one that its clock lags, one until it looks again.
const Tick = 250 * time.Millisecond

// Watch looks over the entries added to it. Make it with New; Close ends its
// goroutine.
type Watch struct {
	start time.Time
	now   atomic.Int64 // milliseconds since start

	mu      sync.Mutex
	entries []*Entry
	asked   []*Entry // scratch: whose socket is asked whether the peer is gone
	fds     pollSet

	quit, done chan struct{}
}

// Entry is one connection's deadline. Its owner sets Expire and, where there
// is a socket, Gone and FD before Add and leaves them.
type Entry struct {
	// Expire is called, from the watch's goroutine and once, when the deadline has
	// passed. It must not wait: it cuts the connection's reads and writes short.
	Expire func()
	// Gone is called, at most once per Ask, when the peer has closed its side.
	Gone func()
	// FD is the socket to ask, or -1.
	FD int
	// Poll is asked in place of a socket, where there is none, whether the peer is
	// gone. It is called under the watch's lock and must not wait.
	Poll func() bool

	due   atomic.Int64 // milliseconds of the watch; 0 none, expired once passed
	stall atomic.Int64 // the most that Set may make of due; 0 for any
	ask   atomic.Int64 // since when the peer is to be asked after; 0 not, below 0 once
	index int          // in entries
}

const expired = -1

// New starts a watch.
func New() *Watch {
	w := &Watch{start: time.Now(), quit: make(chan struct{}), done: make(chan struct{})}
	w.now.Store(1)
	go w.run()
	return w
}

// Close stops the watch; what it watched is not touched.
func (w *Watch) Close() {
	close(w.quit)
	<-w.done
}

// Now is the coarse time, in milliseconds since the watch began.
func (w *Watch) Now() int64 { return w.now.Load() }

// Add begins to watch e.
func (w *Watch) Add(e *Entry) {
	w.mu.Lock()
	e.index = len(w.entries)
	w.entries = append(w.entries, e)
	w.mu.Unlock()
}

// Remove ends it. After it returns the socket is not asked any more, so it may be
// closed; a call of Expire or Gone may still be under way.
func (w *Watch) Remove(e *Entry) {
	w.mu.Lock()
	if last := len(w.entries) - 1; e.index <= last && w.entries[e.index] == e {
		w.entries[e.index] = w.entries[last]
		w.entries[e.index].index = e.index
		w.entries[last] = nil
		w.entries = w.entries[:last]
	}
	w.mu.Unlock()
}

// Len is the number of entries watched.
func (w *Watch) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.entries)
}

// Set moves the deadline to d from now, or away where d is 0, though not beyond that of
// Stall. It returns false when the deadline had passed before: Expire has been called or is about
// to be.
func (w *Watch) Set(e *Entry, d time.Duration) bool {
	due := w.due(d)
	for {
		stall := e.stall.Load()
		ahead := e.move(within(due, stall))
		if e.stall.Load() == stall {
			return ahead
		}
	}
}

// Stall bounds the deadline by d from now until Unstall, where d is not 0: whoever calls Set for another
// reason, that of the other direction as a rule, does not move it further.
func (w *Watch) Stall(e *Entry, d time.Duration) {
	e.stall.Store(w.due(d))
	w.Set(e, d)
}

// Unstall ends Stall, and leaves the deadline where it is.
func (e *Entry) Unstall() { e.stall.Store(0) }

// due is d from now by the clock of the watch; 0 where d is.
func (w *Watch) due(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return w.Now() + d.Milliseconds() + Tick.Milliseconds()
}

// within is the earlier of two deadlines, of which 0 is none.
func within(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// move sets the deadline unless it has passed.
func (e *Entry) move(due int64) bool {
	old := e.due.Load()
	for old != expired {
		if old == due || e.due.CompareAndSwap(old, due) {
			return true
		}
		old = e.due.Load()
	}
	return false
}

// Expired tells whether the deadline has passed.
func (e *Entry) Expired() bool { return e.due.Load() == expired }

// Ask lets the watch look whether the peer has closed, at every tick once a whole
// one has passed, until Unask or until it finds that it has. So a client that ends
// its direction behind its request still gets an answer that comes within a tick.
func (w *Watch) Ask(e *Entry) { e.ask.Store(w.Now()) }

// AskOnce is Ask for one look alone, which tells of a FIN that came with bytes
// that were read before.
func (w *Watch) AskOnce(e *Entry) { e.ask.Store(-w.Now()) }

// Unask ends Ask.
func (e *Entry) Unask() { e.ask.Store(0) }

func (w *Watch) run() {
	defer close(w.done)
	t := time.NewTicker(Tick)
	defer t.Stop()
	var late, gone []*Entry
	for {
		select {
		case <-w.quit:
			return
		case <-t.C:
		}
		w.now.Store(max(1, time.Since(w.start).Milliseconds()))
		late, gone = w.look(late[:0], gone[:0])
		for _, e := range late {
			e.Expire()
		}
		for _, e := range gone {
			e.Gone()
		}
		clear(late)
		clear(gone)
	}
}

// look finds the entries that are late and those whose peers are gone. The
// sockets are asked under the lock, so none of them can be another's by then.
func (w *Watch) look(late, gone []*Entry) (_, _ []*Entry) {
	now := w.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = w.asked[:0]
	for _, e := range w.entries {
		if due := e.due.Load(); due > 0 && due <= now && e.due.CompareAndSwap(due, expired) {
			late = append(late, e)
		}
		since := e.ask.Load()
		// since may be a tick old itself: only after two has one passed for certain.
		if since == 0 || now-max(since, -since) < 2*Tick.Milliseconds() {
			continue
		}
		if e.FD >= 0 {
			w.asked = append(w.asked, e)
		} else if e.Poll != nil {
			if is := e.Poll(); (is || since < 0) && e.ask.CompareAndSwap(since, 0) && is {
				gone = append(gone, e)
			}
		}
	}
	if len(w.asked) > 0 {
		gone = w.fds.closed(w.asked, gone)
	}
	clear(w.asked)
	return late, gone
}
