//go:build unix

package kms

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a waiting writer looks again; flock has no wait that
// a context can end.
const lockPoll = 5 * time.Millisecond

// LockFile takes the exclusive flock of path, which is made when absent, and
// returns what releases it. The kernel releases it too when the process ends,
// however it ends. Two calls exclude each other within a process as between
// processes. It waits until ctx ends.
func LockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			_ = f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}

// flock applies how to f, again when a signal interrupts it.
func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Pauses of lockOpen between looks grow from the time of one line of the audit.
const (
	firstPause = 50 * time.Microsecond
	mostPause  = 2 * time.Millisecond
)

// lockOpen takes the flock of an open file. It waits for as long as patience, then
// gives ErrBusy, or until ended is closed, then ErrClosed.
func lockOpen(f *os.File, patience time.Duration, ended <-chan struct{}) (unlock func(), err error) {
	var until time.Time
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = flock(f, unix.LOCK_UN) }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
		now := time.Now()
		if until.IsZero() {
			until = now.Add(patience)
		}
		if now.After(until) {
			return nil, ErrBusy
		}
		select {
		case <-ended:
			return nil, ErrClosed
		case <-time.After(pause):
		}
	}
}
