package http2

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

// serverStream is a stream of a server: an exchange and its answer.
type serverStream struct {
	stream
	x    exchange.Exchange
	sc   *Conn
	sink sink
	tun  tunnel

	// Under sc.mu.
	dispatched bool
	awaits     bool // a small body, before the exchange is dispatched
	waited     time.Duration

	rated bool // a minimum rate is asked of the body

	heads     sync.Mutex // orders interim heads, which the body's reader may send, and the final one
	started   atomic.Bool
	continued bool
}

var serverStreams = sync.Pool{New: func() any { return new(serverStream) }}

func (c *Conn) newStream(id uint32) *serverStream {
	s := serverStreams.Get().(*serverStream)
	s.sc = c
	s.stream.init(&c.conn, s, id)
	s.sent = &s.x.BytesOut
	s.dispatched, s.awaits, s.rated, s.waited = false, false, false, 0
	s.continued = false
	s.started.Store(false)
	s.x.Reset(c.info)
	s.x.Response.Reset(nil)
	s.x.Responder = s
	return s
}

// recycle implements owner.
func (s *serverStream) recycle() {
	s.in.reset()
	s.x.Body, s.x.Conn = nil, nil
	s.c, s.sc = nil, nil
	serverStreams.Put(s)
}

// lost implements owner: the client reset the stream, is gone, or is at fault.
func (s *serverStream) lost(error) {
	s.sc.mu.Lock()
	drop := !s.dispatched
	s.dispatched = true
	s.sc.mu.Unlock()
	if drop {
		s.c.credit(0, 0, s.in.discard())
		s.unref() // no worker will
		return
	}
	s.x.Cancel(exchange.ErrClientGone)
}

// headers implements endpoint.
func (c *Conn) headers(id uint32, block []byte, end, selfDep bool) error {
	if id%2 == 0 {
		return connErr(ProtocolError, "the client opened a stream with an even number")
	}
	c.mu.Lock()
	s, known, final := c.streams[id], id <= c.seen, c.drain >= drainFinal
	recent := known && s == nil && c.recent.has(id)
	switch {
	case s != nil:
		s.refs.Add(1)
	case !known:
		c.seen = id
		if final { // what follows on it is thrown away, too
			c.recent.add(id)
		}
	}
	c.mu.Unlock()
	switch {
	case s != nil:
		defer s.unref()
		return c.trailers(s, block, end)
	case known && recent:
		return c.discard(block)
	case known:
		return connErr(StreamClosed, "HEADERS on a closed stream")
	case final:
		return c.discard(block)
	}
	return c.request(id, block, end, selfDep)
}

