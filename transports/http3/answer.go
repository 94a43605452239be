package http3

import (
	"errors"

	"github.com/hanzoai/pqgw/exchange"
)

// Started implements exchange.Responder.
func (s *serverStream) Started() bool { return s.started.Load() }

// begin marks the final head as sent; an answer is given once.
func (s *serverStream) begin() error {
	if s.started.Swap(true) {
		return errAnswered
	}
	return nil
}

// Interim implements exchange.Responder.
func (s *serverStream) Interim(h *exchange.Head) error {
	if s.started.Load() {
		return errAnswered
	}
	if h.Status == 101 {
		return nil // HTTP/3 has none (RFC 9114, section 4.5)
	}
	if h.Status == 100 && s.continued.Swap(true) {
		return nil
	}
	out := outs.Get().(*[]byte) //nolint:forcetypeassert // nothing else is put there
	defer putOut(out)
	*out = endHeaders(appendFields(appendStatus(beginHeaders((*out)[:0]), h.Status), h), 0)
	return s.told(s.write(*out))
}

// sendContinue asks the client for the body that it holds back. An error is met
// again by whoever waits for the body or answers.
func (s *serverStream) sendContinue() {
	if s.started.Load() || s.continued.Swap(true) {
		return
	}
	var room [32]byte
	_ = s.write(endHeaders(appendStatus(beginHeaders(room[:0]), 100), 0))
}

// appendAnswer writes a final head; length is of the body, or -1.
func appendAnswer(b []byte, h *exchange.Head, length int64) []byte {
	off := len(b)
	b = appendStatus(beginHeaders(b), h.Status)
	if length >= 0 {
		b = appendContentLength(b, length)
	}
	return endHeaders(appendFields(b, h), off)
}

// Respond implements exchange.Responder.
func (s *serverStream) Respond(h *exchange.Head, src exchange.Source) error {
	if err := s.begin(); err != nil {
		return err
	}
	out := outs.Get().(*[]byte) //nolint:forcetypeassert // nothing else is put there
	defer putOut(out)
	w := writer{s: &s.stream, out: out}
	if src == nil || exchange.NoBody(s.x.Request.Method, h.Status) {
		*out = appendAnswer((*out)[:0], h, lengthOfNone(s.x.Request.Method, h))
		return s.ended(w.piece(nil, true, nil))
	}
	if p, ok := src.Whole(); ok {
		w.left = int64(len(p))
		*out = appendAnswer((*out)[:0], h, w.left)
		w.begin()
		return s.ended(w.piece(p, true, nil))
	}
	w.left = src.Length()
	*out = appendAnswer((*out)[:0], h, w.left)
	w.begin()
	return s.ended(w.pull(src))
}

// lengthOfNone is the Content-Length to write where no body follows: what a body would have
// had on HEAD and 304, none on 1xx and 204 (RFC 9110, section 8.6).
func lengthOfNone(m exchange.Method, h *exchange.Head) int64 {
	switch {
	case h.Status/100 == 1 || h.Status == 204:
		return -1
	case m == exchange.HEAD || h.Status == 304:
		return h.Length
	}
	return 0
}

// ended notes that the answer has been sent to its end, or cuts it.
func (s *serverStream) ended(err error) error {
	if s.finished = err == nil; s.finished {
		return nil
	}
	return s.told(err)
}

// told tells the handler whose fault an error is, and cuts the answer.
func (s *serverStream) told(err error) error {
	if err == nil {
		return nil
	}
	s.cut(InternalError)
	var b *bodyError
	if errors.As(err, &b) {
		return b.err
	}
	return &exchange.ClientError{Err: fromQUIC(err)}
}

// Abort implements exchange.Responder.
func (s *serverStream) Abort(error) { s.cut(InternalError) }

// Start implements exchange.Responder.
func (s *serverStream) Start(h *exchange.Head, length int64) (exchange.Sink, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	out := outs.Get().(*[]byte) //nolint:forcetypeassert // nothing else is put there
	s.sink = sink{s: s, w: writer{s: &s.stream, out: out, left: length}}
	if s.sink.none = exchange.NoBody(s.x.Request.Method, h.Status); s.sink.none {
		if length < 0 {
			length = lengthOfNone(s.x.Request.Method, h)
		}
		s.sink.w.left = 0
	}
	*out = appendAnswer((*out)[:0], h, length)
	s.sink.w.begin()
	return &s.sink, nil
}

// sink is the exchange.Sink of handlers that push. What is written gathers until
// there is much of it or Flush.
type sink struct {
	s    *serverStream
	w    writer
	none bool // no body goes out: HEAD, 204, 304
	over bool
}

// Write implements exchange.Sink.
func (k *sink) Write(p []byte) (int, error) {
	switch {
	case k.over:
		return 0, errAnswered
	case k.none || len(p) == 0:
		return len(p), nil
	}
	if err := k.w.piece(p, false, nil); err != nil {
		return 0, k.fail(err)
	}
	return len(p), nil
}

func (k *sink) fail(err error) error {
	k.free()
	if errors.Is(err, errTooLong) || errors.Is(err, errTooShort) {
		k.s.cut(InternalError)
		return err
	}
	return k.s.told(err)
}

func (k *sink) free() {
	if !k.over {
		k.over = true
		putOut(k.w.out)
	}
}

// Flush implements exchange.Sink.
func (k *sink) Flush() error {
	if k.over {
		return errAnswered
	}
	if err := k.w.flush(); err != nil {
		return k.fail(err)
	}
	return nil
}

// Finish implements exchange.Sink.
func (k *sink) Finish(trailers *exchange.Head) error {
	if k.over {
		return nil
	}
	if k.none {
		trailers = nil
	}
	if err := k.w.piece(nil, true, trailers); err != nil {
		return k.fail(err)
	}
	k.free()
	k.s.finished = true
	return nil
}

// Reset implements exchange.Sink.
func (k *sink) Reset(error) {
	if !k.over {
		k.free()
		k.s.cut(InternalError)
	}
}

// Tunnel implements exchange.Responder (RFC 9220, section 3).
func (s *serverStream) Tunnel(h *exchange.Head) (exchange.Tunnel, error) {
	if s.x.Refusal != nil || len(s.x.Request.Protocol()) == 0 {
		return nil, exchange.ErrTunnel
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	h.Remove(exchange.SecWebSocketAccept) // RFC 8441, section 5
	var room [512]byte
	if err := s.write(endHeaders(appendFields(appendStatus(beginHeaders(room[:0]), 200), h), 0)); err != nil {
		return nil, s.told(err)
	}
	s.finished = true
	s.tunnel = tunnel{s: &s.stream, out: s.tunnel.out[:0]}
	return &s.tunnel, nil
}
