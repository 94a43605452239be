package http2

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/hanzoai/pqgw/exchange"
)

// wholeBody is the largest body that is gathered before it is passed on, and
// written with its head in one piece.
const wholeBody = 64 << 10

// stream is what both ends keep of a stream. It is reused: whoever holds one
// without being its worker holds a reference.
type stream struct {
	c    *conn
	own  owner
	id   uint32
	refs atomic.Int32
	in   inbound

	headless bool // no DATA may come yet; the reader's own

	// Under c.mu; remoteEnd is written by the reader alone, which may read it freely.
	wake      sync.Cond // window, or an error
	window    int64     // what we may send
	granted   int64     // of the connection's window, to a stream that waited for it
	queued    bool      // waits for the connection's window
	want      int64     // while queued
	blocked   int64     // coarse time since when a send waits; 0 for none
	localEnd  bool      // we sent END_STREAM, or are about to
	remoteEnd bool      // the peer sent it
	closed    bool      // no longer in c.streams
	err       error     // why it died early
	tunnel    bool
	after     ErrCode // of the RST_STREAM after the answer

	cut    atomic.Bool  // RST_STREAM has been sent or is about to be: nothing follows it
	active atomic.Int64 // coarse time of the last DATA, either way
	sent   *int64       // counts the bytes of body sent
}

// owner is the end that a stream belongs to.
type owner interface {
	// lost tells that the stream died of err. It does not wait.
	lost(err error)
	// recycle takes the stream back once nobody holds it.
	recycle()
}

func (s *stream) init(c *conn, own owner, id uint32) {
	s.c, s.own, s.id = c, own, id
	s.wake.L = &c.mu
	s.granted, s.queued, s.want, s.blocked = 0, false, 0, 0
	s.headless = false
	s.localEnd, s.remoteEnd, s.closed, s.err, s.tunnel, s.after = false, false, false, nil, false, NoError
	s.cut.Store(false)
	s.active.Store(c.clock.Load())
	s.refs.Store(1)
	s.in.init(s, c.streamWindow)
}

func (s *stream) unref() {
	if s.refs.Add(-1) == 0 {
		s.own.recycle()
	}
}

// credit gives the peer back what has been read: give on the stream, n on the
// connection.
func (s *stream) credit(give uint32, n int) {
	if n > 0 {
		s.active.Store(s.c.clock.Load())
	}
	if s.c.credit(s.id, give, n) {
		s.c.out.flush()
	}
}

// sendData writes p as DATA, waiting for the windows, and with fin ends the stream.
func (s *stream) sendData(p []byte, fin bool) error {
	for {
		n, err := s.c.reserve(s, len(p))
		if err != nil {
			return err
		}
		last := fin && n == len(p)
		after := noReset
		if last {
			after, err = s.c.endLocal(s)
		}
		taken := 0
		if err == nil {
			taken, err = s.c.out.data(s, p[:n], last)
		}
		s.count(taken)
		if err != nil {
			s.c.unreserve(n - taken)
			return err
		}
		if p = p[n:]; len(p) == 0 {
			if after != noReset {
				return s.c.appendReset(s.id, after)
			}
			return nil
		}
	}
}

func (s *stream) count(n int) {
	if n > 0 {
		s.active.Store(s.c.clock.Load())
		*s.sent += int64(n)
		s.c.sentFrames.Add(1 + int64(n)/minMaxFrame)
	}
}

// sendHead writes a field section that encode appends: HEADERS, and CONTINUATION where it
// is long. body, for which the windows have been asked, follows in the same
// write; with fin the stream ends.
func (s *stream) sendHead(encode func(b []byte) []byte, body []byte, fin bool) error {
	after := noReset
	var err error
	if fin {
		after, err = s.c.endLocal(s)
	} else {
		err = s.c.alive(s)
	}
	if err != nil {
		s.c.unreserve(len(body))
		return err
	}
	b := s.c.out.beginRoom(len(body))
	if s.cut.Load() {
		_ = s.c.out.end(b)
		s.c.unreserve(len(body))
		return errStreamClosed
	}
	b = s.c.appendHead(b, s.id, encode, fin && len(body) == 0)
	s.count(len(body))
	for len(body) > 0 {
		n := len(body)
		if n > minMaxFrame {
			n = recordPayload
		}
		b = appendData(b, s.id, body[:n], fin && n == len(body))
		body = body[n:]
	}
	if after != noReset {
		b = appendReset(b, s.id, after)
	}
	return s.c.out.end(b)
}

// sendBody streams src, flushing before it would wait, and ends the stream;
// length is what the head has promised, or -1.
func (s *stream) sendBody(src exchange.Source, length int64) error {
	for {
		if src.Buffered() == 0 {
			s.c.out.flush()
		}
		p, err := src.Next()
		if err != nil && err != io.EOF { //nolint:errorlint // the contract of exchange.Source
			return &bodyError{err}
		}
		if length >= 0 {
			if length -= int64(len(p)); length < 0 {
				return &bodyError{errTooLong}
			}
		}
		if err == nil {
			if err := s.sendData(p, false); err != nil {
				return err
			}
			continue
		}
		if length > 0 {
			return &bodyError{errTooShort}
		}
		return s.sendLast(p, src.Trailers())
	}
}

// bodyError tells a failure of the source from one of the connection.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return e.err.Error() }

// sendLast ends the stream with the last bytes and the trailers, if any.
func (s *stream) sendLast(p []byte, trailers *exchange.Head) error {
	if trailers == nil || trailers.Live() == 0 {
		return s.sendData(p, true)
	}
	if len(p) > 0 {
		if err := s.sendData(p, false); err != nil {
			return err
		}
	}
	return s.sendHead(func(b []byte) []byte { return appendFields(b, trailers, exchange.Unknown) }, nil, true)
}
