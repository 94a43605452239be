package transports

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/http3"
	"github.com/hanzoai/pqgw/transports/stream"
	"github.com/hanzoai/pqgw/transports/zap"
)

// zapServer is the server's side of ZAP over one QUIC connection: each stream that the
// client opens carries exchanges one after the other, as a TCP connection does.
type zapServer struct {
	qc    *quic.Conn
	info  *exchange.Conn
	o     *zap.Options
	entry deadline.Entry // of a connection without a stream

	mu       sync.Mutex
	streams  map[*zap.Conn]struct{}
	draining bool
	over     bool
	wg       sync.WaitGroup
	left     chan struct{} // told when a drain waits and no stream is left
	closed   chan struct{}
}

// serveZAPStreams serves a connection until it ends. Requests wait for the end of the
// handshake: there is no early data.
func (q *quicSide) serveZAPStreams(qc *quic.Conn, a *quicAttempt) {
	if !a.await(qc) {
		return
	}
	info := a.full(qc)
	info.Protocol = exchange.ZAP
	o := a.f.zap
	o.MaxRequests = 0 // of a connection, which a stream is not
	c := &zapServer{
		qc: qc, info: info, o: &o, streams: map[*zap.Conn]struct{}{},
		left: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	c.entry = deadline.Entry{FD: -1, Expire: c.Shutdown}
	if !q.l.track(c) {
		c.Close()
		return
	}
	c.serve()
	q.l.untrack(c)
}

func (c *zapServer) serve() {
	c.o.Watch.Add(&c.entry)
	c.o.Watch.Set(&c.entry, c.o.IdleTimeout)
	defer c.o.Watch.Remove(&c.entry)
	for {
		str, err := c.qc.AcceptStream(context.Background())
		if err != nil {
			break
		}
		zc := c.admit(str)
		if zc == nil {
			str.CancelRead(zapRejected)
			str.CancelWrite(zapRejected)
			str.ReleaseStreamCredit()
			continue
		}
		c.wg.Go(func() {
			_ = zc.Serve()
			str.ReleaseStreamCredit()
			c.leave(zc)
		})
	}
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	close(c.closed)
	c.wg.Wait()
}

// admit makes a connection of a stream; nil where no more are taken.
func (c *zapServer) admit(str *quic.Stream) *zap.Conn {
	s := &stream.Stream{Sock: stream.NewSocket(&quicStream{Stream: str, qc: c.qc}, true, nil)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return nil
	}
	zc := zap.NewConn(s, c.info, -1, c.o)
	if len(c.streams) == 0 {
		c.o.Watch.Set(&c.entry, 0)
	}
	c.streams[zc] = struct{}{}
	return zc
}

func (c *zapServer) leave(zc *zap.Conn) {
	c.mu.Lock()
	delete(c.streams, zc)
	if len(c.streams) == 0 {
		c.o.Watch.Set(&c.entry, c.o.IdleTimeout)
	}
	if c.draining && len(c.streams) == 0 {
		select {
		case c.left <- struct{}{}:
		default:
		}
	}
	c.mu.Unlock()
}

// Shutdown implements conn: streams end behind the exchange that they carry.
func (c *zapServer) Shutdown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining || c.over {
		return
	}
	c.draining = true
	for zc := range c.streams {
		zc.Shutdown()
	}
	if len(c.streams) == 0 {
		c.left <- struct{}{}
	}
	c.wg.Go(c.drain)
}

// drain is the goroutine of Shutdown; it ends with the connection.
func (c *zapServer) drain() {
	select {
	case <-c.left:
		http3.Settle(c.qc, c.closed)
		c.Close()
	case <-c.closed:
	}
}

// Close implements conn.
func (c *zapServer) Close() { _ = c.qc.CloseWithError(0, "") }

// zapClient is the client's side of ZAP over one QUIC connection: a pool of
// streams, each with one exchange at a time. It is an exchange.ClientConn that
// carries many calls.
type zapClient struct {
	qc       *quic.Conn
	info     *exchange.Conn
	o        *zap.ClientOptions
	capacity atomic.Int32
	active   atomic.Int32

	mu   sync.Mutex
	idle []idleStream // the most recently used last
}

type idleStream struct {
	c     *zap.ClientConn
	since int64 // by the watch, in milliseconds
}

const (
	// zapStreams is how many calls a connection is taken to carry until the server
	// shows that it takes fewer: quic-go does not tell the limit itself.
	zapStreams = 100
	// streamIdle is after how long an unused stream is not used again: well before a
	// server ends it.
	streamIdle = 30 * time.Second
)

func newZAPClient(qc *quic.Conn, info *exchange.Conn, o *zap.ClientOptions) *zapClient {
	c := &zapClient{qc: qc, info: info, o: o}
	c.capacity.Store(zapStreams)
	return c
}

