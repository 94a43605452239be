package http2

import (
	"errors"

	"github.com/hanzoai/pqgw/exchange"
)

var errAnswered = errors.New("http2: the exchange was answered already")

// Started implements exchange.Responder.
func (s *serverStream) Started() bool { return s.started.Load() }

// begin marks the final head as sent; an answer is given once.
func (s *serverStream) begin() error {
	s.heads.Lock()
	defer s.heads.Unlock()
	if s.started.Load() {
		return errAnswered
	}
	s.started.Store(true)
	return nil
}

// Interim implements exchange.Responder.
func (s *serverStream) Interim(h *exchange.Head) error {
	if h.Status == 101 {
		return nil // HTTP/2 has none (RFC 9113, section 8.6)
	}
	s.heads.Lock()
	defer s.heads.Unlock()
	switch {
	case s.started.Load():
		return errAnswered
	case h.Status == 100 && s.continued:
		return nil
	case h.Status == 100:
		s.continued = true
	}
	err := s.sendHead(func(b []byte) []byte { return appendFields(appendStatus(b, h.Status), h, exchange.Unknown) }, nil, false)
	s.c.out.flush()
	return s.failed(err)
}

// sendContinue implements continuer.
func (s *serverStream) sendContinue() {
	s.heads.Lock()
	defer s.heads.Unlock()
	if s.started.Load() || s.continued {
		return
	}
	s.continued = true
	// An error is met again by whoever waits for the body or answers.
	_ = s.sendHead(func(b []byte) []byte { return appendStatus(b, 100) }, nil, false)
	s.c.out.flush()
}

// appendAnswer writes the fields of a final head; length is of the body, or -1.
func appendAnswer(b []byte, h *exchange.Head, length int64) []byte {
	b = appendStatus(b, h.Status)
	if length >= 0 {
		b = appendContentLength(b, length)
	}
	return appendFields(b, h, exchange.Unknown)
}

// Respond implements exchange.Responder.
func (s *serverStream) Respond(h *exchange.Head, body exchange.Source) error {
	if err := s.begin(); err != nil {
		return err
	}
	if body == nil || exchange.NoBody(s.x.Request.Method, h.Status) {
		length := lengthOfNone(s.x.Request.Method, h)
		err := s.sendHead(func(b []byte) []byte { return appendAnswer(b, h, length) }, nil, true)
		s.c.out.flush()
		return s.failed(err)
	}
	if p, ok := body.Whole(); ok && len(p) <= wholeBody {
		n, err := s.c.tryReserve(&s.stream, len(p))
		if err == nil {
			err = s.respondWhole(h, p, n)
		}
		s.c.out.flush()
		return s.failed(err)
	}
	length := body.Length()
	err := s.sendHead(func(b []byte) []byte { return appendAnswer(b, h, length) }, nil, false)
	if err == nil {
		err = s.sendBody(body, length)
	}
	s.c.out.flush()
	return s.failed(err)
}

// respondWhole sends head and body in one piece, as far as the client's windows
// allow: n bytes are reserved.
func (s *serverStream) respondWhole(h *exchange.Head, p []byte, n int) error {
	encode := func(b []byte) []byte { return appendAnswer(b, h, int64(len(p))) }
	if n == len(p) {
		return s.sendHead(encode, p, true)
	}
	if err := s.sendHead(encode, p[:n], false); err != nil {
		return err
	}
	return s.sendData(p[n:], true)
}

// lengthOfNone is the Content-Length to write where no body follows: what a body would have
// had on HEAD and 304, none on 1xx and 204 (RFC 9110, section 8.6).
func lengthOfNone(m exchange.Method, h *exchange.Head) int64 {
	switch {
	case h.Status/100 == 1 || h.Status == 204:
		return -1
	case m == exchange.HEAD || h.Status == 304 || h.Length == 0:
		return h.Length
	}
	return -1 // END_STREAM says it all
}

