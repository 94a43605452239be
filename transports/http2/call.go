package http2

import (
	"errors"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

// clientStream is a stream of a client: a request and its answer.
type clientStream struct {
	stream
	cc       *ClientConn
	timeouts exchange.Timeouts
	method   exchange.Method
	bytesOut int64
	bytesIn  int64
	tun      tunnel

	// Under in.mu: the heads that have come, read[0:taken] of them passed on.
	heads  []exchange.Head
	got    int
	taken  int
	final  bool // the final head has come
	noBody bool // it has no body, whatever comes

	// Under cc.mu.
	sentAt int64 // coarse time when the request was sent to its end; 0 before
}

var clientStreams = sync.Pool{New: func() any { return new(clientStream) }}

// maxHeads is how many heads of one answer may wait to be read.
const maxHeads = 16

// call is an exchange.Call. It is made anew each time, since its canceller may
// still be called by someone when the stream serves another call.
type call struct {
	canceller exchange.Canceller
	mu        sync.Mutex
	s         *clientStream // nil once finished
}

func newCall(c *ClientConn) *call {
	s := clientStreams.Get().(*clientStream)
	s.cc = c
	s.stream.init(&c.conn, s, 0)
	s.headless = true
	s.sent, s.in.moved = &s.bytesOut, &s.bytesIn
	s.got, s.taken, s.final, s.noBody, s.sentAt = 0, 0, false, false, 0
	k := &call{s: s}
	k.canceller.Cancel = k.cancel
	return k
}

// recycle implements owner.
func (s *clientStream) recycle() {
	s.in.reset()
	s.c, s.cc = nil, nil
	clientStreams.Put(s)
}

// lost implements owner: whoever waits has been woken already.
func (s *clientStream) lost(error) {}

// Canceller implements exchange.Call.
func (k *call) Canceller() *exchange.Canceller { return &k.canceller }

func (k *call) cancel(reason error) {
	k.mu.Lock()
	s := k.s
	if s != nil {
		s.refs.Add(1)
	}
	k.mu.Unlock()
	if s == nil {
		return
	}
	owed := s.in.breakOff(reason)
	killed := s.c.kill(&s.stream, reason, Cancel)
	if s.c.credit(s.id, 0, owed) || killed {
		s.c.flushBeside() // the watch must not wait: all deadlines would
	}
	s.unref()
}

// fail names what was being done.
func (k *call) fail(op string, err error) error {
	var r *StreamError
	if errors.As(err, &r) && r.Remote && r.Code == RefusedStream {
		err = notSent(err)
	}
	s := k.s
	s.in.mu.Lock()
	answered := s.got > 0
	s.in.mu.Unlock()
	return &exchange.UpstreamError{Op: op, Answered: answered, Err: err}
}

// Send implements exchange.Call. What it writes is flushed by SendBody or ReadHead.
func (k *call) Send(x *exchange.Exchange, body exchange.Source, t exchange.Timeouts) error {
	s := k.s
	s.timeouts, s.method = t, x.Request.Method
	if len(x.Request.Protocol()) > 0 {
		if err := s.awaitConnect(t); err != nil {
			return k.fail("send", err)
		}
		s.method = exchange.CONNECT
	}
	length := int64(-1)
	var whole []byte
	fin := body == nil && s.method != exchange.CONNECT
	if body != nil {
		length = body.Length()
		if p, ok := body.Whole(); ok {
			whole, fin, length = p, true, int64(len(p))
		}
	} else if m := x.Request.Method; m == exchange.POST || m == exchange.PUT || m == exchange.PATCH {
		length = 0
	}
	rest, err := s.open(&x.Request, length, whole, fin)
	if err == nil && len(rest) > 0 {
		err = s.sendData(rest, true)
		s.noteSent()
	}
	if err != nil {
		return k.fail("send", err)
	}
	return nil
}

// awaitConnect waits for the upstream's SETTINGS, which tell whether it offers
// extended CONNECT.
func (s *clientStream) awaitConnect(t exchange.Timeouts) error {
	s.c.out.flush()
	timer := time.NewTimer(durationOr(t.FirstByte, DefaultPingTimeout))
	defer timer.Stop()
	select {
	case <-s.cc.known:
	case <-s.cc.over:
		return notSent(exchange.ErrConnClosed)
	case <-timer.C:
		return exchange.ErrTimeout
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !s.cc.connects {
		return exchange.ErrTunnel
	}
	return nil
}

// open gives the stream its number and writes the head with as much of the body as the
// windows allow; what is left of it is returned.
func (s *clientStream) open(h *exchange.Head, length int64, whole []byte, fin bool) (rest []byte, err error) {
	c := s.cc
	b := c.out.beginRoom(min(len(whole), outHigh/2))
	n, err := c.list(s, len(whole), min(outHigh/2, len(whole)), fin)
	if err != nil {
		_ = c.out.end(b)
		return nil, err
	}
	last := fin && n == len(whole)
	b = c.appendHead(b, s.id, func(b []byte) []byte { return c.appendRequest(b, h, length) }, last && n == 0)
	for p := whole[:n]; len(p) > 0; {
		n := len(p)
		if n > minMaxFrame {
			n = recordPayload
		}
		b = appendData(b, s.id, p[:n], last && n == len(p))
		p = p[n:]
	}
	s.stream.count(n)
	return whole[n:], c.out.end(b)
}

// list counts the stream in under the next number, and reserves up to most of want bytes.
// The output is locked, so that streams begin in the order of their numbers.
func (c *ClientConn) list(s *clientStream, want, most int, fin bool) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.err != nil:
		return 0, s.err
	case c.dead != nil || c.fatal != nil || c.away || c.next > maxStreamID:
		return 0, notSent(exchange.ErrConnClosed)
	}
	s.id = c.next
	c.next += 2
	s.window = c.peerWindow
	c.streams[s.id] = &s.stream
	for _, t := range [...]time.Duration{s.timeouts.FirstByte, s.timeouts.Idle} {
		if p := sweepPeriod(t); p < c.period {
			c.period = p
			c.timer.Reset(p)
		}
	}
	n := c.taken(&s.stream, most)
	if fin && n == want {
		s.localEnd = true
		c.done.Add(1)
		s.sentAt = c.clock.Load()
	}
	return n, nil
}

