package pool

import "math"

// waiter is a request that waits for a connection.
type waiter struct {
	ready      chan outcome // has room for one
	fresh      bool         // only a connection whose dial began after the waiting did will do
	since      uint64       // how many dials had begun by then
	queue      *queue       // that it stands in, nil once it was served or has left
	next, prev *waiter
}

type outcome struct {
	conn *Conn
	err  error
}

// waiters are served in the order in which they came; those who need a fresh
// connection stand apart, since what others give back does not serve them.
type waiters struct{ any, fresh queue }

func (w *waiters) len() int { return w.any.n + w.fresh.n }

func (w *waiters) push(one *waiter) {
	if one.fresh {
		w.fresh.push(one)
	} else {
		w.any.push(one)
	}
}

// pop takes the first out whom the dial of that number serves, or nil.
func (w *waiters) pop(dial uint64) *waiter {
	if first := w.fresh.head; first != nil && dial > first.since {
		return w.fresh.pop()
	}
	return w.any.pop()
}

// Numbers of dials that stand for others.
const (
	someDial = 0              // of a connection that has carried calls
	anyDial  = math.MaxUint64 // serves whoever waits
)

// leave takes one out that gives up; false when it has been served already.
func (w *waiters) leave(one *waiter) bool {
	if one.queue == nil {
		return false
	}
	one.queue.remove(one)
	return true
}

type queue struct {
	head, tail *waiter
	n          int
}

func (q *queue) push(w *waiter) {
	w.prev, w.queue = q.tail, q
	if q.tail != nil {
		q.tail.next = w
	} else {
		q.head = w
	}
	q.tail = w
	q.n++
}

func (q *queue) pop() *waiter {
	w := q.head
	if w != nil {
		q.remove(w)
	}
	return w
}

func (q *queue) remove(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.tail = w.prev
	}
	w.next, w.prev, w.queue = nil, nil, nil
	q.n--
}
