package pool

import (
	"context"
	"time"
)

// Sweep closes connections that have not been used for longer than the
// settings allow, and those that the other side has closed.
func (e *Endpoint) Sweep(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	kept := e.idle[:0]
	for _, c := range e.idle {
		if e.stale(c, now) {
			e.Series.Idle.Add(-1)
			e.forget(c)
			continue
		}
		kept = append(kept, c)
	}
	clear(e.idle[len(kept):])
	e.idle = kept
	for i := len(e.shared) - 1; i >= 0; i-- {
		if c := e.shared[i]; c.calls == 0 && e.stale(c, now) {
			e.expel(c)
		}
	}
}

func (e *Endpoint) stale(c *Conn, now time.Time) bool {
	return e.settings.Idle > 0 && now.Sub(c.used) >= e.settings.Idle || !c.Usable()
}

// Retire lets the endpoint end: unused connections are closed now, the others
// when their calls are done. Calls may still be made by those who know it.
func (e *Endpoint) Retire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.retired = true
	e.closeUnused()
	e.settle()
}

func (e *Endpoint) closeUnused() {
	for _, c := range e.idle {
		e.Series.Idle.Add(-1)
		e.forget(c)
	}
	e.idle = nil
	for i := len(e.shared) - 1; i >= 0; i-- {
		if c := e.shared[i]; c.calls == 0 {
			e.expel(c)
		}
	}
}

// settle tells Close when nothing is left of a retired endpoint.
func (e *Endpoint) settle() {
	if !e.retired || e.leases > 0 || e.waiters.len() > 0 || e.closing > 0 || e.dialing > 0 && !e.ending {
		return
	}
	select {
	case <-e.drained:
	default:
		close(e.drained)
	}
}

// Close retires the endpoint, waits for its calls until ctx ends, and then cuts
// those that are left. It returns the cause of ctx where it had to.
func (e *Endpoint) Close(ctx context.Context) error {
	e.mu.Lock()
	e.ending = true
	e.mu.Unlock()
	e.Retire()
	var err error
	select {
	case <-e.drained:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	e.kill()
	e.dials.Wait()
	return err
}

func (e *Endpoint) kill() {
	e.mu.Lock()
	e.killed = true
	e.stop()
	e.closeUnused()
	for w := e.waiters.pop(anyDial); w != nil; w = e.waiters.pop(anyDial) {
		w.ready <- outcome{err: ErrClosed}
	}
	cut := make([]*Conn, 0, len(e.conns))
	for c := range e.conns {
		cut = append(cut, c)
	}
	e.mu.Unlock()
	for _, c := range cut {
		c.Close() // their calls fail, and give them back
	}
}

// Drained tells whether the endpoint is retired and has no connections, no
// dials and nobody who waits for one.
func (e *Endpoint) Drained() bool {
	select {
	case <-e.drained:
		return true
	default:
		return false
	}
}
