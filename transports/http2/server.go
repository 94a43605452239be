package http2

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/section"
)

// Options are what all connections of a listener share. Durations of 0 never
// end.
type Options struct {
	// Handler serves the exchanges.
	Handler exchange.Handler
	// Limits on requests.
	Limits exchange.Limits
	// MaxStreams is the most requests at a time on a connection; 0 stands for
	// DefaultMaxStreams.
	MaxStreams int
	// MaxResets is how many streams may be reset in a burst before the connection
	// ends with ENHANCE_YOUR_CALM; 0 stands for DefaultMaxResets.
	MaxResets int
	// StreamWindow and ConnWindow are how many bytes of request bodies one stream and all
	// together may send ahead of the handlers, and so bound what a connection makes us hold; 0
	// stands for DefaultStreamWindow and DefaultConnWindow.
	StreamWindow, ConnWindow int
	// HeadTimeout is the longest from a connection's first byte to its SETTINGS, and
	// from the first byte of a head to its last.
	HeadTimeout time.Duration
	// IdleTimeout closes a connection without a request.
	IdleTimeout time.Duration
	// StreamIdle ends an exchange that waits for the client while nothing moves.
	StreamIdle time.Duration
	// WriteTimeout ends a stream for which the client makes no room, and a
	// connection that it does not read from; 0 stands for StreamIdle.
	WriteTimeout time.Duration
	// BodyMinRate is the slowest a request body may arrive, in bytes per second; 0
	// for any. It counts after ten seconds of waiting, until the answer has begun.
	BodyMinRate int64
	// MaxRequests ends the connection in good order after so many; 0 for never.
	MaxRequests int
}

// Defaults of Options.
const (
	DefaultMaxStreams   = 250
	DefaultStreamWindow = 512 << 10
	DefaultConnWindow   = 2 << 20
)

// Conn is the server's side of one connection. Serve runs it; Shutdown and Close
// may be called from elsewhere.
type Conn struct {
	conn
	o          *Options
	info       *exchange.Conn
	maxStreams int
	awaiting   int // streams that began to wait for a body since none did; the reader's own

	// Under mu.
	last      uint32 // highest stream that is or was served
	seen      uint32 // highest stream that the client has opened
	open      int    // streams that count against maxStreams
	requests  int
	idleSince int64
	drain     drainState
	drainAt   int64 // coarse time of the first GOAWAY
	parked    []*worker
	workers   int
}

// drainState is how far the end in good order has come.
type drainState uint8

const (
	drainNot     drainState = iota
	drainAsked              // GOAWAY with the highest id: new requests may still be on their way
	drainFinal              // GOAWAY with the last stream that is served
	drainStopped            // no stream is left: the connection may close
)

// NewConn makes the server's side of nc. read are bytes of the connection that were
// read already.
func NewConn(nc net.Conn, info *exchange.Conn, o *Options, read []byte) *Conn {
	c := &Conn{o: o, info: info, maxStreams: orDefault(o.MaxStreams, DefaultMaxStreams)}
	c.conn.server = true
	c.conn.limits = &o.Limits
	c.conn.streamWindow = int64(orDefault(o.StreamWindow, DefaultStreamWindow))
	c.conn.connWindow = max(initialWindow, int64(orDefault(o.ConnWindow, DefaultConnWindow)))
	c.conn.writeTimeout = o.WriteTimeout
	if o.WriteTimeout == 0 {
		c.conn.writeTimeout = o.StreamIdle
	}
	c.conn.budget.maxReset = o.MaxResets
	c.conn.period = sweepPeriod(o.HeadTimeout, o.IdleTimeout, o.StreamIdle, c.conn.writeTimeout)
	c.conn.init(nc, c)
	_ = c.out.end(c.appendPreface(c.out.begin())) // cannot fail yet
	if len(read) > 0 {
		c.in.first = append([]byte(nil), read...)
	}
	return c
}

func orDefault(n, def int) int {
	if n <= 0 {
		return def
	}
	return n
}

// sweepPeriod is how often deadlines are looked at: a second, or more often
// where one of them is short.
func sweepPeriod(timeouts ...time.Duration) time.Duration {
	p := time.Second
	for _, t := range timeouts {
		if t > 0 {
			p = min(p, max(t/4, 10*time.Millisecond))
		}
	}
	return p
}

// Serve serves nc until it ends: see NewConn and Conn.Serve.
func Serve(nc net.Conn, info *exchange.Conn, o *Options) error {
	return NewConn(nc, info, o, nil).Serve()
}

// Serve serves the connection until it ends, closes it, and returns once every
// handler has. The error is nil where the connection ended in good order.
func (c *Conn) Serve() error {
	c.arm()
	err := c.readPreface()
	for err == nil {
		err = c.readFrame()
	}
	return c.finish(err)
}

// readPreface reads the client's preface and sends our own (RFC 9113, section 3.4).
func (c *Conn) readPreface() error {
	c.partial.Store(c.clock.Load())
	c.added = true // our own preface
	for n := 1; n <= len(preface); {
		p, err := c.peek(n)
		if err != nil {
			return err
		}
		if string(p) != preface[:n] {
			return connErr(ProtocolError, "the connection preface is not valid")
		}
		n = max(n+1, min(len(preface), len(c.in.buffered())))
		if len(p) == len(preface) {
			break
		}
	}
	c.in.r += len(preface)
	return nil
}

