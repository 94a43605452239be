package http2

import (
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/section"
)

// headers implements endpoint.
func (c *ClientConn) headers(id uint32, block []byte, end, selfDep bool) error {
	c.mu.Lock()
	idle := c.idle(id)
	c.mu.Unlock()
	if idle {
		return connErr(ProtocolError, "HEADERS on a stream that we did not open")
	}
	st := c.lookup(id)
	if st == nil {
		return c.discard(block)
	}
	defer st.unref()
	s := st.own.(*clientStream)
	switch {
	case st.remoteEnd:
		c.fault(st, errStreamClosed, StreamClosed)
		return c.discard(block)
	case selfDep:
		c.fault(st, &StreamError{Code: ProtocolError}, ProtocolError)
		return c.discard(block)
	case s.final: // the reader alone writes it
		return c.trailers(st, block, end)
	}
	return c.answer(s, block, end)
}

// trailers takes in the trailer section of an answer.
func (c *ClientConn) trailers(s *stream, block []byte, end bool) error {
	if !end {
		c.fault(s, exchange.RefuseTrailers, ProtocolError)
		return c.discard(block)
	}
	r, err := c.readTrailers(&s.in.trailers, block)
	if err != nil {
		return err
	}
	if r != nil {
		c.fault(s, r, ProtocolError)
		return nil
	}
	s.in.trailed = true
	c.bodyEnd(s)
	return nil
}

// answer takes in an interim or the final head.
func (c *ClientConn) answer(s *clientStream, block []byte, end bool) error {
	if s.waitingHeads() >= maxHeads {
		c.fault(&s.stream, errTooManyHeads, EnhanceYourCalm)
		return c.discard(block)
	}
	h := s.nextHead()
	r, err := c.readResponse(h, block, end)
	if err != nil {
		return err
	}
	if r != nil {
		c.fault(&s.stream, r, ProtocolError)
		return nil
	}
	final := h.Status >= 200
	if final {
		s.expectBody(h, end)
	}
	s.active.Store(c.clock.Load())
	s.in.mu.Lock()
	s.got++
	s.final = final
	s.in.ready.Broadcast()
	s.in.mu.Unlock()
	if end {
		c.bodyEnd(&s.stream)
	}
	return nil
}

func (s *clientStream) waitingHeads() int {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	return s.got - s.taken
}

// nextHead gives the head to read the next one into. The memory moves only
// while no head in it waits.
func (s *clientStream) nextHead() *exchange.Head {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	if s.got == len(s.heads) {
		s.heads = append(s.heads, exchange.Head{})
	}
	return &s.heads[s.got]
}

// readResponse decodes an answer's head and gives the verdict on it.
func (c *ClientConn) readResponse(h *exchange.Head, block []byte, end bool) (*exchange.Refusal, error) {
	h.Reset(nil)
	sec := section.Section{Head: h, Limits: &c.o.Limits, Allowed: section.Status}
	if err := c.dec.read(&sec, block); err != nil {
		return nil, err
	}
	h.SetVersion("HTTP/2.0")
	switch {
	case sec.Refusal != nil:
		return sec.Refusal, nil
	case sec.Seen&section.Status == 0, h.Status == 101, h.Status < 200 && end:
		return exchange.RefuseStatus, nil
	}
	// No answer that HTTP/2 allows depends on what the request asked for.
	return exchange.CheckResponse(h, nil, exchange.HTTP2, 0, &c.o.Limits), nil
}

// expectBody sets the stream up for the body of the answer with that head.
func (s *clientStream) expectBody(h *exchange.Head, end bool) {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	s.headless = false
	tunnel := s.method == exchange.CONNECT && h.Status/100 == 2
	switch {
	case tunnel:
	case exchange.NoBody(s.method, h.Status):
		s.noBody, s.in.length = true, 0
	default:
		s.noBody, s.in.length = end, h.Length
	}
}