// failed tells the handler whose fault an error is. A body that failed cuts
// the answer.
func (s *serverStream) failed(err error) error {
	if err == nil {
		return nil
	}
	var b *bodyError
	if errors.As(err, &b) {
		s.cut(InternalError)
		return b.err
	}
	return &exchange.ClientError{Err: err}
}

// cut ends the stream with RST_STREAM.
func (s *serverStream) cut(code ErrCode) {
	if s.c.kill(&s.stream, errUnfinished, code) {
		s.c.out.flush()
	}
}

// Abort implements exchange.Responder.
func (s *serverStream) Abort(error) { s.cut(InternalError) }

// Start implements exchange.Responder.
func (s *serverStream) Start(h *exchange.Head, length int64) (exchange.Sink, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	s.sink = sink{s: s, left: length, none: exchange.NoBody(s.x.Request.Method, h.Status)}
	if s.sink.none && length < 0 {
		length = lengthOfNone(s.x.Request.Method, h)
	}
	err := s.sendHead(func(b []byte) []byte { return appendAnswer(b, h, length) }, nil, false)
	if err != nil {
		return nil, s.failed(err)
	}
	return &s.sink, nil
}

// sink is the exchange.Sink of an answer. What is written gathers in the
// connection's output and leaves with Flush, or when there is much of it.
type sink struct {
	s    *serverStream
	left int64 // that Content-Length still promises, or -1
	none bool  // the answer has no body: what is written is dropped
	buf  *chunk
}

// Write implements exchange.Sink.
func (k *sink) Write(p []byte) (int, error) {
	if k.none {
		return len(p), nil
	}
	if k.left >= 0 {
		if k.left -= int64(len(p)); k.left < 0 {
			k.Reset(errTooLong)
			return 0, errTooLong
		}
	}
	if err := k.gather(p); err != nil {
		return 0, k.s.failed(err)
	}
	return len(p), nil
}

// gather keeps small pieces until they fill a frame.
func (k *sink) gather(p []byte) error {
	if k.buf == nil {
		k.buf = getChunk(recordPayload)
	}
	for len(k.buf.b)+len(p) >= recordPayload {
		n := recordPayload - len(k.buf.b)
		k.buf.b = append(k.buf.b, p[:n]...)
		p = p[n:]
		if err := k.send(false); err != nil {
			return err
		}
	}
	k.buf.b = append(k.buf.b, p...)
	return nil
}

func (k *sink) send(fin bool) error {
	var p []byte
	if k.buf != nil {
		p = k.buf.b
		k.buf.b = k.buf.b[:0]
	}
	if len(p) == 0 && !fin {
		return nil
	}
	return k.s.sendData(p, fin)
}

// Flush implements exchange.Sink.
func (k *sink) Flush() error {
	err := k.send(false)
	k.s.c.out.flush()
	return k.s.failed(err)
}

// Finish implements exchange.Sink.
func (k *sink) Finish(trailers *exchange.Head) error {
	if k.left > 0 && !k.none {
		k.Reset(errTooShort)
		return errTooShort
	}
	var p []byte
	if k.buf != nil {
		p = k.buf.b
	}
	err := k.s.sendLast(p, trailers)
	k.free()
	k.s.c.out.flush()
	return k.s.failed(err)
}

// Reset implements exchange.Sink.
func (k *sink) Reset(error) {
	k.free()
	k.s.cut(InternalError)
}

func (k *sink) free() {
	k.buf.release()
	k.buf = nil
}

// Tunnel implements exchange.Responder (RFC 8441, section 5).
func (s *serverStream) Tunnel(h *exchange.Head) (exchange.Tunnel, error) {
	if s.x.Refusal != nil || len(s.x.Request.Protocol()) == 0 {
		return nil, exchange.ErrTunnel
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	s.c.mu.Lock()
	s.stream.tunnel = true
	s.c.mu.Unlock()
	err := s.sendHead(func(b []byte) []byte { return appendFields(appendStatus(b, 200), h, exchange.SecWebSocketAccept) }, nil, false)
	s.c.out.flush()
	if err != nil {
		return nil, s.failed(err)
	}
	s.tun = tunnel{s: &s.stream}
	return &s.tun, nil
}