// noteSent notes that the request has been sent to its end.
func (s *clientStream) noteSent() {
	s.c.mu.Lock()
	s.sentAt = s.c.clock.Load()
	s.c.mu.Unlock()
}

// appendRequest writes a request's fields; length is of the body, or -1.
func (c *ClientConn) appendRequest(b []byte, h *exchange.Head, length int64) []byte {
	protocol := h.Protocol()
	switch {
	case len(protocol) > 0:
		b = appendNamed(b, patternLiteral, staticMethod, "CONNECT")
	case h.Method == exchange.GET:
		b = appendIndexed(b, 2)
	case h.Method == exchange.POST:
		b = appendIndexed(b, 3)
	default:
		b = appendNamed(b, patternLiteral, staticMethod, h.MethodName())
	}
	if c.info.Secure {
		b = appendIndexed(b, 7)
	} else {
		b = appendIndexed(b, staticScheme)
	}
	b = appendNamed(b, patternLiteral, staticAuthority, h.Authority())
	b = appendNamed(b, patternLiteral, staticPath, h.Target())
	if len(protocol) > 0 {
		b = appendField(b, exchange.Unknown, []byte(":protocol"), protocol)
	}
	if length >= 0 && len(protocol) == 0 {
		b = appendContentLength(b, length)
	}
	if h.ExpectContinue && length != 0 {
		b = appendNamed(b, patternLiteral, int(staticByID[exchange.Expect]), "100-continue")
	}
	if h.TETrailers {
		b = appendField(b, exchange.TE, []byte("te"), []byte("trailers"))
	}
	if len(protocol) > 0 {
		return appendFields(b, h, exchange.SecWebSocketKey) // RFC 8441, section 5
	}
	return appendFields(b, h, exchange.Unknown)
}

// SendBody implements exchange.Call.
func (k *call) SendBody(body exchange.Source) error {
	s := k.s
	err := s.sendBody(body, body.Length())
	s.c.out.flush()
	var b *bodyError
	switch {
	case err == nil:
		s.noteSent()
		return nil
	case errors.As(err, &b):
		if s.c.kill(&s.stream, b.err, Cancel) {
			s.c.out.flush()
		}
		return b.err
	}
	return k.fail("send", err)
}

// ReadHead implements exchange.Call.
func (k *call) ReadHead(h *exchange.Head) error {
	s := k.s
	s.c.out.flush()
	s.in.mu.Lock()
	for s.taken == s.got && s.in.err == nil && !s.in.closed {
		s.in.ready.Wait()
	}
	if s.taken < s.got {
		// The heads change places, so that each keeps its memory.
		*h, s.heads[s.taken] = s.heads[s.taken], *h
		s.taken++
		s.in.mu.Unlock()
		return nil
	}
	err := s.in.err
	s.in.mu.Unlock()
	if err == nil {
		err = errBodyClosed
	}
	return k.fail("read head", err)
}

// Body implements exchange.Call.
func (k *call) Body() exchange.Source {
	s := k.s
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	if s.noBody {
		return nil
	}
	return &s.in
}

// Tunnel implements exchange.Call.
func (k *call) Tunnel() (exchange.Tunnel, error) {
	s := k.s
	if s.method != exchange.CONNECT {
		return nil, exchange.ErrTunnel
	}
	s.c.mu.Lock()
	s.stream.tunnel = true
	s.c.mu.Unlock()
	s.tun = tunnel{s: &s.stream}
	return &s.tun, nil
}

// Finish implements exchange.Call.
func (k *call) Finish() bool {
	k.mu.Lock()
	s := k.s
	k.s = nil
	k.mu.Unlock()
	if s == nil {
		return false
	}
	c := s.cc
	if s.id == 0 {
		c.mu.Lock()
		c.unlist(&s.stream)
		c.mu.Unlock()
	} else if c.kill(&s.stream, errStreamClosed, Cancel) {
		c.out.flush()
	}
	s.in.Close(nil)
	s.unref()
	return c.usable.Load()
}

// late tells whether a timeout of the call has passed. Under c.mu.
func (s *clientStream) late(now int64) bool {
	t := &s.timeouts
	if t.Idle > 0 && s.blocked > 0 && now-s.blocked > int64(t.Idle) {
		return true
	}
	s.in.mu.Lock()
	final, waiting := s.final, s.in.waiting
	s.in.mu.Unlock()
	if !final {
		return t.FirstByte > 0 && s.sentAt > 0 && now-s.sentAt > int64(t.FirstByte)
	}
	return t.Idle > 0 && waiting && now-s.active.Load() > int64(t.Idle)
}