// trailers takes in the trailer section of a request.
func (c *Conn) trailers(s *stream, block []byte, end bool) error {
	switch {
	case s.remoteEnd:
		c.budget.resets++
		c.added = true
		if !c.kill(s, errStreamClosed, StreamClosed) { // its answer has just ended
			return connErr(StreamClosed, "HEADERS on a closed stream")
		}
		s.own.lost(errStreamClosed)
		return c.discard(block)
	case !end:
		c.fault(s, exchange.RefuseTrailers, ProtocolError)
		return c.discard(block)
	}
	// The body's consumer looks at the trailers only once the end is set.
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

// request opens a stream.
func (c *Conn) request(id uint32, block []byte, end, selfDep bool) error {
	c.budget.opened++
	s := c.newStream(id)
	r, err := c.readRequest(&s.x.Request, block)
	if err != nil {
		s.unref()
		return err
	}
	if r != nil {
		if err := c.budget.spendReset(); err != nil {
			s.unref()
			return err
		}
	}
	if code := c.admit(s, selfDep); code != NoError {
		s.unref()
		if err := c.budget.spendReset(); err != nil {
			return err
		}
		return c.control(func(b []byte) []byte { return appendReset(b, id, code) })
	}
	s.x.Start = time.Now()
	s.refuse(r)
	c.openStream(s, end)
	return nil
}

// admit counts a stream in, or gives the code that refuses it.
func (c *Conn) admit(s *serverStream, selfDep bool) ErrCode {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drain >= drainFinal { // since the head was looked at; GOAWAY says that it is not served
		c.recent.add(s.id)
		return RefusedStream
	}
	c.last = s.id
	switch {
	case selfDep:
		return ProtocolError
	case c.open >= c.maxStreams || c.workers-len(c.parked) >= 2*c.maxStreams:
		// Handlers of streams that were reset run on for a while: they count, too.
		c.recent.add(s.id)
		return RefusedStream
	}
	c.rouse()
	c.open++
	c.requests++
	s.window = c.peerWindow
	return NoError
}

// refuse notes the verdict on a request. A malformed one gets its answer and then
// RST_STREAM (RFC 9113, section 8.1.1).
func (s *serverStream) refuse(r *exchange.Refusal) {
	s.x.Refusal = r
	if r != nil && r.Status == 400 {
		s.after = ProtocolError
	}
}

// openStream lists the stream and lets a worker serve it, at once or when its small
// body is complete.
func (c *Conn) openStream(s *serverStream, end bool) {
	q := &s.x.Request
	s.remoteEnd = end
	switch {
	case !end:
		c.expectBody(s)
	case q.Length > 0 && s.x.Refusal == nil:
		s.refuse(exchange.RefuseBodyLength)
	}
	c.mu.Lock()
	c.streams[s.id] = &s.stream
	shut := c.o.MaxRequests > 0 && c.requests >= c.o.MaxRequests
	if s.awaits {
		c.awaiting++
	} else {
		c.dispatch(s)
	}
	c.mu.Unlock()
	if shut {
		c.Shutdown()
	}
}

// expectBody sets the stream up for a body, or for the client's side of a tunnel.
func (c *Conn) expectBody(s *serverStream) {
	q := &s.x.Request
	if len(q.Protocol()) > 0 {
		return
	}
	s.in.length, s.in.limit = q.Length, c.o.Limits.BodyBytes
	s.in.moved = &s.x.BytesIn
	s.x.Body = &s.in
	// Streams of gRPC are long and may be silent; they ask for trailers.
	s.rated = c.o.BodyMinRate > 0 && !q.TETrailers
	if q.ExpectContinue {
		s.in.first = s
		return
	}
	s.awaits = s.x.Refusal == nil && q.Length >= 0 && q.Length <= min(wholeBody, c.streamWindow) && !c.pressed()
}

// pressed tells whether the connection's window runs short, so that bodies must
// be read while they come.
func (c *Conn) pressed() bool { return c.recvWindow.Load() < c.connWindow/2 }

// tookData implements endpoint. Where what is held for streams that wait for the
// rest of their bodies has used the connection's window up, they are dispatched: none
// might ever be complete.
func (c *Conn) tookData() {
	if c.awaiting == 0 || !c.pressed() {
		return
	}
	c.mu.Lock()
	for _, st := range c.streams {
		if s := st.own.(*serverStream); s.awaits && !s.dispatched {
			c.dispatch(s)
		}
	}
	c.mu.Unlock()
	c.awaiting = 0
}

// refuseBody implements endpoint: an exchange that has not been dispatched yet is
// answered with r.
func (c *Conn) refuseBody(st *stream, r *exchange.Refusal) bool {
	s := st.own.(*serverStream)
	c.mu.Lock()
	if s.dispatched || c.dead != nil {
		c.mu.Unlock()
		return false
	}
	owed := s.in.discard()
	s.refuse(r)
	c.dispatch(s)
	c.mu.Unlock()
	c.credit(0, 0, owed)
	return true
}

// bodyEnded implements endpoint.
func (c *Conn) bodyEnded(st *stream) {
	s := st.own.(*serverStream)
	c.mu.Lock()
	if s.awaits && !s.dispatched {
		s.in.moved = nil
		s.x.BytesIn = s.in.total
		c.dispatch(s)
	}
	c.mu.Unlock()
}

// worker is a goroutine that serves one stream after the other. It ends with
// the connection, or when it has been idle for a while.
type worker struct {
	jobs chan *serverStream
}

// dispatch lets a worker serve s. Under mu.
func (c *Conn) dispatch(s *serverStream) {
	s.dispatched = true
	if n := len(c.parked); n > 0 {
		w := c.parked[n-1]
		c.parked = c.parked[:n-1]
		w.jobs <- s
		return
	}
	c.workers++
	c.work.Add(1)
	w := &worker{jobs: make(chan *serverStream, 1)}
	w.jobs <- s
	go c.run(w)
}

func (c *Conn) run(w *worker) {
	defer c.work.Done()
	for s := range w.jobs {
		c.o.Handler.Serve(&s.x)
		s.finish()
		c.mu.Lock()
		if c.dead != nil {
			c.workers--
			c.mu.Unlock()
			return
		}
		c.parked = append(c.parked, w)
		c.stopIfDrained()
		c.mu.Unlock()
	}
}

// trimWorkers ends half of the workers that have nothing to do. Under mu.
func (c *Conn) trimWorkers() {
	n := (len(c.parked) + 1) / 2
	for _, w := range c.parked[:n] {
		close(w.jobs)
	}
	c.workers -= n
	c.parked = append(c.parked[:0], c.parked[n:]...)
}

// endWorkers ends those that are idle; the others see that the connection is dead.
func (c *Conn) endWorkers() {
	c.mu.Lock()
	for _, w := range c.parked {
		close(w.jobs)
	}
	c.parked = nil
	c.mu.Unlock()
}

// finish ends the stream after its handler has returned.
func (s *serverStream) finish() {
	c := s.sc
	s.sink.free()
	if c.kill(&s.stream, errUnfinished, s.endCode()) {
		c.out.flush()
	}
	s.in.Close(nil)
	s.unref()
}

// endCode is the code for a stream whose handler has returned before its end.
// The rest of a request that was answered is cut off (RFC 9113, section 8.1).
func (s *serverStream) endCode() ErrCode {
	s.sc.mu.Lock()
	defer s.sc.mu.Unlock()
	switch {
	case s.tunnel:
		return Cancel
	case s.localEnd:
		return s.after
	}
	return InternalError
}
