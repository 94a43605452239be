package telemetry

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	// flushEvery is how long a line may wait in memory.
	flushEvery = 100 * time.Millisecond
	// flushAt is the size of one write: a larger one saves nothing.
	flushAt = 64 << 10
	// stripeLimit is what one stripe holds for a writer that does not keep
	// up, some milliseconds of a busy core; beyond it lines are dropped.
	stripeLimit = 1 << 20
	// keepAt is the size up to which a buffer is used again: on a busy machine
	// the writer comes a few writes late.
	keepAt = 4 * flushAt
	// maxStripes bounds the log's memory to twice maxStripes × stripeLimit.
	maxStripes = 8
	// closeGrace is how long Close waits for a writer that is stuck.
	closeGrace = 5 * time.Second
	// Refused handshakes that become lines: enough to see what is going on,
	// at most 1 MiB a minute.
	refusedPerSecond = 20
	refusedBurst     = 100
)

// ErrStuck is returned by Close when the log's target took nothing for five
// seconds; the lines still in memory are lost.
var ErrStuck = errors.New("access log: the target does not take what is written; the last lines are lost")

// AccessLog writes one JSON object a line for each request and each refused
// handshake. Its methods may be called by any goroutine, and on a nil
// *AccessLog, which is the log switched off.
//
// Lines are collected in memory and written by one goroutine, which NewAccessLog
// starts and Close ends, every 100 ms or 64 KiB, so lines of different cores
// may be out of order by that much. When the target does not keep up, lines
// are dropped and counted: logging never makes a request wait.
type AccessLog struct {
	stripes []stripe
	mask    uint32

	out     io.Writer               // of the writing goroutine alone
	next    atomic.Pointer[os.File] // what Reopen has opened, to be taken by it
	path    string                  // empty when the target is not a file
	logger  *slog.Logger
	failing bool // the last write failed
	torn    bool // and left a part of a line

	armed   atomic.Bool   // the writer knows that there are lines
	wake    chan struct{} // the first line since the last flush
	full    chan struct{} // a stripe has reached flushAt
	stop    chan struct{}
	stopped chan struct{}
	closing sync.Once
	dropped atomic.Uint64

	refused    *rate.Limiter
	suppressed atomic.Uint64 // refused handshakes left out, in all
	told       atomic.Uint64 // of these, what lines have told
}

// stripe is a part of the lines in memory, so that cores do not queue for one
// lock. It fills one buffer while the other is written.
type stripe struct {
	mu    sync.Mutex
	buf   []byte
	spare []byte // what the writer gave back
	stamp stamp
	_     [64]byte // apart from the next stripe's cache line
}

// OpenAccessLog opens the log that a configuration names: "off" (or "") gives
// nil, "stdout" the process's standard output, anything else is the path of a
// file that is appended to and made with mode 0640. What goes wrong later,
// when nobody waits, is told to logger.
func OpenAccessLog(target string, logger *slog.Logger) (*AccessLog, error) {
	switch target {
	case "off", "":
		return nil, nil
	case "stdout":
		return NewAccessLog(os.Stdout, logger), nil
	}
	f, err := openLogFile(target)
	if err != nil {
		return nil, err
	}
	l := newAccessLog(f, logger)
	l.path = target
	go l.run()
	return l, nil
}

// NewAccessLog writes the log to w, which Close does not close. A nil logger
// is slog's default.
func NewAccessLog(w io.Writer, logger *slog.Logger) *AccessLog {
	l := newAccessLog(w, logger)
	go l.run()
	return l
}

func newAccessLog(w io.Writer, logger *slog.Logger) *AccessLog {
	if logger == nil {
		logger = slog.Default()
	}
	n := 1
	for n < runtime.GOMAXPROCS(0) && n < maxStripes {
		n *= 2
	}
	return &AccessLog{
		stripes: make([]stripe, n),
		mask:    uint32(n - 1),
		out:     w,
		logger:  logger,
		wake:    make(chan struct{}, 1),
		full:    make(chan struct{}, 1),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
		refused: rate.NewLimiter(refusedPerSecond, refusedBurst),
	}
}

func openLogFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open access log: %w; check that the folder exists and that this user may write to it", err)
	}
	return f, nil
}

// Enabled says whether lines are written at all: callers may spare themselves
// filling a Record in.
func (l *AccessLog) Enabled() bool { return l != nil }

// Request adds the line of one request. It does not keep r, allocate or wait
// for the target.
func (l *AccessLog) Request(r *Record) {
	if l == nil {
		return
	}
	s := l.lock()
	if s.room() {
		s.buf = appendRecord(s.buf, &s.stamp, r)
	} else {
		l.dropped.Add(1)
	}
	l.unlock(s)
}

// Handshake adds the line of a refused handshake, or counts it for a later
// line when there have been too many. It does not keep r.
func (l *AccessLog) Handshake(r *HandshakeRecord) {
	if l == nil {
		return
	}
	if !l.refused.Allow() {
		l.suppressed.Add(1)
		return
	}
	all := l.suppressed.Load()
	suppressed := all - l.told.Swap(all)
	if suppressed > all { // another line has told of more in the meantime
		suppressed = 0
	}
	s := l.lock()
	if s.room() {
		s.buf = appendHandshake(s.buf, &s.stamp, r, suppressed)
	} else {
		l.dropped.Add(1)
	}
	l.unlock(s)
}

// lock returns a stripe that is ours until unlock: any that is free, so that
// a core waits only when all are taken.
func (l *AccessLog) lock() *stripe {
	if l.mask == 0 {
		s := &l.stripes[0]
		s.mu.Lock()
		return s
	}
	first := rand.Uint32()
	for i := range uint32(len(l.stripes)) {
		if s := &l.stripes[(first+i)&l.mask]; s.mu.TryLock() {
			return s
		}
	}
	s := &l.stripes[first&l.mask]
	s.mu.Lock()
	return s
}

// room says whether the stripe takes another line, and sees that it has a
// buffer.
func (s *stripe) room() bool {
	if s.buf == nil {
		s.buf, s.spare = s.spare, nil
		if s.buf == nil {
			s.buf = make([]byte, 0, flushAt+maxField)
		}
	}
	return len(s.buf) < stripeLimit
}

// unlock gives the stripe back and tells the writer what it must know.
func (l *AccessLog) unlock(s *stripe) {
	n := len(s.buf)
	s.mu.Unlock()
	if n >= flushAt {
		select {
		case l.full <- struct{}{}:
		default:
		}
	}
	if !l.armed.Load() && l.armed.CompareAndSwap(false, true) {
		l.wake <- struct{}{} // has room: only the writer disarms, after taking it
	}
}

// Dropped is the number of lines lost because the target did not take them.
func (l *AccessLog) Dropped() uint64 {
	if l == nil {
		return 0
	}
	return l.dropped.Load()
}

// Suppressed is the number of refused handshakes that were left out because
// there were too many.
func (l *AccessLog) Suppressed() uint64 {
	if l == nil {
		return 0
	}
	return l.suppressed.Load()
}

// Reopen opens the log's file by its name again, as after it was rotated;
// lines go there within 100 ms. On an error the old file stays in use. A log
// that is not a file has nothing to reopen.
func (l *AccessLog) Reopen() error {
	if l == nil || l.path == "" {
		return nil
	}
	f, err := openLogFile(l.path)
	if err != nil {
		return err
	}
	if old := l.next.Swap(f); old != nil {
		_ = old.Close() // opened by another Reopen, never written to
	}
	if l.armed.CompareAndSwap(false, true) {
		l.wake <- struct{}{}
	}
	return nil
}

// Close writes what is in memory and ends the log; lines added later are
// lost. It returns ErrStuck when the target takes nothing for five seconds.
func (l *AccessLog) Close() error {
	if l == nil {
		return nil
	}
	l.closing.Do(func() { close(l.stop) })
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-l.stopped:
		return nil
	case <-timer.C:
		return ErrStuck
	}
}
