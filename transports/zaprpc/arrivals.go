package zaprpc

import "time"

// arrivals are the promises of the calls that have come last. QUIC streams overtake each
// other, so a call may come before its target does.
type arrivals struct {
	have    map[uint32]bool
	order   []uint32 // a ring
	oldest  int
	waiting map[uint32]chan struct{} // closed when that call arrives
}

// targetTime bounds how long a call waits for its target to arrive.
const targetTime = time.Second

// await waits until the target of a call has arrived, or so long that it will not.
func (p *quicPort) await(target uint32) {
	p.mu.Lock()
	if p.known.have[target] {
		p.mu.Unlock()
		return
	}
	ch := p.known.waiting[target]
	if ch == nil {
		ch = make(chan struct{})
		if p.known.waiting == nil {
			p.known.waiting = map[uint32]chan struct{}{}
		}
		p.known.waiting[target] = ch
	}
	p.mu.Unlock()
	t := time.NewTimer(targetTime)
	defer t.Stop()
	select {
	case <-ch:
	case <-t.C:
		p.mu.Lock()
		if p.known.waiting[target] == ch {
			delete(p.known.waiting, target)
		}
		p.mu.Unlock()
	case <-p.stop:
	case <-p.qc.Context().Done():
	}
}

// arrived notes a call, and lets those go on that wait for it.
func (p *quicPort) arrived(promise uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &p.known
	if a.have == nil {
		a.have = map[uint32]bool{}
	}
	if ch := a.waiting[promise]; ch != nil {
		delete(a.waiting, promise)
		close(ch)
	}
	if a.have[promise] {
		return
	}
	a.have[promise] = true
	if len(a.order) < answeredKept {
		a.order = append(a.order, promise)
		return
	}
	delete(a.have, a.order[a.oldest])
	a.order[a.oldest] = promise
	a.oldest = (a.oldest + 1) % answeredKept
}
