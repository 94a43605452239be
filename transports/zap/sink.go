package zap

import (
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/zapcodec"
)

// Start implements exchange.Responder.
func (a *answer) Start(h *exchange.Head, length int64) (exchange.Sink, error) {
	s := &a.sink
	out := headPool.Get().(*[]byte)
	s.w = writer{a: a, out: out, left: length}
	s.none, s.over, s.held = exchange.NoBody(a.c.x.Request.Method, h.Status), false, 0
	var err error
	if s.none {
		if length < 0 {
			length = lengthOfNone(a.c.x.Request.Method, h)
		}
		s.w.left = -1
		err = a.head(out, h, zapcodec.TypeResponse, 0, length)
	} else {
		s.w.framed, err = a.open(out, h, length)
	}
	if err != nil {
		putHead(out)
		return nil, err
	}
	return s, nil
}

// sink is the exchange.Sink of handlers that push. Small writes are gathered
// until the handler flushes: each flush is one data frame.
type sink struct {
	a    *answer
	w    writer
	none bool // no body goes out: HEAD, 204, 304
	over bool
	held int // bytes at the end of out that are data not yet framed
}

// Write implements exchange.Sink.
func (s *sink) Write(p []byte) (int, error) {
	if s.over {
		return 0, errTwice
	}
	if s.none || len(p) == 0 {
		return len(p), nil
	}
	if s.held+len(p) <= joinBytes {
		s.hold(p)
		return len(p), nil
	}
	s.a.c.limit(s.a.c.o.StreamIdle)
	if err := s.frame(false, nil); err != nil {
		return 0, err
	}
	if err := s.w.piece(p, false, nil); err != nil {
		return 0, err
	}
	return len(p), nil
}

// hold keeps p behind the room for its frame's head.
func (s *sink) hold(p []byte) {
	if s.held == 0 && s.w.framed {
		var room [64]byte
		*s.w.out = append(*s.w.out, room[:zapcodec.DataHeadSize(s.a.enc.opt)]...)
	}
	*s.w.out = append(*s.w.out, p...)
	s.held += len(p)
}

// frame makes a data frame of what is held.
func (s *sink) frame(last bool, trailers *exchange.Head) error {
	n := s.held
	s.held = 0
	w := &s.w
	if w.left >= 0 {
		if w.left -= int64(n); w.left < 0 || last && w.left > 0 {
			s.a.aborted = true
			return errBodyLength
		}
	}
	s.a.c.x.BytesOut += int64(n)
	if w.framed && n > 0 {
		out := *w.out
		at := len(out) - n - zapcodec.DataHeadSize(s.a.enc.opt)
		_, _ = zapcodec.AppendDataHead(out[:at], s.a.enc.opt, n) // in place: the room was left for it
	}
	if w.framed && last {
		return w.end(w.out, trailers)
	}
	return nil
}

// Flush implements exchange.Sink.
func (s *sink) Flush() error {
	if s.over {
		return nil
	}
	s.a.c.limit(s.a.c.o.StreamIdle)
	if err := s.frame(false, nil); err != nil {
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
	defer putHead(s.w.out)
	if s.none {
		return s.w.flush()
	}
	if err := s.frame(true, trailers); err != nil {
		return err
	}
	return s.w.flush()
}

// Reset implements exchange.Sink.
func (s *sink) Reset(error) {
	if !s.over {
		s.over = true
		s.a.aborted = true
		putHead(s.w.out)
	}
}
