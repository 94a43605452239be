package scenario

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// Load is a number of workers that each do one thing over and over.
type Load struct {
	stop   chan struct{}
	wait   sync.WaitGroup
	done   atomic.Int64
	mu     sync.Mutex
	failed []error
}

// StartLoad starts workers that call do until Stop or until do says that it
// has had enough. An error is a lost request.
func StartLoad(t testing.TB, workers int, do func() (enough bool, err error)) *Load {
	t.Helper()
	l := &Load{stop: make(chan struct{})}
	for range workers {
		l.wait.Go(func() { l.work(do) })
	}
	t.Cleanup(func() { l.end() })
	return l
}

func (l *Load) work(do func() (bool, error)) {
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		enough, err := do()
		if err != nil {
			l.mu.Lock()
			l.failed = append(l.failed, err)
			l.mu.Unlock()
			return // one loss is enough to tell
		}
		if enough {
			return
		}
		l.done.Add(1)
	}
}

func (l *Load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.wait.Wait()
}

// Done is how often do has succeeded.
func (l *Load) Done() int64 { return l.done.Load() }

// AwaitProgress returns when n more calls have succeeded, or one has failed.
func (l *Load) AwaitProgress(t testing.TB, n int64) {
	t.Helper()
	until := l.Done() + n
	Await(t, "the load to go on", func() bool { return l.Done() >= until || l.anyFailed() })
}

// Join awaits that each worker has had enough, and fails the test for every
// lost request.
func (l *Load) Join(t testing.TB) {
	t.Helper()
	l.wait.Wait()
	l.report(t)
}

// Stop ends the load and fails the test for every lost request.
func (l *Load) Stop(t testing.TB) {
	t.Helper()
	l.end()
	l.report(t)
}

func (l *Load) anyFailed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.failed) > 0
}

func (l *Load) report(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, err := range l.failed {
		t.Errorf("a request was lost after %d good ones: %v", l.Done(), err)
	}
	if l.Done() == 0 {
		t.Error("the load did nothing")
	}
}

// Get asks for url, reads the whole answer, and gives its body and head. A
// status other than 200 is an error.
func Get(client *http.Client, url string) (body string, header http.Header, err error) {
	resp, err := client.Get(url)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", nil, fmt.Errorf("read the body of %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("%s: status %s: %.200s", url, resp.Status, raw)
	}
	return string(raw), resp.Header, nil
}