func (c *Conn) appendPreface(b []byte) []byte {
	const settings = 5
	b = appendFrameHeader(b, settings*settingLen, frameSettings, 0, connectionStream)
	b = appendSetting(b, settingMaxStreams, uint32(c.maxStreams))
	b = appendSetting(b, settingInitialWindow, uint32(c.streamWindow))
	b = appendSetting(b, settingMaxHeaderListSize, c.headerListSize())
	b = appendSetting(b, settingEnableConnect, 1)
	b = appendSetting(b, settingNoRFC7540Priorities, 1)
	if n := c.connWindow - initialWindow; n > 0 {
		b = appendWindowUpdate(b, connectionStream, uint32(n))
	}
	return b
}

// headerListSize is our limit on heads as HTTP/2 counts it, which is 32 bytes a
// field where HTTP/1 takes four.
func (c *conn) headerListSize() uint32 {
	return uint32(c.limits.HeadBytes + (entryOverhead-section.FieldOverhead)*c.limits.Fields)
}

// settled implements endpoint.
func (c *Conn) settled() {}

// finish ends the connection for err and cleans up.
func (c *Conn) finish(err error) error {
	c.mu.Lock()
	stopped, last := c.drain == drainStopped, c.last
	cut := c.fatal == nil && !stopped && (c.in.w > c.in.r || c.blockID != 0)
	if c.fatal != nil {
		err = c.fatal
	}
	c.mu.Unlock()
	if !stopped {
		c.sayGoAway(last, err)
	}
	gone := err
	if !isConnError(err) {
		gone = exchange.ErrClientGone
	}
	c.die(gone)
	c.endWorkers()
	if stopped || isConnError(err) {
		c.linger()
	}
	c.out.fail(errConnClosed)
	c.nc.Close()
	c.work.Wait()
	c.in.releaseBig()
	if cut && !isConnError(err) && !errors.Is(err, net.ErrClosed) {
		return &exchange.CutError{Reason: exchange.CutHead, Err: err}
	}
	if stopped || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func isConnError(err error) bool {
	var e *ConnError
	return errors.As(err, &e)
}

// Shutdown ends the connection in good order: the client is told to send no
// more, what is on its way and what runs is served, then Serve returns.
func (c *Conn) Shutdown() {
	c.mu.Lock()
	if c.drain != drainNot || c.dead != nil {
		c.mu.Unlock()
		return
	}
	c.drain = drainAsked
	c.drainAt = c.tell()
	if c.timer != nil {
		c.asleep = false
		c.timer.Reset(c.period)
	}
	c.mu.Unlock()
	// The PING's answer tells that the client has read the GOAWAY before it.
	b := appendGoAway(c.out.begin(), maxStreamID, NoError, "")
	if c.out.end(appendPing(b, 0, drainPing)) == nil && c.hold() {
		go func() {
			defer c.work.Done()
			c.out.flush()
		}()
	}
}

var drainPing = []byte("draining")

// drainWait is how long a client may take to answer the PING behind GOAWAY.
const drainWait = time.Second

// pong implements endpoint.
func (c *Conn) pong(data []byte) {
	if string(data) == string(drainPing) {
		c.drainFurther()
	}
}

// drainFurther refuses whatever the client may open from now on.
func (c *Conn) drainFurther() {
	c.mu.Lock()
	if c.drain != drainAsked {
		c.mu.Unlock()
		return
	}
	c.drain = drainFinal
	last := c.last
	c.mu.Unlock()
	_ = c.out.end(appendGoAway(c.out.begin(), last, NoError, ""))
	c.mu.Lock()
	c.stopIfDrained()
	c.mu.Unlock()
	if c.hold() {
		go func() {
			defer c.work.Done()
			c.out.flush()
		}()
	}
}

// stopIfDrained lets the reader end once nothing is left to serve. Under mu.
func (c *Conn) stopIfDrained() {
	if c.drain != drainFinal || c.workers > len(c.parked) || c.open > 0 || c.dead != nil {
		return
	}
	c.drain = drainStopped
	c.work.Add(1)
	go func() {
		defer c.work.Done()
		c.out.flushWait()
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}()
}

// Close cuts the connection.
func (c *Conn) Close() { _ = c.nc.Close() }

// goAway implements endpoint: a client that goes away only stops opening streams.
func (c *Conn) goAway(uint32, ErrCode, string) {}

// setting implements endpoint.
func (c *Conn) setting(settingID, uint32) {}

// idle implements endpoint: the client opens the odd streams, in order.
func (c *Conn) idle(id uint32) bool { return id > c.seen || id%2 == 0 }

// unlisted implements endpoint.
func (c *Conn) unlisted(*stream) {
	c.open--
	if c.open == 0 {
		c.idleSince = c.clock.Load()
		c.stopIfDrained()
	}
}
