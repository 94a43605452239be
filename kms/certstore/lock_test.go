package certstore

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestProcessesTakeTurns(t *testing.T) {
	dir, master := newStore(t)
	file := filepath.Join(t.TempDir(), "count")
	if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	var children []*exec.Cmd
	for range 3 {
		cmd := childCommand(t, "count", dir, master, file)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
	}
	s := open(t, dir, master)
	s.times = shortTimes
	if err := count(s, file); err != nil {
		t.Error(err)
	}
	for _, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil || string(data) != strconv.Itoa(4*rounds) {
		t.Errorf("counted to %s, want %d; %v", data, 4*rounds, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, locksDir, "*.lock"))
	if err != nil || len(left) != 0 {
		t.Errorf("locks left: %v, %v", left, err)
	}
}

// holder is another process that has the lock "held".
func holder(t *testing.T, dir, master string) *exec.Cmd {
	t.Helper()
	cmd := childCommand(t, "hold", dir, master)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the holder says %q, %v", line, err)
	}
	return cmd
}

func wantFree(t *testing.T, s *Storage, want bool) {
	t.Helper()
	got, err := s.TryLock(t.Context(), "held")
	if err != nil || got != want {
		t.Errorf("free: %v, %v; want %v", got, err, want)
	}
}

func TestALockOfAKilledProcessIsFreeAtOnce(t *testing.T) {
	dir, master := newStore(t)
	cmd := holder(t, dir, master)
	s := open(t, dir, master) // with the usual times: no lease runs out here
	wantFree(t, s, false)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	wantFree(t, s, true)
	if err := s.Unlock(t.Context(), "held"); err != nil {
		t.Error(err)
	}
}

func TestALockOfAStoppedProcessIsTakenOverWhenItsLeaseEnds(t *testing.T) {
	dir, master := newStore(t)
	cmd := holder(t, dir, master)
	s := open(t, dir, master)
	s.times = shortTimes
	// Refreshed, it lasts past its life.
	ctx, cancel := context.WithTimeout(t.Context(), 2*shortTimes.life)
	defer cancel()
	if err := s.Lock(ctx, "held"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a lock that is refreshed was taken: %v", err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := s.Lock(t.Context(), "held"); err != nil {
		t.Fatal(err)
	}
	// The holder of before does not get it back by going on.
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	other := open(t, dir, master)
	other.times = shortTimes
	ctx, cancel = context.WithTimeout(t.Context(), 2*shortTimes.life)
	defer cancel()
	if err := other.Lock(ctx, "held"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("two have the lock: %v", err)
	}
	if err := s.Unlock(t.Context(), "held"); err != nil {
		t.Error(err)
	}
}

// lose makes the holder's lease run out without its noticing, and has other
// take the lock.
func lose(t *testing.T, s, other *Storage) {
	t.Helper()
	s.mu.Lock()
	l := s.held["held"]
	s.mu.Unlock()
	if err := l.write(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if ok, err := other.TryLock(t.Context(), "held"); !ok || err != nil {
		t.Fatalf("not taken over: %v", err)
	}
}

func TestALostLockIsReported(t *testing.T) {
	dir, master := newStore(t)
	s, other := open(t, dir, master), open(t, dir, master)
	wantFree(t, s, true)
	lose(t, s, other)
	if err := s.Unlock(t.Context(), "held"); !errors.Is(err, ErrLost) {
		t.Errorf("unlocking a lost lock: %v", err)
	}
	wantFree(t, s, false) // and it did not free the other's
	if err := other.Unlock(t.Context(), "held"); err != nil {
		t.Error(err)
	}
	if err := other.Unlock(t.Context(), "held"); !errors.Is(err, ErrNotHeld) {
		t.Errorf("unlocking twice: %v", err)
	}
}

func TestALeaseCanBeRenewedForLonger(t *testing.T) {
	dir, master := newStore(t)
	s := open(t, dir, master)
	wantFree(t, s, true)
	if err := s.RenewLockLease(t.Context(), "held", time.Hour); err != nil {
		t.Fatal(err)
	}
	// The second is taken once the first was written.
	if err := s.RenewLockLease(t.Context(), "held", time.Hour); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.lockPath("held"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(s.lockPath("held"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if left := time.Until(leaseEnd(file, time.Second)); left < 50*time.Minute {
		t.Errorf("the lease lasts %v: %s", left, data)
	}
	if err := s.RenewLockLease(t.Context(), "other", time.Hour); !errors.Is(err, ErrNotHeld) {
		t.Errorf("renewing what is not held: %v", err)
	}
}

func TestAWaiterLeavesWhenItsContextEnds(t *testing.T) {
	dir, master := newStore(t)
	s, other := open(t, dir, master), open(t, dir, master)
	wantFree(t, s, true)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := other.Lock(ctx, "held"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if ok, err := other.TryLock(ctx, "free"); ok || err == nil {
		t.Errorf("a lock was taken after the end of its context: %v", err)
	}
}

func TestLockNamesOfAnyLengthServe(t *testing.T) {
	dir, master := newStore(t)
	s := open(t, dir, master)
	for _, name := range []string{"issue_cert_" + strings.Repeat("a", 253), "a/b*", "Ä"} {
		if ok, err := s.TryLock(t.Context(), name); !ok || err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzLeaseEnd(f *testing.F) {
	f.Add([]byte(`{"owner":"a:1","expires":"2026-06-01T12:00:00Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.Write(data); err != nil {
			t.Fatal(err)
		}
		if leaseEnd(file, time.Second).IsZero() {
			t.Error("a lease never ends")
		}
	})
}
