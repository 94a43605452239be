package http3

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
)

// clientStream is a stream of a client: a request and its answer.
type clientStream struct {
	stream
	c        *ClientConn
	dec      decoder
	timeouts exchange.Timeouts
	method   exchange.Method
	req      *exchange.Head
	answered bool // bytes of an answer have come
	noBody   bool // it has no body
	tun      tunnel

	sent      atomic.Bool // the request was sent to its end
	final     atomic.Bool // the final head has come
	rejected  atomic.Bool // by GOAWAY
	cancelled atomic.Pointer[error]
}

var clientStreams = sync.Pool{New: func() any {
	s := new(clientStream)
	s.in.own, s.in.dec = s, &s.dec
	s.entry = deadline.Entry{FD: -1, Expire: s.expire}
	return s
}}

// call is an exchange.Call. It is made anew each time, since its canceller may
// still be called by someone when the stream serves another call.
type call struct {
	canceller exchange.Canceller
	mu        sync.Mutex
	s         *clientStream // nil once finished
}

func newCall(c *ClientConn, str *quic.Stream) *call {
	s := clientStreams.Get().(*clientStream) //nolint:forcetypeassert // nothing else is put there
	s.c, s.str, s.watch = c, str, c.o.Watch
	s.in.str, s.in.lim, s.in.length = str, &c.o.Limits, -1
	s.answered, s.noBody, s.req = false, false, nil
	s.sent.Store(false)
	s.final.Store(false)
	s.rejected.Store(false)
	s.cancelled.Store(nil)
	c.mu.Lock()
	c.calls[s] = struct{}{}
	c.mu.Unlock()
	s.watch.Add(&s.entry)
	k := &call{s: s}
	k.canceller.Cancel = k.cancel
	return k
}

// Canceller implements exchange.Call.
func (k *call) Canceller() *exchange.Canceller { return &k.canceller }

func (k *call) cancel(reason error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.s; s != nil {
		s.cancelled.Store(&reason)
		s.reset(RequestCancelled)
	}
}

