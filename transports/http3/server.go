package http3

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
)

// ALPN is the protocol's id (RFC 9114, section 3.1).
const ALPN = "h3"

// Options are what all connections of a listener share. Durations of 0 never
// end.
type Options struct {
	// Handler serves the exchanges.
	Handler exchange.Handler
	// Workers run the handlers; their owner closes them after the connections. Required.
	Workers *Workers
	// Watch keeps the deadlines. Required.
	Watch *deadline.Watch
	// Limits on requests.
	Limits exchange.Limits
	// MaxStreams is how many streams at a time QUIC lets the client have.
	MaxStreams int
	// HeadTimeout is the longest from a stream's first byte to the end of the head.
	HeadTimeout time.Duration
	// IdleTimeout ends a connection without a request in good order, though it be
	// kept alive by the client.
	IdleTimeout time.Duration
	// StreamIdle ends an exchange that waits for the client while nothing moves.
	StreamIdle time.Duration
	// WriteTimeout ends a stream whose client makes no room for what waits to be sent; 0 stands for
	// StreamIdle.
	WriteTimeout time.Duration
	// BodyMinRate is the slowest a request body may arrive, in bytes per second; 0
	// for any. It counts after ten seconds of waiting, until the answer has begun.
	BodyMinRate int64
	// MaxRequests ends the connection in good order after so many; 0 for never.
	MaxRequests int
}

// Conn is the server's side of one connection. Serve runs it; Shutdown and Close
// may be called from elsewhere.
type Conn struct {
	qc          *quic.Conn
	o           *Options
	info        func() *exchange.Conn
	full, early onceConn
	control     *quic.SendStream
	entry       deadline.Entry
	peer        peerStreams
	work        sync.WaitGroup // streams that are served, and readers of the client's other streams

	mu       sync.Mutex
	active   int
	requests int
	next     quic.StreamID // lowest that the client has not opened yet
	draining bool
	last     quic.StreamID  // streams from here on are not served; set once
	over     bool           // no goroutine may begin any more
	held     []*quic.Stream // streams that have ended, whose places are not given back yet
	closed   chan struct{}  // the connection is over; ends drain
	idle     chan struct{}  // told when a drain waits and nothing is active
}

// noLimit stands for no GOAWAY, and is what the first one says (RFC 9114, section 5.2).
const noLimit = quic.StreamID(1<<62 - 4)

// onceConn are the facts that requests of one kind have in common.
type onceConn struct {
	once sync.Once
	info *exchange.Conn
}

// NewConn makes the server's side of qc. info gives the connection's facts as they
// are known at the time; it is asked once at the first request after the
// handshake, and once at the first before its end (0-RTT), whose facts are marked
// so: then it must not give the same memory twice.
func NewConn(qc *quic.Conn, info func() *exchange.Conn, o *Options) *Conn {
	c := &Conn{qc: qc, o: o, info: info, last: noLimit, closed: make(chan struct{}), idle: make(chan struct{}, 1)}
	c.entry = deadline.Entry{FD: -1, Expire: c.Shutdown}
	return c
}

// Serve serves the connection until it ends, closes it, and returns once every
// handler has. The error is nil where the connection ended in good order.
func (c *Conn) Serve() error {
	c.o.Watch.Add(&c.entry)
	c.o.Watch.Set(&c.entry, c.o.IdleTimeout)
	err := c.open()
	if err == nil {
		c.work.Go(c.acceptUni)
		err = c.acceptRequests()
	}
	c.o.Watch.Remove(&c.entry)
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	close(c.closed)
	_ = c.qc.CloseWithError(quic.ApplicationErrorCode(NoError), "")
	c.work.Wait()
	return orderly(err)
}

// orderly is nil for ways to end that are no fault.
func orderly(err error) error {
	var app *quic.ApplicationError
	var idle *quic.IdleTimeoutError
	switch {
	case errors.As(err, &app) && (ErrCode(app.ErrorCode) == NoError || app.Remote && app.ErrorCode == 0):
		return nil
	case errors.As(err, &idle):
		return nil
	}
	return fromQUIC(err)
}

// open sends SETTINGS (RFC 9114, section 7.2.4; RFC 9220, section 5).
func (c *Conn) open() error {
	str, err := c.qc.OpenUniStream()
	if err != nil {
		return err
	}
	var room [64]byte
	b := append(room[:0], streamControl)
	if _, err = str.Write(appendSettings(b, &c.o.Limits, true)); err != nil {
		return err
	}
	c.mu.Lock()
	c.control = str
	c.mu.Unlock()
	return nil
}

func (c *Conn) acceptRequests() error {
	for {
		str, err := c.qc.AcceptStream(context.Background())
		if err != nil {
			return err
		}
		if !c.admit(str) {
			str.CancelRead(quic.StreamErrorCode(RequestRejected))
			str.CancelWrite(quic.StreamErrorCode(RequestRejected))
			str.ReleaseStreamCredit()
			continue
		}
		c.o.Workers.serve(c.newStream(str))
	}
}

// admit counts a stream in; false where it comes after GOAWAY.
func (c *Conn) admit(str *quic.Stream) bool {
	c.mu.Lock()
	if str.StreamID() >= c.last {
		c.mu.Unlock()
		return false
	}
	c.next = str.StreamID() + 4
	if c.active++; c.active == 1 {
		c.o.Watch.Set(&c.entry, 0)
	}
	c.requests++
	c.work.Add(1)
	enough := c.o.MaxRequests > 0 && c.requests == c.o.MaxRequests
	c.mu.Unlock()
	if enough {
		c.Shutdown()
	}
	return true
}

