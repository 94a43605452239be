package http3

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
)

// stream is what the two ends of a request stream have in common: its deadline,
// the incoming body and the writing of frames.
type stream struct {
	str   *quic.Stream
	watch *deadline.Watch
	entry deadline.Entry
	idle  time.Duration // how long it may stand still
	stall time.Duration // how long the peer may leave what is to be sent; 0 for idle
	in    inbound
	moved *int64 // counts the body's bytes that were sent
	gone  bool   // the watch has seen, or will tell, that the peer is gone
}

// past is a deadline that has been over for long.
var past = time.Unix(1, 0)

func (s *stream) limit(d time.Duration) { s.watch.Set(&s.entry, d) }

// expire cuts reads and writes short.
func (s *stream) expire() {
	_ = s.str.SetReadDeadline(past)
	_ = s.str.SetWriteDeadline(past)
}

// reset ends both directions with an error.
func (s *stream) reset(code ErrCode) {
	s.str.CancelWrite(quic.StreamErrorCode(code))
	s.str.CancelRead(quic.StreamErrorCode(code))
}

// tryBytes is up to what size bytes are handed over without waiting for them to be
// put into packets, which costs a copy but no turn of the scheduler. They fit a packet mostly.
const tryBytes = 4 << 10

func (s *stream) write(p []byte) error {
	s.limit(s.idle)
	if len(p) <= tryBytes {
		if err := s.str.TryWriteAll(p); err != quic.ErrWouldBlock { //nolint:errorlint // the value itself
			return err
		}
	}
	if s.stall <= 0 {
		_, err := s.str.Write(p)
		return err
	}
	var err error
	for len(p) > 0 && err == nil {
		s.watch.Stall(&s.entry, s.stall)
		var n int
		n, err = s.str.Write(p[:min(len(p), waitBytes)])
		p = p[n:]
	}
	s.entry.Unstall()
	s.limit(s.idle)
	return err
}

// waitBytes is how much the peer is to take in the time of a stall, so that one that is slow, but
// takes something, is not held to take a whole answer.
const waitBytes = 256 << 10

// outs holds the memory that heads, and small bodies behind them, are written in.
var outs = sync.Pool{New: func() any {
	b := make([]byte, 0, 4096)
	return &b
}}

func putOut(b *[]byte) {
	if cap(*b) <= 128<<10 {
		outs.Put(b)
	}
}

// joinBytes is up to where a piece of a body is copied behind what goes before
// it, to leave in one write.
const joinBytes = 16 << 10

// writer frames one body. What is to go before the next piece waits in out.
// Where the length is known all of the body is one DATA frame, whose header
// goes out with the head: pieces follow as they lie.
type writer struct {
	s    *stream
	out  *[]byte
	left int64 // by Content-Length; -1 where there is none
	one  bool  // one DATA frame
}

// begin announces the body behind the head that is in out.
func (w *writer) begin() {
	if w.one = w.left > 0; w.one {
		*w.out = appendFrameHeader(*w.out, frameData, w.left)
	}
}

func (w *writer) flush() error {
	if len(*w.out) == 0 {
		return nil
	}
	err := w.s.write(*w.out)
	*w.out = (*w.out)[:0]
	return err
}

// piece sends p, and after the last one the trailers and the end.
func (w *writer) piece(p []byte, last bool, trailers *exchange.Head) error {
	if w.left >= 0 {
		if w.left -= int64(len(p)); w.left < 0 {
			return errTooLong
		} else if last && w.left > 0 {
			return errTooShort
		}
	}
	if w.s.moved != nil {
		*w.s.moved += int64(len(p))
	}
	if len(p) > 0 && !w.one {
		*w.out = appendFrameHeader(*w.out, frameData, int64(len(p)))
	}
	if err := w.put(p); err != nil {
		return err
	}
	if !last {
		return w.flush()
	}
	if trailers != nil && trailers.Live() > 0 {
		off := len(*w.out)
		*w.out = endHeaders(appendFields(beginHeaders(*w.out), trailers), off)
	}
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.s.str.Close(); err != nil {
		return context.Cause(w.s.str.Context()) // a stream error, where Close has but a text
	}
	return nil
}

// put sends p, or keeps it where it is small.
func (w *writer) put(p []byte) error {
	if len(p) <= joinBytes {
		*w.out = append(*w.out, p...)
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.s.write(p)
}

// bodyError is an error of the body that is sent, as opposed to one of the stream
// that it is sent on.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *bodyError) Unwrap() error { return e.err }

// pull sends all of src, flushing before it would wait, and the end.
func (w *writer) pull(src exchange.Source) error {
	for {
		if src.Buffered() == 0 {
			if err := w.flush(); err != nil {
				return err
			}
		}
		p, err := src.Next()
		last := err == io.EOF //nolint:errorlint // the end is this value
		if err != nil && !last {
			return &bodyError{err}
		}
		var trailers *exchange.Head
		if last {
			trailers = src.Trailers()
		}
		err = w.piece(p, last, trailers)
		if err == errTooLong || err == errTooShort { //nolint:errorlint // our own values
			err = &bodyError{err}
		}
		if err != nil || last {
			return err
		}
	}
}

// tunnel is the byte stream of an extended CONNECT (RFC 9220), of either end.
type tunnel struct {
	s   *stream
	out []byte
}

// Read implements exchange.Tunnel.
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.s.in.Read(p)
	if n > 0 && err == io.EOF { //nolint:errorlint // told again at the next call
		err = nil
	}
	return n, err
}

// Write implements exchange.Tunnel.
func (t *tunnel) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	t.out = appendFrameHeader(t.out[:0], frameData, int64(len(p)))
	if len(p) <= joinBytes {
		t.out = append(t.out, p...)
		return len(p), t.s.write(t.out)
	}
	if err := t.s.write(t.out); err != nil {
		return 0, err
	}
	return len(p), t.s.write(p)
}

// CloseWrite implements exchange.Tunnel.
func (t *tunnel) CloseWrite() error { return t.s.str.Close() }

// Close implements exchange.Tunnel: what has not ended in order is cut.
func (t *tunnel) Close() error {
	// After CloseWrite a reset would take back what has not arrived yet.
	if t.s.str.Context().Err() == nil {
		t.s.str.CancelWrite(quic.StreamErrorCode(RequestCancelled))
	}
	t.s.in.closed.Store(true)
	t.s.str.CancelRead(quic.StreamErrorCode(RequestCancelled))
	return nil
}
