package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sinkBuffer is a target that can be read while it is written to.
type sinkBuffer struct {
	mu     sync.Mutex
	b      bytes.Buffer
	writes int
}

func (s *sinkBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	return s.b.Write(p)
}

func (s *sinkBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// stuck is a target that takes nothing until it is released.
type stuck struct {
	sinkBuffer
	release chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.release
	return s.sinkBuffer.Write(p)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func countLines(s string) int { return strings.Count(s, "\n") }

// checkLines fails unless each line of s is a JSON object, and returns their number.
func checkLines(t *testing.T, s string) int {
	t.Helper()
	for line := range strings.Lines(s) {
		if !json.Valid([]byte(line)) || !strings.HasSuffix(line, "}\n") {
			t.Fatalf("not a line of JSON: %q", line)
		}
	}
	return countLines(s)
}

func TestLinesAreWrittenWithin100ms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sinkBuffer
		l := NewAccessLog(&out, quiet())
		for round := 1; round <= 3; round++ {
			l.Request(fullRecord())
			l.Request(fullRecord())
			time.Sleep(flushEvery - time.Nanosecond)
			synctest.Wait()
			if n := countLines(out.String()); n != 2*(round-1) {
				t.Errorf("round %d: %d lines before the time", round, n)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if n := checkLines(t, out.String()); n != 2*round {
				t.Errorf("round %d: %d lines", round, n)
			}
		}
		if out.writes > 3*len(l.stripes) {
			t.Errorf("%d writes for 3 flushes", out.writes)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAFullBufferIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sinkBuffer
		l := NewAccessLog(&out, quiet())
		start := time.Now()
		for len(out.String()) == 0 {
			l.Request(fullRecord())
			synctest.Wait()
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited for %v", waited)
		}
		if len(out.String()) < flushAt {
			t.Errorf("%d bytes written", len(out.String()))
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseWritesWhatIsInMemory(t *testing.T) {
	var out sinkBuffer
	l := NewAccessLog(&out, quiet())
	for range 10 {
		l.Request(fullRecord())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := checkLines(t, out.String()); n != 10 {
		t.Errorf("%d lines, want 10", n)
	}
	if err := l.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	l.Request(fullRecord()) // must neither block nor panic
}

func TestATargetThatIsStuckCostsLinesNotTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{release: make(chan struct{})}
		l := NewAccessLog(out, quiet())
		r := fullRecord()
		line := len(appendRecord(nil, new(stamp), r))
		start := time.Now()
		added := 0
		for l.Dropped() < 1000 {
			l.Request(r)
			if added++; added > 2*(maxStripes+readyLimit+1)*flushAt/line+1000 {
				t.Fatalf("%d lines in memory, none dropped", added)
			}
		}
		if time.Since(start) != 0 {
			t.Error("a request waited")
		}
		if err := l.Close(); !errors.Is(err, ErrStuck) {
			t.Errorf("Close: %v, want ErrStuck", err)
		}
		close(out.release)
		<-l.stopped
		if n := checkLines(t, out.String()); n != added-int(l.Dropped()) {
			t.Errorf("%d lines added, %d dropped, %d written", added, l.Dropped(), n)
		}
	})
}

func TestLinesOfManyGoroutinesStayWhole(t *testing.T) {
	var out sinkBuffer
	l := NewAccessLog(&out, quiet())
	const goroutines, each = 8, 2000
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				l.Request(fullRecord())
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := checkLines(t, out.String()) + int(l.Dropped()); n != goroutines*each {
		t.Errorf("%d lines written or dropped, want %d", n, goroutines*each)
	}
}

func TestOffIsNil(t *testing.T) {
	for _, target := range []string{"off", ""} {
		l, err := OpenAccessLog(target, quiet())
		if l != nil || err != nil {
			t.Fatalf("%q: %v, %v", target, l, err)
		}
		if l.Enabled() {
			t.Error("enabled")
		}
		l.Request(fullRecord())
		l.Handshake(&HandshakeRecord{})
		if err := errors.Join(l.Reopen(), l.Close()); err != nil || l.Dropped()+l.Suppressed() != 0 {
			t.Error(err, l.Dropped(), l.Suppressed())
		}
	}
}

func TestAFileThatCannotBeOpenedIsAnError(t *testing.T) {
	l, err := OpenAccessLog(filepath.Join(t.TempDir(), "missing", "access.log"), quiet())
	if l != nil || err == nil || !strings.Contains(err.Error(), "check that") {
		t.Errorf("%v, %v", l, err)
	}
}

// eventually polls until ok says true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

func TestRotationLosesNoLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l, err := OpenAccessLog(path, quiet())
	if err != nil {
		t.Fatal(err)
	}
	l.Request(fullRecord())
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Reopen(), l.Reopen()); err != nil { // twice: the first one's file is not leaked
		t.Fatal(err)
	}
	eventually(t, "the old file has the line", func() bool { return countLines(readFile(t, path+".1")) == 1 })
	eventually(t, "the writer has moved on", func() bool { return l.next.Load() == nil })
	l.Request(fullRecord())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := checkLines(t, readFile(t, path)); n != 1 {
		t.Errorf("%d lines in the new file, want 1", n)
	}
	if n := checkLines(t, readFile(t, path+".1")); n != 1 {
		t.Errorf("%d lines in the old file, want 1", n)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("the file may be read by others: %v, %v", info.Mode(), err)
	}
}

func TestReopenThatFailsKeepsTheFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := OpenAccessLog(filepath.Join(dir, "access.log"), quiet())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err == nil {
		t.Error("reopened in a folder that is gone")
	}
	l.Request(fullRecord())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := checkLines(t, readFile(t, filepath.Join(dir+".moved", "access.log"))); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
}

