// Package stream is a byte connection as the transports drive it: a socket
// that can live inside a RawConn.Read callback, where reads never wait and
// cost no turn of the scheduler, and, above it, TLS or nothing.
package stream

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// ErrAgain is what Read gives inside Step when nothing is there. It is a
// temporary net.Error, which crypto/tls takes as no reason to give the
// connection up.
var ErrAgain error = again{}

type again struct{}

func (again) Error() string   { return "nothing to read yet" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

// corkBytes is when corked output is written: eight full TLS records, which
// stay in the second-level cache between their encryption and the system call.
const corkBytes = 8 * (16384 + 22)

// waitBytes is how much one write waits for: the largest buffer of the transports, so that whoever
// takes something in time is not held to take a whole answer.
const waitBytes = 256 << 10

// corkPool holds the buffers of corked sockets; an idle one has none.
var corkPool = sync.Pool{New: func() any {
	b := make([]byte, 0, corkBytes+17*1024)
	return &b
}}

// Socket is a TCP or unix connection. Outside Step it behaves as any net.Conn.
// One goroutine reads at a time and one writes.
type Socket struct {
	net.Conn
	raw     syscall.RawConn // nil where the platform or the connection has none
	steps   bool            // may live inside a callback
	fd      uintptr
	inside  bool // in a callback: never wait for reading
	drained bool // the last read took all there was
	asked   bool // and the kernel said so itself (EAGAIN)
	dry     bool // nothing is to be read
	step    func() bool
	enter   func(uintptr) bool
	prefix  []byte // bytes that were read before this socket was made

	// Waiting, where set before the first write, is told when a write of at most waitBytes
	// begins that may wait for the peer, and when it has ended.
	Waiting func(begins bool)

	// mu guards the corked output: TLS may answer a key update from the
	// reading goroutine while another writes.
	mu     sync.Mutex
	corked bool
	out    *[]byte
	vec    vector
	pieces [3][]byte   // of Writev outside a callback
	bufs   net.Buffers // over them, kept so that it costs no allocation
}

// NewSocket wraps c. With portable it never lives inside a callback; nor does
// it where the platform or the kind of connection has none. prefix are bytes of
// the stream that were read already.
func NewSocket(c net.Conn, portable bool, prefix []byte) *Socket {
	s := &Socket{Conn: c, prefix: prefix}
	if !haveRaw {
		return s
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return s
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return s
	}
	s.raw, s.steps = raw, !portable
	s.enter = func(fd uintptr) bool {
		s.fd, s.inside, s.drained, s.asked = fd, true, false, false
		done := s.step()
		s.inside = false
		return done
	}
	return s
}

// CanStep tells whether Step may be called.
func (s *Socket) CanStep() bool { return s.steps }

// Inside tells whether the caller runs in a Step callback of this socket.
func (s *Socket) Inside() bool { return s.inside }

// Step calls f, at once and then each time that the socket has become
// readable, until f returns true. Inside f, Read gives ErrAgain instead of
// waiting. The error is that of the wait: a deadline passed, or the socket
// was closed.
//
// As long as f returns false only after ErrAgain, no arrival is missed: the
// poller reports edges, and a read that fell short of its buffer has emptied
// the socket. What may be missed is a FIN that came with the last bytes; see
// package deadline, which asks for it.
func (s *Socket) Step(f func() (done bool)) error {
	s.step = f
	return s.raw.Read(s.enter)
}

// AwaitReadable makes f's return of false inside Step wait for the next edge
// even though nothing was read: used after a write whose answer is awaited.
func (s *Socket) AwaitReadable() { s.drained, s.asked = true, true }

// LookAgain lets the next Read inside a callback ask the socket although the last
// one had emptied it. It returns false where that has been done: nothing is there, and
// what comes later, a FIN too, will wake the callback. So it is used before waiting in the
// middle of a message.
func (s *Socket) LookAgain() bool {
	if s.asked {
		return false
	}
	s.drained = false
	return true
}

// FD is the socket's descriptor, for a watch to ask; -1 where it has none. It
// is valid until Close.
func (s *Socket) FD() int {
	sc, ok := s.Conn.(syscall.Conn)
	if !ok {
		return -1
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return -1
	}
	fd := -1
	_ = raw.Control(func(f uintptr) { fd = int(f) })
	return fd
}

// Quiet tells whether the peer has neither sent anything nor closed: on a connection
// that is kept for later both mean that it is of no more use.
func (s *Socket) Quiet() bool {
	if s.raw == nil {
		return true
	}
	quiet := false
	err := s.raw.Control(func(fd uintptr) { quiet = rawQuiet(fd) })
	return err == nil && quiet
}

// Read implements net.Conn.
func (s *Socket) Read(p []byte) (int, error) {
	if len(s.prefix) > 0 {
		n := copy(p, s.prefix)
		if s.prefix = s.prefix[n:]; len(s.prefix) == 0 {
			s.prefix = nil
		}
		return n, nil
	}
	if s.dry {
		return 0, ErrAgain
	}
	if !s.inside {
		return s.Conn.Read(p)
	}
	if s.drained {
		return 0, ErrAgain
	}
	n, err := rawRead(s.fd, p)
	switch {
	case err == nil && n == 0 && len(p) > 0:
		return 0, io.EOF
	case err == nil:
		s.drained, s.asked = n < len(p), false
		return n, nil
	case err == syscall.EAGAIN: //nolint:errorlint // a bare errno
		s.drained, s.asked = true, true
		return 0, ErrAgain
	}
	return 0, os.NewSyscallError("read", err)
}

// Write implements net.Conn. On a corked socket it only keeps the bytes.
func (s *Socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.corked {
		return s.write(p)
	}
	if s.out == nil {
		s.out = corkPool.Get().(*[]byte)
	}
	*s.out = append(*s.out, p...)
	if len(*s.out) < corkBytes {
		return len(p), nil
	}
	return len(p), s.flushLocked()
}

// write sends p, by a system call without the scheduler where the descriptor is
// pinned by a callback.
func (s *Socket) write(p []byte) (int, error) {
	done := 0
	if s.inside {
		for done < len(p) {
			n, err := rawWrite(s.fd, p[done:])
			if err == syscall.EAGAIN { //nolint:errorlint // a bare errno
				break
			}
			if err != nil {
				return done, os.NewSyscallError("write", err)
			}
			done += n
		}
		if done == len(p) {
			return done, nil
		}
	}
	for done < len(p) {
		s.wait(true)
		n, err := s.Conn.Write(p[done:min(len(p), done+waitBytes)])
		s.wait(false)
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

func (s *Socket) wait(begins bool) {
	if s.Waiting != nil {
		s.Waiting(begins)
	}
}

// Cork keeps what is written until Uncork, or until there is much of it.
func (s *Socket) Cork() {
	s.mu.Lock()
	s.corked = true
	s.mu.Unlock()
}

// Uncork sends what was kept and lets writes pass again.
func (s *Socket) Uncork() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.corked = false
	return s.flushLocked()
}

// SetWriteDeadline implements net.Conn. crypto/tls ends writing by a deadline
// that has passed, right behind its close_notify: what is corked, that alert
// with the last answer, leaves before it.
func (s *Socket) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	if s.out != nil && !t.After(time.Now()) {
		s.corked = false
		_ = s.flushLocked()
	}
	s.mu.Unlock()
	return s.Conn.SetWriteDeadline(t)
}

func (s *Socket) flushLocked() error {
	if s.out == nil {
		return nil
	}
	b := s.out
	s.out = nil
	_, err := s.write(*b)
	*b = (*b)[:0]
	corkPool.Put(b)
	return err
}

// Writev sends the pieces, in order, by one system call where the socket takes
// them.
func (s *Socket) Writev(a, b, c []byte) error {
	if s.inside {
		return s.rawWritev(a, b, c)
	}
	if len(a)+len(b)+len(c) > waitBytes {
		return s.writeEach(a, b, c)
	}
	s.pieces = [3][]byte{a, b, c}
	s.bufs = s.pieces[:]
	s.wait(true)
	_, err := s.bufs.WriteTo(s.Conn)
	s.wait(false)
	s.pieces = [3][]byte{}
	return err
}

// rawWritev leaves what the socket would not take to ordinary writes.
func (s *Socket) rawWritev(a, b, c []byte) error {
	n, err := s.vec.write(s.fd, a, b, c)
	if err != nil && err != syscall.EAGAIN { //nolint:errorlint // a bare errno
		return os.NewSyscallError("writev", err)
	}
	for _, p := range [...]*[]byte{&a, &b, &c} {
		sent := min(n, len(*p))
		n, *p = n-sent, (*p)[sent:]
	}
	return s.writeEach(a, b, c)
}

func (s *Socket) writeEach(pieces ...[]byte) error {
	for _, p := range pieces {
		if _, err := s.write(p); err != nil {
			return err
		}
	}
	return nil
}

// CloseWrite ends our direction (TCP FIN).
func (s *Socket) CloseWrite() error {
	if c, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}
