package certstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddyserver/certmagic"

	"github.com/hanzoai/pqgw/kms"
)

// A lock is an flock on a file of its own, which the kernel gives back when its
// process ends, however it ends, and a lease in that file, which its holder
// refreshes. The lease is for what the kernel does not see: a holder that is
// stopped or hangs, or is on another machine that lost the file system. A lease
// that ran out is taken over by putting another file in its place; the holder
// of before finds at its next refresh that the file is not its own.
//
// Taking, taking over and giving back are done one at a time, under the flock
// of a guard file that is held for as long as that takes.

// ErrLost means that a lock had been taken over before it was unlocked: its
// holder did not refresh it in time.
var ErrLost = errors.New("lock was taken over by another process")

// ErrNotHeld means that a lock is unlocked or renewed that is not held.
var ErrNotHeld = errors.New("lock is not held")

// leaseTimes are how long things take; tests shorten them.
type leaseTimes struct {
	life    time.Duration // of a lease that is not refreshed
	refresh time.Duration
	poll    time.Duration // how often one who waits looks
}

// usualTimes let a holder miss two refreshes.
var usualTimes = leaseTimes{life: 15 * time.Second, refresh: 5 * time.Second, poll: 100 * time.Millisecond}

// lease is a lock that is held.
type lease struct {
	storage *Storage
	path    string
	file    *os.File
	stop    chan struct{}
	renew   chan time.Time
	done    chan struct{}
}

// record is what stands in the file.
type record struct {
	Owner   string    `json:"owner"`
	Expires time.Time `json:"expires"`
}

// recordSize is that of the record in the file, padded: it is written over in
// one piece.
const recordSize = 256

// maxLockName leaves room for the suffix below the 255 bytes of file systems.
const maxLockName = 200

func (s *Storage) lockPath(name string) string {
	safe := certmagic.StorageKeys.Safe(strings.ReplaceAll(name, "/", "_"))
	if len(safe) > maxLockName {
		sum := sha256.Sum256([]byte(name))
		safe = hex.EncodeToString(sum[:])
	}
	return filepath.Join(s.dir, safe+".lock")
}

// Lock implements certmagic.Locker.
func (s *Storage) Lock(ctx context.Context, name string) error {
	for {
		ok, err := s.TryLock(ctx, name)
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(s.times.poll):
		}
	}
}

// TryLock implements certmagic.TryLocker.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	guard, err := kms.LockFile(ctx, filepath.Join(s.dir, "guard"))
	if err != nil {
		return false, &kms.Error{Op: "lock", Name: name, Err: err}
	}
	defer guard()
	path := s.lockPath(name)
	file, err := s.take(path)
	if file == nil || err != nil {
		return false, err
	}
	l := &lease{storage: s, path: path, file: file, stop: make(chan struct{}), renew: make(chan time.Time), done: make(chan struct{})}
	if err := l.write(time.Now().Add(s.times.life)); err != nil {
		_ = file.Close()
		return false, &kms.Error{Op: "lock", Name: name, Err: err}
	}
	s.mu.Lock()
	s.held[name] = l
	s.mu.Unlock()
	go l.keep()
	return true, nil
}

// take returns the file with its flock, nil when another has it. The guard is
// held.
func (s *Storage) take(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, &kms.Error{Op: "lock", Name: path, Err: err}
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return file, nil
	}
	expires := leaseEnd(file, s.times.life)
	_ = file.Close()
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return nil, &kms.Error{Op: "lock", Name: path, Err: err}
	}
	if time.Now().Before(expires) {
		return nil, nil
	}
	s.log.Warn("a lock is taken over: its holder did not refresh it", "lock", path, "expired", expires)
	return s.replace(path)
}

// replace puts a file of ours in the place of one whose lease ran out.
func (s *Storage) replace(path string) (*os.File, error) {
	file, err := os.CreateTemp(s.dir, ".tmp-")
	if err != nil {
		return nil, &kms.Error{Op: "lock", Name: path, Err: err}
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(file.Name())
		return nil, &kms.Error{Op: "lock", Name: path, Err: err}
	}
	return file, nil
}

// leaseEnd is when the lease in the file ends. One whose writer was cut off
// ends a lease's life after it was last written.
func leaseEnd(file *os.File, life time.Duration) time.Time {
	data := make([]byte, recordSize)
	n, _ := file.ReadAt(data, 0)
	var r record
	if json.Unmarshal(data[:n], &r) == nil && !r.Expires.IsZero() {
		return r.Expires
	}
	info, err := file.Stat()
	if err != nil {
		return time.Now().Add(life)
	}
	return info.ModTime().Add(life)
}

func (l *lease) write(expires time.Time) error {
	host, _ := os.Hostname()
	data, err := json.Marshal(record{Owner: fmt.Sprintf("%.64s:%d", host, os.Getpid()), Expires: expires.UTC()})
	if err != nil {
		return err
	}
	for len(data) < recordSize {
		data = append(data, ' ')
	}
	_, err = l.file.WriteAt(data, 0)
	return err
}

// keep refreshes the lease until release, or until it is lost.
func (l *lease) keep() {
	defer close(l.done)
	tick := time.NewTicker(l.storage.times.refresh)
	defer tick.Stop()
	var until time.Time
	for {
		select {
		case <-l.stop:
			return
		case until = <-l.renew:
		case <-tick.C:
		}
		if !l.ours() {
			l.storage.log.Warn("a lock was lost: it was not refreshed in time", "lock", l.path)
			return
		}
		expires := time.Now().Add(l.storage.times.life)
		if until.After(expires) {
			expires = until
		}
		if err := l.write(expires); err != nil {
			l.storage.log.Warn("a lock cannot be refreshed", "lock", l.path, "error", err)
		}
	}
}

// ours reports whether the file in the lock's place is still the one we hold.
func (l *lease) ours() bool {
	mine, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(l.path)
	return err == nil && os.SameFile(mine, there)
}

// release ends the upkeep and gives the lock back.
func (l *lease) release() error {
	close(l.stop)
	<-l.done
	ctx, cancel := context.WithTimeout(context.Background(), l.storage.times.life)
	defer cancel()
	guard, err := kms.LockFile(ctx, filepath.Join(l.storage.dir, "guard"))
	if err != nil { // one who holds the guard hangs: the file stays, but without our flock it is free
		_ = l.file.Close()
		return err
	}
	defer guard()
	defer l.file.Close()
	if !l.ours() {
		return ErrLost
	}
	if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Unlock implements certmagic.Locker. Errors: ErrNotHeld, ErrLost.
func (s *Storage) Unlock(_ context.Context, name string) error {
	s.mu.Lock()
	l := s.held[name]
	delete(s.held, name)
	s.mu.Unlock()
	if l == nil {
		return &kms.Error{Op: "unlock", Name: name, Err: ErrNotHeld}
	}
	if err := l.release(); err != nil {
		return &kms.Error{Op: "unlock", Name: name, Err: err}
	}
	return nil
}

// RenewLockLease implements certmagic.LockLeaseRenewer: the lease lasts at least
// so long from now, even when nothing refreshes it.
func (s *Storage) RenewLockLease(ctx context.Context, name string, life time.Duration) error {
	s.mu.Lock()
	l := s.held[name]
	s.mu.Unlock()
	if l == nil {
		return &kms.Error{Op: "renew lock", Name: name, Err: ErrNotHeld}
	}
	select {
	case l.renew <- time.Now().Add(life):
		return nil
	case <-l.done:
		return &kms.Error{Op: "renew lock", Name: name, Err: ErrLost}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
