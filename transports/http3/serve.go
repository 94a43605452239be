package http3

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
)

// bodyGrace is how long a body may take before its rate counts.
const bodyGrace = 10 * time.Second

// lingerTime is how long an answer that says that time is up may take.
const lingerTime = 5 * time.Second

// serverStream is a stream of a server: an exchange and its answer.
type serverStream struct {
	stream
	c      *Conn
	dec    decoder
	x      exchange.Exchange
	sink   sink
	tunnel tunnel

	from   int64         // when the last wait for the body began, by the watch
	waited time.Duration // by the body's reader, in all
	code   ErrCode       // for asking the client to send no more

	started   atomic.Bool
	continued atomic.Bool
	finished  bool // the answer has been sent to its end
	aborted   atomic.Bool
}

var serverStreams = sync.Pool{New: func() any {
	s := new(serverStream)
	s.in.own, s.in.dec = s, &s.dec
	s.moved = &s.x.BytesOut
	s.entry = deadline.Entry{FD: -1, Expire: s.expire, Gone: s.lost, Poll: s.poll}
	return s
}}

func (c *Conn) newStream(str *quic.Stream) *serverStream {
	s := serverStreams.Get().(*serverStream) //nolint:forcetypeassert // nothing else is put there
	s.c, s.str, s.watch, s.idle = c, str, c.o.Watch, c.o.StreamIdle
	s.stall = c.o.WriteTimeout
	s.in.str, s.in.lim = str, &c.o.Limits
	s.from, s.waited, s.code, s.gone = 0, 0, NoError, false
	s.started.Store(false)
	s.continued.Store(false)
	s.aborted.Store(false)
	s.finished = false
	return s
}

// serve reads the request, lets the handler serve it, and cleans up.
func (s *serverStream) serve() {
	c := s.c
	s.limit(c.o.HeadTimeout)
	s.watch.Add(&s.entry)
	s.x.Reset(c.conn())
	s.x.Response.Reset(nil)
	s.x.Responder = s
	if s.readRequest() {
		s.limit(s.idle)
		s.watch.Ask(&s.entry)
		c.o.Handler.Serve(&s.x)
		s.entry.Unask()
		s.finish()
	}
	s.watch.Remove(&s.entry)
	str := s.str
	s.in.reset()
	s.x.Body = nil
	// What the watch has begun to tell may still come: then the stream is left as it is.
	if !s.entry.Expired() && !s.gone {
		s.limit(0)
		s.c, s.str, s.in.str = nil, nil, nil
		serverStreams.Put(s)
	}
	c.leave(str)
}

// poll tells the watch whether the client is gone. Under the watch's lock.
func (s *serverStream) poll() bool {
	if ctx := s.str.Context(); ctx.Err() != nil && !byUs(context.Cause(ctx)) {
		s.gone = true
	}
	return s.gone
}

// byUs tells whether a stream's sending side was ended by us.
func byUs(cause error) bool {
	var e *quic.StreamError
	return errors.Is(cause, quic.ErrStreamClosed) || errors.As(cause, &e) && !e.Remote
}

// lost is called by the watch when the client is gone.
func (s *serverStream) lost() { s.x.Cancel(exchange.ErrClientGone) }

// readRequest reads the head and what body can be had at once; false where there
// is nothing to serve.
func (s *serverStream) readRequest() bool {
	block, r, err := s.headBlock()
	s.x.Start = time.Now()
	if err == nil && r == nil {
		r, err = readRequest(&s.dec, &s.x.Request, block, &s.c.o.Limits)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.revive()
		r, err = exchange.RefuseSlowHead, nil
	}
	if errors.Is(err, errTruncated) {
		err = connErr(FrameError, errTruncated.Error())
	}
	if err != nil {
		s.fault(err)
		s.reset(RequestIncomplete)
		return false
	}
	if block == nil {
		s.x.Request.Reset(nil)
	}
	q := &s.x.Request
	if r == nil && s.x.Conn.Facts.EarlyData && !early(q.Method) {
		r = RefuseEarly
	}
	s.x.Refusal = r
	if r != nil && r.Status == 400 {
		s.code = MessageError
	}
	return s.readBody()
}

// RefuseEarly is the verdict on a request that must not come as early data (RFC
// 8470, section 5.2).
var RefuseEarly = &exchange.Refusal{Status: 425, Reason: "too_early", Text: "this method is not served from early data; send it again after the handshake"}

// early tells which methods are served from early data, which an attacker can replay.
func early(m exchange.Method) bool {
	return m == exchange.GET || m == exchange.HEAD || m == exchange.OPTIONS
}