// full is a disk that is full from time to time: of a failing write it takes
// the first bytes.
type full struct {
	sinkBuffer
	failing bool
	takes   int
}

func (f *full) Write(p []byte) (int, error) {
	if f.failing {
		n, _ := f.sinkBuffer.Write(p[:min(f.takes, len(p))])
		return n, errors.New("no space left on device")
	}
	return f.sinkBuffer.Write(p)
}

func TestAfterAFullDiskLinesAreWholeAgain(t *testing.T) {
	line := len(appendRecord(nil, new(stamp), fullRecord()))
	for _, takes := range []int{0, 1, line - 2, line, line + 1} {
		synctest.Test(t, func(t *testing.T) {
			var notes bytes.Buffer
			out := &full{failing: true, takes: takes}
			l := newAccessLog(out, slog.New(slog.NewTextHandler(&notes, nil)))
			l.stripes, l.mask = l.stripes[:1], 0
			go l.run()
			for round := range 3 {
				l.Request(fullRecord())
				l.Request(fullRecord())
				time.Sleep(flushEvery)
				synctest.Wait()
				if out.takes = 0; round == 1 {
					out.failing = false
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			whole := 2 + takes/line
			if got := 6 - int(l.Dropped()); got != whole {
				t.Errorf("takes %d: %d lines not dropped, want %d", takes, got, whole)
			}
			text := out.String()
			valid := 0
			for s := range strings.Lines(text) {
				if json.Valid([]byte(s)) {
					valid++
				}
			}
			if valid != whole || strings.Contains(text, "\n\n") {
				t.Errorf("takes %d: %d whole lines, want %d", takes, valid, whole)
			}
			if n := strings.Count(notes.String(), "being lost"); n != 1 || !strings.Contains(notes.String(), "written again") {
				t.Errorf("told %d times: %s", n, notes.String())
			}
		})
	}
}

func TestAFloodOfRefusedHandshakesIsSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sinkBuffer
		l := NewAccessLog(&out, quiet())
		const flood = 10000
		for range flood {
			l.Handshake(&HandshakeRecord{Time: time.Now(), Reason: "timeout"})
		}
		time.Sleep(time.Second)
		l.Handshake(&HandshakeRecord{Time: time.Now(), Reason: "timeout"})
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		n := checkLines(t, out.String())
		if n != refusedBurst+1 || l.Suppressed() != flood-refusedBurst {
			t.Errorf("%d lines, %d suppressed", n, l.Suppressed())
		}
		if !strings.Contains(out.String(), `"suppressed":9900}`) {
			t.Errorf("the last line does not sum up: %s", out.String()[len(out.String())-200:])
		}
	})
}

func TestRequestAllocatesNothing(t *testing.T) {
	l := NewAccessLog(io.Discard, quiet())
	defer l.Close()
	host, path, id := []byte("api.example.com"), []byte("/v1/chat/completions"), make([]byte, 0, RequestIDLen)
	n := testing.AllocsPerRun(2000, func() {
		r := Record{Listener: "edge", Protocol: "h1", RequestID: AppendRequestID(id), Host: host, Path: path, Status: 200}
		l.Request(&r)
	})
	if n != 0 {
		t.Errorf("%v allocations a line", n)
	}
}

func TestHugeLinesAreWrittenWhole(t *testing.T) {
	var out sinkBuffer
	l := NewAccessLog(&out, quiet())
	r := fullRecord()
	r.Host, r.Path, r.Method = bytes.Repeat([]byte{1}, 1<<20), bytes.Repeat([]byte{2}, 1<<20), bytes.Repeat([]byte{3}, 1<<20)
	for range 20 {
		l.Request(r)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := checkLines(t, out.String()); n != 20 {
		t.Errorf("%d lines, want 20", n)
	}
	if most := 20 * (3*6*(maxField+1) + 1024); len(out.String()) > most {
		t.Errorf("%d bytes, want at most %d", len(out.String()), most)
	}
}

// benchmarkRequest measures one line from its record to its target. It waits
// for the target, as no request would: a line that is dropped costs too little.
func benchmarkRequest(b *testing.B, l *AccessLog) {
	r := fullRecord()
	r.Remote, r.Peer, r.PQIdentity, r.Error = "", "", false, ""
	b.SetBytes(int64(len(appendRecord(nil, new(stamp), r))))
	b.ReportAllocs()
	for b.Loop() {
		for l != nil && len(l.ready) > readyLimit/2 {
			runtime.Gosched()
		}
		l.Request(r)
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	if n := l.Dropped(); n > 0 {
		b.Errorf("%d of %d lines dropped", n, b.N)
	}
}

func BenchmarkRecordEncoded(b *testing.B) {
	r, buf, s := fullRecord(), make([]byte, 0, maxField), new(stamp)
	b.ReportAllocs()
	for b.Loop() {
		buf = appendRecord(buf[:0], s, r)
	}
}

func BenchmarkAccessLogRequest(b *testing.B) {
	benchmarkRequest(b, NewAccessLog(io.Discard, quiet()))
}

func BenchmarkAccessLogFile(b *testing.B) {
	l, err := OpenAccessLog(filepath.Join(b.TempDir(), "access.log"), quiet())
	if err != nil {
		b.Fatal(err)
	}
	benchmarkRequest(b, l)
}

func BenchmarkAccessLogOff(b *testing.B) { benchmarkRequest(b, nil) }
