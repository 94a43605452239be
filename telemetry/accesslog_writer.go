package telemetry

import (
	"bytes"
	"os"
	"time"
)

// run is the writing goroutine: asleep while there are no lines, ended by
// Close.
func (l *AccessLog) run() {
	defer close(l.stopped)
	defer l.closeFiles()
	timer := time.NewTimer(flushEvery)
	timer.Stop()
	for {
		select {
		case full := <-l.ready:
			l.write(full)
		case <-l.wake:
			timer.Reset(flushEvery)
		case <-timer.C:
			l.armed.Store(false) // before flush: a line it misses must wake us
			l.flush()
		case <-l.stop:
			l.flush()
			return
		}
	}
}

// flush writes the lines of all stripes, each stripe's in their order, then
// moves to the file that Reopen has opened.
func (l *AccessLog) flush() {
	for i := range l.stripes {
		for !l.collect(&l.stripes[i]) {
			l.writeReady()
		}
	}
	l.writeReady()
	if f := l.next.Swap(nil); f != nil {
		l.closeOut()
		l.out, l.torn = f, false
	}
}

// collect takes what lines a stripe has, unless there are too many already.
func (l *AccessLog) collect(s *stripe) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.buf) == 0 || l.hand(s)
}

// writeReady writes what is ready now.
func (l *AccessLog) writeReady() {
	for range len(l.ready) {
		l.write(<-l.ready)
	}
}

// write writes a buffer and puts it back to be used again.
func (l *AccessLog) write(b []byte) {
	l.writeLines(b)
	if cap(b) > 2*flushAt { // grown by one huge line
		return
	}
	select {
	case l.free <- b[:0]:
	default:
	}
}

// writeLines writes whole lines; those that the target refuses are dropped.
func (l *AccessLog) writeLines(b []byte) {
	if l.torn { // what a failed write cut in two must not spoil a whole line
		if _, err := l.out.Write([]byte{'\n'}); err != nil {
			l.lost(b, err)
			return
		}
		l.torn = false
	}
	n, err := l.out.Write(b)
	if err != nil {
		n = min(max(n, 0), len(b))
		l.torn = n > 0 && b[n-1] != '\n'
		l.lost(b[n:], err)
		return
	}
	if l.failing {
		l.failing = false
		l.logger.Info("access log: lines are written again", "dropped", l.dropped.Load())
	}
}

// lost counts the lines of b as dropped, and tells of the first failure of a row.
func (l *AccessLog) lost(b []byte, err error) {
	l.dropped.Add(uint64(bytes.Count(b, []byte{'\n'})))
	if !l.failing {
		l.failing = true
		l.logger.Error("access log: lines are being lost", "error", err, "hint", "check the disk's space and who reads the log")
	}
}

// closeOut closes the file in use; the target that a caller gave stays his.
func (l *AccessLog) closeOut() {
	f, ok := l.out.(*os.File)
	if !ok || l.path == "" {
		return
	}
	if err := f.Close(); err != nil {
		l.logger.Error("access log: closing the file", "error", err)
	}
}

func (l *AccessLog) closeFiles() {
	l.closeOut()
	if f := l.next.Swap(nil); f != nil {
		_ = f.Close() // never written to
	}
}
