package http3

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
)

// ClientOptions are what all connections to an endpoint share.
type ClientOptions struct {
	// Watch keeps the deadlines. Required.
	Watch *deadline.Watch
	// Limits on answers' heads and trailers; BodyBytes is not heeded.
	Limits exchange.Limits
}

// assumedStreams is how many calls a connection is taken to carry until the
// server shows that it takes fewer: quic-go does not tell the limit itself.
const assumedStreams = 100

// ClientConn is the client's side of one connection: an exchange.ClientConn that
// carries many calls.
type ClientConn struct {
	qc       *quic.Conn
	o        *ClientOptions
	info     *exchange.Conn
	peer     peerStreams
	capacity atomic.Int32
	active   atomic.Int32
	away     atomic.Bool // GOAWAY has come
	work     sync.WaitGroup

	known chan struct{} // closed when the server's SETTINGS have come
	peers settings      // then they are here

	mu    sync.Mutex
	limit quic.StreamID // calls from here on were not processed
	calls map[*clientStream]struct{}
}

// NewClientConn makes the client's side of qc, whose handshake has ended. The
// error is one of the connection.
func NewClientConn(qc *quic.Conn, info *exchange.Conn, o *ClientOptions) (*ClientConn, error) {
	c := &ClientConn{
		qc: qc, o: o, info: info, known: make(chan struct{}), limit: noLimit, calls: map[*clientStream]struct{}{},
	}
	c.capacity.Store(assumedStreams)
	str, err := qc.OpenUniStream()
	if err == nil {
		var room [64]byte
		_, err = str.Write(appendSettings(append(room[:0], streamControl), &o.Limits, false))
	}
	if err != nil {
		_ = qc.CloseWithError(quic.ApplicationErrorCode(InternalError), "")
		return nil, err
	}
	c.work.Go(c.acceptUni)
	return c, nil
}

func (c *ClientConn) acceptUni() {
	for {
		str, err := c.qc.AcceptUniStream(context.Background())
		if err != nil {
			return
		}
		c.work.Go(func() {
			if err := c.peer.read(str, false, c.controlFrame); err != nil {
				c.fail(err)
			}
		})
	}
}

// controlFrame acts on a frame of the server's control stream.
func (c *ClientConn) controlFrame(frame uint64, payload []byte) error {
	switch frame {
	case frameSettings:
		s, err := readSettings(payload)
		if err != nil {
			return err
		}
		c.peers = s
		close(c.known)
	case frameGoAway:
		id, n, err := quicvarint.Parse(payload)
		if err != nil || n != len(payload) {
			return connErr(FrameError, "GOAWAY without an id")
		}
		return c.goAway(quic.StreamID(id)) //nolint:gosec // 62 bits
	case framePushPromise:
		return connErr(FrameUnexpected, "PUSH_PROMISE on the control stream")
	}
	return nil
}

// goAway ends the calls that the server will not serve (RFC 9114, section 5.2).
func (c *ClientConn) goAway(id quic.StreamID) error {
	c.away.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if id%4 != 0 || id > c.limit {
		return connErr(IDError, "GOAWAY with an id that cannot be")
	}
	c.limit = id
	for s := range c.calls {
		if s.str.StreamID() >= id {
			s.rejected.Store(true)
			s.reset(RequestCancelled)
		}
	}
	return nil
}

// fail ends the connection for a fault of the server's.
func (c *ClientConn) fail(err error) {
	var e *ConnError
	if errors.As(err, &e) {
		_ = c.qc.CloseWithError(quic.ApplicationErrorCode(e.Code), e.Reason)
	}
}

// Call implements exchange.ClientConn.
func (c *ClientConn) Call() (exchange.Call, error) {
	if !c.Usable() {
		return nil, exchange.ErrConnClosed
	}
	str, err := c.qc.OpenStream()
	if err != nil {
		var full *quic.StreamLimitReachedError
		if errors.As(err, &full) {
			c.capacity.Store(max(1, c.active.Load()))
			return nil, exchange.ErrConnBusy
		}
		return nil, fmt.Errorf("%w: %w", exchange.ErrConnClosed, fromQUIC(err))
	}
	if n := c.capacity.Load(); n < assumedStreams && c.active.Load() >= n-1 {
		c.capacity.CompareAndSwap(n, n+1) // the server may allow more again
	}
	c.active.Add(1)
	return newCall(c, str), nil
}

// Capacity implements exchange.ClientConn.
func (c *ClientConn) Capacity() int { return int(c.capacity.Load()) }

// Usable implements exchange.ClientConn.
func (c *ClientConn) Usable() bool { return !c.away.Load() && c.qc.Context().Err() == nil }

// Info implements exchange.ClientConn.
func (c *ClientConn) Info() *exchange.Conn { return c.info }

// Close implements exchange.ClientConn.
func (c *ClientConn) Close() {
	_ = c.qc.CloseWithError(quic.ApplicationErrorCode(NoError), "")
	c.work.Wait()
}