// heldStreams is for how many streams at once the client is told that it may open
// more: each time is a packet of ours, and one that acknowledges it.
const heldStreams = 8

// leave counts a stream out.
func (c *Conn) leave(str *quic.Stream) {
	var release [heldStreams]*quic.Stream
	n := 0
	c.mu.Lock()
	c.held = append(c.held, str)
	// While many run, the client may be waiting for a place.
	if len(c.held) == heldStreams || c.active > heldStreams || c.o.MaxStreams < 4*heldStreams {
		n = copy(release[:], c.held)
		clear(c.held)
		c.held = c.held[:0]
	}
	if c.active--; c.active == 0 {
		if c.last != noLimit { // before that the drain does not wait, and more may come
			select {
			case c.idle <- struct{}{}:
			default:
			}
		} else if !c.draining {
			c.o.Watch.Set(&c.entry, c.o.IdleTimeout)
		}
	}
	c.mu.Unlock()
	for _, s := range release[:n] {
		s.ReleaseStreamCredit()
	}
	c.work.Done()
}

// conn gives the facts for a request that begins now.
func (c *Conn) conn() *exchange.Conn {
	select {
	case <-c.qc.HandshakeComplete():
		c.full.once.Do(func() { c.full.info = c.info() })
		return c.full.info
	default:
		c.early.once.Do(func() {
			c.early.info = c.info()
			c.early.info.Facts.EarlyData = true
		})
		return c.early.info
	}
}

// fail ends the connection for a fault of the client's.
func (c *Conn) fail(err error) {
	var e *ConnError
	if errors.As(err, &e) {
		_ = c.qc.CloseWithError(quic.ApplicationErrorCode(e.Code), e.Reason)
	}
}

// Close cuts the connection.
func (c *Conn) Close() { _ = c.qc.CloseWithError(quic.ApplicationErrorCode(NoError), "") }

// Shutdown ends the connection in good order: the client is told to send no
// more, what is on its way and what runs is served, then Serve returns.
func (c *Conn) Shutdown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.draining && !c.over {
		c.draining = true
		c.work.Go(c.drain)
	}
}

// Times of a drain.
const (
	drainPause = 50 * time.Millisecond  // between the two GOAWAYs, and as long as the path takes
	quiet      = 200 * time.Millisecond // without a packet of ours before all counts as arrived
	quietLimit = 5 * time.Second
)

// drain is the goroutine of Shutdown; it ends with the connection.
func (c *Conn) drain() {
	c.goAway(noLimit)
	// Requests that the client sent before it knew arrive within a round trip.
	if !pause(max(drainPause, 2*c.qc.ConnectionStats().SmoothedRTT), c.closed) {
		return
	}
	c.mu.Lock()
	c.last = c.next
	last, idle := c.last, c.active == 0
	c.mu.Unlock()
	c.goAway(last)
	if !idle {
		select {
		case <-c.idle:
		case <-c.closed:
			return
		}
	}
	Settle(c.qc, c.closed)
	c.Close()
}

// pause waits; false where the connection ended first.
func pause(d time.Duration, closed <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-closed:
		return false
	}
}

// Settle waits until what was written last has arrived, or the connection is
// over: closing a QUIC connection drops what has not. Nothing tells of acknowledgements, but what
// is lost is sent again within a few round trips; so silence of ours means it. ZAP over
// QUIC ends by it as well.
func Settle(qc *quic.Conn, closed <-chan struct{}) {
	sent := uint64(0)
	for began := time.Now(); time.Since(began) < quietLimit; {
		stats := qc.ConnectionStats()
		if stats.PacketsSent == sent {
			return
		}
		sent = stats.PacketsSent
		if !pause(max(quiet, 3*(stats.SmoothedRTT+4*stats.MeanDeviation)), closed) {
			return
		}
	}
}

// goAway says which streams are still served: those below id.
func (c *Conn) goAway(id quic.StreamID) {
	c.mu.Lock()
	str := c.control
	c.mu.Unlock()
	if str == nil {
		return
	}
	var room [16]byte
	b := append(room[:0], frameGoAway, byte(quicvarint.Len(uint64(id))))
	// An error is one of the connection, which is about to end anyhow.
	_ = str.TryWriteAll(quicvarint.Append(b, uint64(id)))
}

// Workers are goroutines that serve streams one after the other, so that their
// stacks need not grow anew for each. The zero value is not usable: see NewWorkers.
type Workers struct {
	idle chan *serverStream
	kept atomic.Int32
	wg   sync.WaitGroup
}

// workersKept is how many of them wait for streams when there are none.
const workersKept = 128

// NewWorkers makes a pool; Close ends it.
func NewWorkers() *Workers { return &Workers{idle: make(chan *serverStream)} }

// Close ends the workers that wait, and waits for the others. No connection may
// be served any more.
func (w *Workers) Close() {
	close(w.idle)
	w.wg.Wait()
}

func (w *Workers) serve(s *serverStream) {
	select {
	case w.idle <- s:
	default:
		w.wg.Go(func() { w.run(s) })
	}
}

func (w *Workers) run(s *serverStream) {
	keep := w.kept.Add(1) <= workersKept
	if !keep {
		w.kept.Add(-1)
	}
	for ok := true; ok; s, ok = <-w.idle {
		s.serve()
		if !keep {
			return
		}
	}
}
