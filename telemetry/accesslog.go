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
	// readyLimit is how many full buffers, 4 MiB in all, wait for a target
	// that does not keep up; beyond it lines are dropped.
	readyLimit = 64
	// freeLimit is how many empty buffers are kept to be used again.
	freeLimit = 4
	// maxStripes is the number of buffers that are filled at a time, so that
	// as many cores do not queue for one.
	maxStripes = 8
	// closeGrace is how long Close waits for a writer that is stuck.
	closeGrace = 5 * time.Second
	// Refused handshakes and broken connections that become lines: enough to see what is going on,
	// at most 1 MiB a minute.
	refusedPerSecond = 20
	refusedBurst     = 100
)

// ErrStuck is returned by Close when the log's target took nothing for five
// seconds; the lines still in memory are lost.
var ErrStuck = errors.New("access log: the target does not take what is written; the last lines are lost")

// AccessLog writes one JSON object a line for each request, each refused
// handshake and each broken connection. Its methods may be called by any goroutine, and on a nil
// *AccessLog, which is the log switched off.
//
// Lines are collected in memory and written by one goroutine, which NewAccessLog
// starts and Close ends, every 100 ms or 64 KiB, so lines of different cores
// may be out of order by that much. When the target does not keep up, lines
// are dropped and counted: logging never makes a request wait.
type AccessLog struct {
	stripes []stripe
	mask    uint32
	ready   chan []byte // full buffers on their way to the target
	free    chan []byte // empty ones on their way back

	out     io.Writer               // of the writing goroutine alone
	next    atomic.Pointer[os.File] // what Reopen has opened, to be taken by it
	path    string                  // empty when the target is not a file
	logger  *slog.Logger
	failing bool // the last write failed
	torn    bool // and left a part of a line

	armed   atomic.Bool   // the writer knows that there are lines
	wake    chan struct{} // the first line since the last flush
	stop    chan struct{}
	stopped chan struct{}
	closing sync.Once
	dropped atomic.Uint64

	refused    *rate.Limiter
	suppressed atomic.Uint64 // lines left out by it, in all
	told       atomic.Uint64 // of these, what lines have told
}

// stripe is one of the buffers that are being filled.
type stripe struct {
	mu    sync.Mutex
	buf   []byte
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
		ready:   make(chan []byte, readyLimit),
		free:    make(chan []byte, freeLimit),
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
	if l.room(s) {
		s.buf = appendRecord(s.buf, &s.stamp, r)
	}
	l.unlock(s)
}

// Handshake adds the line of a refused handshake, or counts it for a later
// line when there have been too many. It does not keep r.
func (l *AccessLog) Handshake(r *HandshakeRecord) {
	if suppressed, ok := l.allow(); ok {
		s := l.lock()
		if l.room(s) {
			s.buf = appendHandshake(s.buf, &s.stamp, r, suppressed)
		}
		l.unlock(s)
	}
}

// Broken adds the line of a connection that broke off, under the same limit as refused
// handshakes. It does not keep r.
func (l *AccessLog) Broken(r *BrokenRecord) {
	if suppressed, ok := l.allow(); ok {
		s := l.lock()
		if l.room(s) {
			s.buf = appendBroken(s.buf, &s.stamp, r, suppressed)
		}
		l.unlock(s)
	}
}

// allow tells whether there is room for a line of what a stranger can cause at will, and how many
// were left out since the last.
func (l *AccessLog) allow() (suppressed uint64, ok bool) {
	if l == nil {
		return 0, false
	}
	if !l.refused.Allow() {
		l.suppressed.Add(1)
		return 0, false
	}
	all := l.suppressed.Load()
	suppressed = all - l.told.Swap(all)
	if suppressed > all { // another line has told of more in the meantime
		suppressed = 0
	}
	return suppressed, true
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
// buffer; a line that finds none is counted as dropped.
func (l *AccessLog) room(s *stripe) bool {
	if len(s.buf) >= flushAt && !l.hand(s) {
		l.dropped.Add(1)
		return false
	}
	if s.buf == nil {
		select {
		case s.buf = <-l.free:
		default:
			s.buf = make([]byte, 0, flushAt+maxField)
		}
	}
	return true
}

// hand gives the stripe's lines to the writer, if it has not too many already.
func (l *AccessLog) hand(s *stripe) bool {
	select {
	case l.ready <- s.buf:
		s.buf = nil
		return true
	default:
		return false
	}
}

// unlock gives the stripe back, its lines to the writer when they are enough.
func (l *AccessLog) unlock(s *stripe) {
	if len(s.buf) >= flushAt {
		l.hand(s) // or the next line tries again
	}
	s.mu.Unlock()
	l.arm()
}

// arm sees that the writer looks for lines within flushEvery.
func (l *AccessLog) arm() {
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

// Suppressed is the number of refused handshakes and broken connections that were left
// out because there were too many.
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
	l.arm()
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
