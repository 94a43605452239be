package gateway

import (
	"sync"
	"time"
)

// task is what a worker does: one direction of an exchange.
type task interface{ run() }

// workerIdle is how long a worker waits for more before it ends.
const workerIdle = 10 * time.Second

// workers are goroutines that carry the second direction of exchanges and are
// used again, with the stacks they have grown. close ends them.
type workers struct {
	tasks chan task
	quit  chan struct{}
	wg    sync.WaitGroup
}

func newWorkers() *workers { return &workers{tasks: make(chan task), quit: make(chan struct{})} }

// start lets a worker run t, at once.
func (w *workers) start(t task) {
	select {
	case w.tasks <- t:
	default:
		w.wg.Add(1)
		go w.work(t)
	}
}

func (w *workers) work(t task) {
	defer w.wg.Done()
	t.run()
	timer := time.NewTimer(workerIdle)
	defer timer.Stop()
	for {
		select {
		case t = <-w.tasks:
			t.run()
			timer.Reset(workerIdle)
		case <-timer.C:
			return
		case <-w.quit:
			return
		}
	}
}

// close ends the workers that wait, and waits for those that run: whoever
// started them ends them.
func (w *workers) close() {
	close(w.quit)
	w.wg.Wait()
}
