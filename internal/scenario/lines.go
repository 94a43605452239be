package scenario

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// Lines collects what a process prints, line by line. The zero value is ready;
// it is safe for use by several goroutines.
type Lines struct {
	mu      sync.Mutex
	rest    []byte
	lines   []string
	changed chan struct{} // closed at the next change; made by whoever waits
	ended   bool          // there will be no more
}

// Write takes output in any pieces; it never fails.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			break
		}
		l.lines = append(l.lines, string(line))
		l.rest = append([]byte(nil), rest...)
	}
	l.wake()
	return len(p), nil
}

// end says that there will be no more lines.
func (l *Lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.wake()
}

// wake tells whoever waits that something has changed; the lock is held.
func (l *Lines) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// All are the whole lines so far.
func (l *Lines) All() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

// String is everything so far, an unfinished last line included.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(append(append([]string(nil), l.lines...), string(l.rest)), "\n")
}

// from gives the lines after the first n, and a channel that is closed when
// there are more; nil when there will be none.
func (l *Lines) from(n int) ([]string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := append([]string(nil), l.lines[n:]...)
	if l.ended {
		return lines, nil
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return lines, l.changed
}

// Await gives the first line that matches, printed already or still to come.
// what names it for the failure, which comes at once when the process ends.
func (l *Lines) Await(t testing.TB, what string, match func(line string) bool) string {
	t.Helper()
	deadline := time.After(Patience)
	for seen := 0; ; {
		lines, more := l.from(seen)
		for _, line := range lines {
			if match(line) {
				return line
			}
		}
		seen += len(lines)
		if more == nil {
			t.Fatalf("the process ended without a line with %s; the lines were:\n%s", what, l)
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("no line with %s within %v; the lines were:\n%s", what, Patience, l)
		}
	}
}

// AwaitText gives the first line that contains text.
func (l *Lines) AwaitText(t testing.TB, text string) string {
	t.Helper()
	return l.Await(t, text, func(line string) bool { return strings.Contains(line, text) })
}
