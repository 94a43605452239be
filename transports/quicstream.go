package transports

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/quic-go/quic-go"
)

// Error codes of ZAP over QUIC, which are our own.
const (
	zapNoError   quic.StreamErrorCode = 0
	zapCancelled quic.StreamErrorCode = 1
	zapRejected  quic.StreamErrorCode = 2 // not processed: the connection is about to end
)

// quicStream is a stream as the byte connection that ZAP runs over.
type quicStream struct {
	*quic.Stream
	qc     *quic.Conn
	client bool
}

// tryBytes is up to what size bytes are handed over without waiting for packets
// to take them.
const tryBytes = 4 << 10

// Write implements net.Conn.
func (s *quicStream) Write(p []byte) (int, error) {
	if len(p) <= tryBytes {
		if err := s.Stream.TryWriteAll(p); err != quic.ErrWouldBlock { //nolint:errorlint // the value itself
			if err != nil {
				return 0, err
			}
			return len(p), nil
		}
	}
	return s.Stream.Write(p)
}

// Read implements net.Conn. The end comes alone, as TCP has it.
func (s *quicStream) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	if n > 0 {
		err = nil
	}
	return n, err
}

// LocalAddr implements net.Conn.
func (s *quicStream) LocalAddr() net.Addr { return s.qc.LocalAddr() }

// RemoteAddr implements net.Conn.
func (s *quicStream) RemoteAddr() net.Addr { return s.qc.RemoteAddr() }

// SetDeadline implements net.Conn.
func (s *quicStream) SetDeadline(t time.Time) error { return s.Stream.SetDeadline(t) }

// CloseWrite ends our direction.
func (s *quicStream) CloseWrite() error { return s.Stream.Close() }

// Close implements net.Conn. A server's last answer is still on its way then; a
// client that closes wants no more of whatever there is.
func (s *quicStream) Close() error {
	if s.client {
		s.Reset()
		return nil
	}
	err := s.Stream.Close()
	s.Stream.CancelRead(zapNoError)
	return err
}

// Reset ends both directions so that the peer sees that they are cut.
func (s *quicStream) Reset() {
	s.Stream.CancelWrite(zapCancelled)
	s.Stream.CancelRead(zapCancelled)
}

// Gone tells whether the peer has given the stream up. It does not wait.
func (s *quicStream) Gone() bool {
	ctx := s.Stream.Context()
	if ctx.Err() == nil {
		return false
	}
	var e *quic.StreamError
	cause := context.Cause(ctx)
	return !errors.Is(cause, quic.ErrStreamClosed) && (!errors.As(cause, &e) || e.Remote)
}