// Call implements exchange.ClientConn.
func (c *zapClient) Call() (exchange.Call, error) {
	if !c.Usable() {
		return nil, exchange.ErrConnClosed
	}
	zc := c.take()
	if zc == nil {
		var err error
		if zc, err = c.open(); err != nil {
			return nil, err
		}
	}
	inner, err := zc.Call()
	if err != nil {
		zc.Close()
		return nil, err
	}
	c.active.Add(1)
	k := &zapCall{Call: inner, c: c, zc: zc}
	k.canceller.Cancel = k.cancel
	return k, nil
}

// take gives a stream that is not in use, nil where there is none.
func (c *zapClient) take() *zap.ClientConn {
	for {
		c.mu.Lock()
		n := len(c.idle) - 1
		if n < 0 {
			c.mu.Unlock()
			return nil
		}
		s := c.idle[n]
		c.idle[n] = idleStream{}
		c.idle = c.idle[:n]
		c.mu.Unlock()
		if s.c.Usable() && c.o.Watch.Now()-s.since < streamIdle.Milliseconds() {
			return s.c
		}
		s.c.Close()
	}
}

func (c *zapClient) open() (*zap.ClientConn, error) {
	str, err := c.qc.OpenStream()
	if err != nil {
		var full *quic.StreamLimitReachedError
		if errors.As(err, &full) {
			c.capacity.Store(max(1, c.active.Load()))
			return nil, exchange.ErrConnBusy
		}
		return nil, fmt.Errorf("%w: %w", exchange.ErrConnClosed, err)
	}
	if n := c.capacity.Load(); n < zapStreams && c.active.Load() >= n-1 {
		c.capacity.CompareAndSwap(n, n+1) // the server may allow more again
	}
	s := &stream.Stream{Sock: stream.NewSocket(&quicStream{Stream: str, qc: c.qc, client: true}, true, nil)}
	return zap.NewClientConn(s, c.info, c.o), nil
}

// put keeps a stream for another call.
func (c *zapClient) put(zc *zap.ClientConn) {
	now := c.o.Watch.Now()
	c.mu.Lock()
	var old *zap.ClientConn
	if len(c.idle) > 0 && now-c.idle[0].since >= streamIdle.Milliseconds() {
		old = c.idle[0].c
		c.idle = append(c.idle[:0], c.idle[1:]...)
	}
	c.idle = append(c.idle, idleStream{zc, now})
	c.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// Capacity implements exchange.ClientConn.
func (c *zapClient) Capacity() int { return int(c.capacity.Load()) }

// Usable implements exchange.ClientConn.
func (c *zapClient) Usable() bool { return c.qc.Context().Err() == nil }

// Info implements exchange.ClientConn.
func (c *zapClient) Info() *exchange.Conn { return c.info }

// Close implements exchange.ClientConn.
func (c *zapClient) Close() {
	_ = c.qc.CloseWithError(0, "")
	c.mu.Lock()
	idle := c.idle
	c.idle = nil
	c.mu.Unlock()
	for _, s := range idle {
		s.c.Close()
	}
}

// zapCall is a call on a stream of the pool. It is made anew each time, since its
// canceller may still be called by someone when the stream carries another.
type zapCall struct {
	exchange.Call
	c         *zapClient
	canceller exchange.Canceller
	mu        sync.Mutex
	zc        *zap.ClientConn // nil once finished
}

// Canceller implements exchange.Call.
func (k *zapCall) Canceller() *exchange.Canceller { return &k.canceller }

func (k *zapCall) cancel(reason error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.zc != nil {
		k.zc.Canceller().Cancel(reason)
	}
}

// Finish implements exchange.Call. What is not at its end is reset, which leaves
// the connection as it is.
func (k *zapCall) Finish() bool {
	k.mu.Lock()
	zc := k.zc
	k.zc = nil
	k.mu.Unlock()
	if zc == nil {
		return false
	}
	k.c.active.Add(-1)
	if k.Call.Finish() && zc.Usable() {
		k.c.put(zc)
	} else {
		zc.Close()
	}
	return k.c.Usable()
}

// ReadHead implements exchange.Call.
func (k *zapCall) ReadHead(h *exchange.Head) error { return unprocessed(k.Call.ReadHead(h)) }

// Send implements exchange.Call.
func (k *zapCall) Send(x *exchange.Exchange, body exchange.Source, t exchange.Timeouts) error {
	return unprocessed(k.Call.Send(x, body, t))
}

// unprocessed marks the error of a stream that the server says it has not looked at.
func unprocessed(err error) error {
	var e *quic.StreamError
	var up *exchange.UpstreamError
	if err != nil && errors.As(err, &e) && e.Remote && e.ErrorCode == zapRejected && errors.As(err, &up) {
		return &exchange.UpstreamError{Op: up.Op, Answered: up.Answered, Err: fmt.Errorf("%w: %w", exchange.ErrNotSent, up.Err)}
	}
	return err
}