// cause makes of an error of the stream what the gateway decides on.
func (s *clientStream) cause(err error) error {
	if r := s.cancelled.Load(); r != nil {
		return *r
	}
	if s.rejected.Load() {
		return fmt.Errorf("%w: %w", exchange.ErrNotSent, err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return exchange.ErrTimeout
	}
	err = fromQUIC(err)
	var e *StreamError
	if errors.As(err, &e) && e.Remote && e.Code == RequestRejected {
		return fmt.Errorf("%w: %w", exchange.ErrNotSent, err)
	}
	return err
}

// fail names what was being done.
func (s *clientStream) fail(op string, err error) error {
	return &exchange.UpstreamError{Op: op, Answered: s.answered, Err: s.cause(err)}
}

// awaiting implements owner.
func (s *clientStream) awaiting(int64) {
	if !s.final.Load() && s.sent.Load() {
		s.limit(s.timeouts.FirstByte)
	} else {
		s.limit(s.timeouts.Idle)
	}
}

// arrived implements owner.
func (s *clientStream) arrived() {}

// failed implements owner.
func (s *clientStream) failed(err error) error { return s.fail("read body", err) }

// fault implements owner.
func (s *clientStream) fault(err error) {
	var r *exchange.Refusal
	if errors.As(err, &r) {
		s.reset(MessageError)
		return
	}
	s.c.fail(err)
}

// stopReading implements owner.
func (s *clientStream) stopReading() { s.str.CancelRead(quic.StreamErrorCode(RequestCancelled)) }

// Send implements exchange.Call.
func (k *call) Send(x *exchange.Exchange, body exchange.Source, t exchange.Timeouts) error {
	s := k.s
	s.timeouts, s.idle, s.method, s.req = t, t.Idle, x.Request.Method, &x.Request
	connect := len(x.Request.Protocol()) > 0
	if connect {
		if err := s.awaitConnect(t); err != nil {
			return s.fail("send", err)
		}
		s.method = exchange.CONNECT
	}
	out := outs.Get().(*[]byte) //nolint:forcetypeassert // nothing else is put there
	defer putOut(out)
	w := writer{s: &s.stream, out: out, left: requestLength(&x.Request, body)}
	whole, fin := []byte(nil), body == nil && !connect
	if body != nil {
		if p, ok := body.Whole(); ok {
			whole, fin, w.left = p, true, int64(len(p))
		}
	}
	*out = endHeaders(appendRequest(beginHeaders((*out)[:0]), &x.Request, w.left), 0)
	var err error
	if fin {
		w.left = max(0, w.left)
		w.begin()
		err = w.piece(whole, true, nil)
		s.sent.Store(true)
	} else {
		err = w.flush()
	}
	// A server that stops reading may have answered: ReadHead finds out.
	if err != nil && !stopped(err) {
		return s.fail("send", err)
	}
	return nil
}

// stopped tells that the server reads no more of a request, which is no failure
// (RFC 9114, section 4.1).
func stopped(err error) bool {
	var e *quic.StreamError
	return errors.As(err, &e) && e.Remote && ErrCode(e.ErrorCode) == NoError
}

// requestLength is the Content-Length to send, -1 for none.
func requestLength(h *exchange.Head, body exchange.Source) int64 {
	switch {
	case body != nil:
		return body.Length()
	case h.Method == exchange.POST, h.Method == exchange.PUT, h.Method == exchange.PATCH:
		return 0
	}
	return -1
}

// connectWait bounds the wait for SETTINGS where the call has no timeout.
const connectWait = 15 * time.Second

// awaitConnect waits for the upstream's SETTINGS, which tell whether it offers
// extended CONNECT (RFC 9220, section 3).
func (s *clientStream) awaitConnect(t exchange.Timeouts) error {
	wait := t.FirstByte
	if wait == 0 {
		wait = connectWait
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.c.known:
	case <-s.c.qc.Context().Done():
		return fmt.Errorf("%w: %w", exchange.ErrNotSent, context.Cause(s.c.qc.Context()))
	case <-timer.C:
		return exchange.ErrTimeout
	}
	if !s.c.peers.connect {
		return exchange.ErrTunnel
	}
	return nil
}

// appendRequest writes a request's fields; length is of the body, or -1.
func appendRequest(b []byte, h *exchange.Head, length int64) []byte {
	protocol := h.Protocol()
	switch i := staticMethods[h.Method]; {
	case len(protocol) > 0:
		b = appendIndexed(b, staticMethods[exchange.CONNECT]-1)
	case i != 0:
		b = appendIndexed(b, i-1)
	default:
		b = appendNamed(b, patternNamed, staticMethod, h.MethodName())
	}
	b = appendIndexed(b, staticScheme+1) // https
	b = appendNamed(b, patternNamed, staticAuthority, h.Authority())
	b = appendNamed(b, patternNamed, staticPath, h.Target())
	if len(protocol) > 0 {
		b = appendOther(b, ":protocol", protocol)
	} else if length >= 0 {
		b = appendContentLength(b, length)
	}
	if h.ExpectContinue && length != 0 {
		b = appendOther(b, "expect", "100-continue")
	}
	if h.TETrailers {
		b = appendOther(b, "te", "trailers")
	}
	if len(protocol) > 0 {
		h.Remove(exchange.SecWebSocketKey) // RFC 8441, section 5
	}
	return appendFields(b, h)
}

// SendBody implements exchange.Call.
func (k *call) SendBody(body exchange.Source) error {
	s := k.s
	out := outs.Get().(*[]byte) //nolint:forcetypeassert // nothing else is put there
	defer putOut(out)
	*out = (*out)[:0]
	w := writer{s: &s.stream, out: out, left: body.Length()}
	w.begin()
	err := w.pull(body)
	var b *bodyError
	switch {
	case errors.As(err, &b):
		s.reset(RequestCancelled)
		return b.err
	case err != nil && !stopped(err):
		return s.fail("send", err)
	}
	s.sent.Store(true)
	if err == nil {
		s.limit(s.timeouts.FirstByte)
	}
	if s.final.Load() { // came first
		s.limit(s.timeouts.Idle)
	}
	return nil
}

// ReadHead implements exchange.Call.
func (k *call) ReadHead(h *exchange.Head) error {
	s := k.s
	s.awaiting(0)
	block, err := s.headBlock()
	if err != nil {
		if isEOF(err) {
			err = errTruncated
		}
		s.fault(err)
		return s.fail("read head", err)
	}
	s.answered = true
	r, err := readResponse(&s.dec, h, s.req, block, &s.c.o.Limits)
	if err == nil && r != nil {
		err = r
	}
	if err != nil {
		s.fault(err)
		return s.fail("read head", err)
	}
	if h.Status >= 200 {
		s.begun(h)
	}
	return nil
}

// headBlock waits for the next HEADERS frame.
func (s *clientStream) headBlock() ([]byte, error) {
	in := &s.in
	for {
		frame, n, err := in.header()
		switch {
		case err != nil:
			return nil, err
		case frame == frameHeaders && n > uint64(maxSection(in.lim)): //nolint:gosec // positive
			return nil, exchange.RefuseHeadSize
		case frame == frameHeaders:
			return in.payload(int(n)) //nolint:gosec // bounded above
		case unexpected(frame):
			return nil, connErr(FrameUnexpected, "an answer does not begin with HEADERS")
		}
		if err := in.skip(n); err != nil {
			return nil, err
		}
	}
}

// begun sets the body up behind the final head.
func (s *clientStream) begun(h *exchange.Head) {
	s.final.Store(true)
	s.limit(s.timeouts.Idle)
	if s.method == exchange.CONNECT && h.Status < 300 {
		return
	}
	in := &s.in
	if s.noBody = exchange.NoBody(s.method, h.Status); s.noBody {
		return
	}
	in.length = h.Length
	if s.noBody = in.ended() && in.length <= 0; !s.noBody {
		in.wholeAlready()
	}
}

// Body implements exchange.Call.
func (k *call) Body() exchange.Source {
	if k.s.noBody {
		return nil
	}
	return &k.s.in
}

// Tunnel implements exchange.Call.
func (k *call) Tunnel() (exchange.Tunnel, error) {
	s := k.s
	if s.method != exchange.CONNECT || !s.final.Load() {
		return nil, exchange.ErrTunnel
	}
	s.tun = tunnel{s: &s.stream, out: s.tun.out[:0]}
	return &s.tun, nil
}

// Finish implements exchange.Call. What is not at its end is reset, which leaves
// the connection as it is.
func (k *call) Finish() bool {
	k.mu.Lock()
	s := k.s
	k.s = nil
	k.mu.Unlock()
	if s == nil {
		return false
	}
	c := s.c
	if s.str.Context().Err() == nil {
		s.str.CancelWrite(quic.StreamErrorCode(RequestCancelled))
	}
	s.str.CancelRead(quic.StreamErrorCode(RequestCancelled)) // nothing, where all was read
	c.mu.Lock()
	delete(c.calls, s)
	c.mu.Unlock()
	c.active.Add(-1)
	s.watch.Remove(&s.entry)
	s.in.reset()
	s.req = nil
	if !s.entry.Expired() {
		s.limit(0)
		s.c, s.str, s.in.str = nil, nil, nil
		clientStreams.Put(s)
	}
	return c.Usable()
}
