package serial

import "github.com/hanzoai/pqgw/exchange"

// Start implements exchange.Responder.
func (t *Turn) Start(h *exchange.Head, length int64) (exchange.Sink, error) {
	shape := Pieces
	if exchange.NoBody(t.X.Request.Method, h.Status) {
		shape = NoBody
	}
	out := GetScratch()
	framed, err := t.head(out, h, shape, length)
	if err != nil {
		PutScratch(out)
		return nil, err
	}
	t.sink = sink{w: writer{t: t, out: out, framed: framed, left: length}, none: shape == NoBody}
	return &t.sink, nil
}

// sink is the exchange.Sink of handlers that push. Small writes are gathered
// until the handler flushes: each flush is one piece.
type sink struct {
	w    writer
	held *[]byte // what was gathered; nil for nothing
	none bool    // no body goes out: HEAD, 204, 304
	over bool
}

// open tells whether an answer that has begun was not ended.
func (s *sink) open() bool { return s.w.t != nil && !s.over }

// Write implements exchange.Sink.
func (s *sink) Write(p []byte) (int, error) {
	if s.over {
		return 0, ErrAnswered
	}
	if s.none || len(p) == 0 {
		return len(p), nil
	}
	if s.hold(p) {
		return len(p), nil
	}
	s.w.t.c.Extend()
	if err := s.release(); err != nil {
		return 0, err
	}
	if err := s.w.piece(p, false, nil); err != nil {
		return 0, err
	}
	return len(p), nil
}

// hold keeps p for later, if there is room for it.
func (s *sink) hold(p []byte) bool {
	have := 0
	if s.held != nil {
		have = len(*s.held)
	}
	if have+len(p) > JoinBytes {
		return false
	}
	if s.held == nil {
		s.held = GetScratch()
	}
	*s.held = append(*s.held, p...)
	return true
}

// release makes a piece of what was kept.
func (s *sink) release() error {
	if s.held == nil {
		return nil
	}
	defer s.drop()
	return s.w.keep(*s.held)
}

func (s *sink) drop() {
	if s.held != nil {
		PutScratch(s.held)
		s.held = nil
	}
}

// Flush implements exchange.Sink.
func (s *sink) Flush() error {
	if s.over {
		return nil
	}
	s.w.t.c.Extend()
	if err := s.release(); err != nil {
		return err
	}
	return s.w.flush()
}

// Finish implements exchange.Sink.
func (s *sink) Finish(trailers *exchange.Head) error {
	if s.over {
		return nil
	}
	s.over = true
	defer PutScratch(s.w.out)
	if s.none {
		return s.w.t.writeLast(*s.w.out)
	}
	defer s.drop()
	var p []byte
	if s.held != nil {
		p = *s.held
	}
	return s.w.piece(p, true, trailers)
}

// Reset implements exchange.Sink.
func (s *sink) Reset(error) {
	if !s.over {
		s.over = true
		s.w.t.aborted = true
		s.drop()
		PutScratch(s.w.out)
	}
}
