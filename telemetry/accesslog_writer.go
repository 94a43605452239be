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
		case <-l.wake:
		case <-l.stop:
			l.flush()
			return
		}
		timer.Reset(flushEvery)
		select {
		case <-timer.C:
		case <-l.full:
			timer.Stop()
		case <-l.stop:
			l.flush()
			return
		}
		l.armed.Store(false) // before flush: a line it misses must wake us
		l.flush()
	}
}

// flush writes the lines of all stripes, then moves to the file that Reopen
// has opened.
func (l *AccessLog) flush() {
	for i := range l.stripes {
		s := &l.stripes[i]
		s.mu.Lock()
		full := s.buf
		s.buf, s.spare = s.spare, nil
		s.mu.Unlock()
		if len(full) > 0 {
			l.write(full)
		}
		if cap(full) <= keepAt { // what a stall made grow goes back
			s.mu.Lock()
			s.spare = full[:0]
			s.mu.Unlock()
		}
	}
	if f := l.next.Swap(nil); f != nil {
		l.closeOut()
		l.out, l.torn = f, false
	}
}

// write writes whole lines; those that the target refuses are dropped.
func (l *AccessLog) write(b []byte) {
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