// headBlock waits for the HEADERS frame of a request.
func (s *serverStream) headBlock() ([]byte, *exchange.Refusal, error) {
	in := &s.in
	for {
		frame, n, err := in.header()
		switch {
		case err != nil:
			return nil, nil, err
		case frame == frameHeaders && n > uint64(maxSection(in.lim)):
			return nil, exchange.RefuseHeadSize, nil
		case frame == frameHeaders:
			block, err := in.payload(int(n))
			if block == nil && err == nil {
				block = []byte{}
			}
			return block, nil, err
		case unexpected(frame):
			return nil, nil, connErr(FrameUnexpected, "a request does not begin with HEADERS")
		}
		if err := in.skip(n); err != nil {
			return nil, nil, err
		}
	}
}

// readBody sets the body up: none, whole or to be streamed.
func (s *serverStream) readBody() bool {
	q, in := &s.x.Request, &s.in
	in.length, in.limit = -1, 0
	if s.x.Refusal != nil || len(q.Protocol()) > 0 {
		return true
	}
	in.length, in.limit, in.count = q.Length, s.c.o.Limits.BodyBytes, &s.x.BytesIn
	if in.length <= 0 && !q.ExpectContinue && bodiless(q.Method) {
		// The end of the stream may follow in a packet of its own.
		for !in.ended() && in.buffered() == 0 && in.err == nil {
			in.err = in.moreOrEnd(maxHeader)
		}
		if in.err == exchange.RefuseSlowBody { //nolint:errorlint // the value itself
			s.x.Refusal = exchange.RefuseSlowHead
			return true
		}
	}
	if in.ended() {
		return s.noBody()
	}
	s.x.Body = in
	switch {
	case q.ExpectContinue:
		in.first = s.sendContinue
	case q.Length > 0 && q.Length <= wholeBody:
		in.gather()
	}
	return s.present()
}

// noBody is readBody where the stream has ended behind the head.
func (s *serverStream) noBody() bool {
	if s.in.length > 0 {
		s.x.Refusal, s.code = exchange.RefuseBodyLength, MessageError
	}
	s.x.Request.ExpectContinue = false
	return true
}

// present tells whether the client is still there after a wait for its body.
func (s *serverStream) present() bool {
	var r *exchange.Refusal
	if err := s.in.err; err == nil || isEOF(err) || errors.As(err, &r) {
		return true
	}
	s.reset(RequestCancelled)
	return false
}

// bodiless tells methods whose requests hardly ever have a body, so that the
// end of the request is worth waiting for: an upstream would be told of one.
func bodiless(m exchange.Method) bool {
	return m.Safe() || m == exchange.DELETE
}

// awaiting implements owner: it sets the time for the next bytes.
func (s *serverStream) awaiting(got int64) {
	s.from = s.watch.Now()
	s.limit(s.patience(got))
}

// patience is how long the client may take for the next bytes.
func (s *serverStream) patience(got int64) time.Duration {
	q, o := &s.x.Request, s.c.o
	switch {
	case len(q.Protocol()) > 0:
		return s.idle
	case s.x.Body == nil:
		return o.HeadTimeout // only the end of the request is missing
	case o.BodyMinRate <= 0, s.started.Load(), q.TETrailers:
		// Streams of gRPC are long and may be silent; they ask for trailers.
		return s.idle
	}
	allowed := bodyGrace + time.Duration(got/o.BodyMinRate)*time.Second
	return max(time.Millisecond, allowed-s.waited)
}

// arrived implements owner.
func (s *serverStream) arrived() {
	s.waited += time.Duration(s.watch.Now()-s.from) * time.Millisecond
	s.limit(s.idle)
}

// failed implements owner.
func (s *serverStream) failed(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.revive()
		return exchange.RefuseSlowBody
	}
	s.x.Cancel(exchange.ErrClientGone)
	return errors.Join(exchange.ErrClientGone, fromQUIC(err))
}

// revive leaves time for an answer after the deadline has passed.
func (s *serverStream) revive() { _ = s.str.SetWriteDeadline(time.Now().Add(lingerTime)) }

// fault implements owner.
func (s *serverStream) fault(err error) {
	var r *exchange.Refusal
	if errors.As(err, &r) {
		s.code = MessageError
		return
	}
	s.c.fail(err)
}

// stopReading implements owner.
func (s *serverStream) stopReading() { s.str.CancelRead(quic.StreamErrorCode(NoError)) }

// finish ends the stream after its handler has returned.
func (s *serverStream) finish() {
	switch {
	case s.aborted.Load():
	case !s.started.Load(), !s.finished:
		s.cut(InternalError)
	default:
		// Does nothing where all of the request has been read.
		s.str.CancelRead(quic.StreamErrorCode(s.code))
	}
}

// cut ends the exchange so that the client sees that it is not whole.
func (s *serverStream) cut(code ErrCode) {
	s.aborted.Store(true)
	s.reset(code)
}
