package transports

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports/http3"
	"github.com/hanzoai/pqgw/transports/zap"
	"github.com/hanzoai/pqgw/transports/zaprpc"
)

// quicAttempt is a QUIC connection from its first packet to its end, as the
// listener accounts for it.
type quicAttempt struct {
	q       *quicSide
	f       *inForce
	ctx     context.Context //nolint:containedctx // the handshake's, which explains how it ended
	client  netip.AddrPort
	permit  handshake.Permit
	settled atomic.Bool // the handshake is over
	qc      atomic.Pointer[quic.Conn]
	peer    atomic.Pointer[string] // the name that was proven, where identities are
	unwatch func() bool
}

type attemptKey struct{}

func attemptOf(ctx context.Context) *quicAttempt {
	a, _ := ctx.Value(attemptKey{}).(*quicAttempt)
	return a
}

// attempt is called by quic-go with the first packet of a connection, behind
// Retry where there was one. An error refuses it.
func (q *quicSide) attempt(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
	l := q.l
	f := l.inForce.Load()
	if f.QUIC == nil {
		return nil, errNoQUIC
	}
	a := &quicAttempt{q: q, f: f, client: udpAddrPort(info.RemoteAddr)}
	l.series.Opened()
	if f.Connections > 0 && l.series.Open() > int64(f.Connections) {
		l.series.Refused("too_many_connections")
		l.series.Closed()
		return nil, errTooManyConnections
	}
	if f.Handshakes != nil {
		var err error
		if a.permit, err = f.Handshakes.Acquire(a.client.Addr()); err != nil {
			l.handshakeRefused(err, a.info())
			l.series.Closed()
			return nil, err
		}
	}
	a.ctx = handshake.Watch(ctx)
	q.underWay.Add(1)
	l.wg.Add(1)
	q.mu.Lock()
	q.attempts[a] = struct{}{}
	q.mu.Unlock()
	a.unwatch = context.AfterFunc(ctx, func() { a.ended(context.Cause(ctx)) })
	return context.WithValue(a.ctx, attemptKey{}, a), nil
}

type refusedConnection string

func (e refusedConnection) Error() string { return string(e) }

const errTooManyConnections = refusedConnection("limit on connections reached")

// settle notes that the handshake is over; false where it was already.
func (a *quicAttempt) settle() bool {
	if a.settled.Swap(true) {
		return false
	}
	a.permit.Release()
	a.q.underWay.Add(-1)
	return true
}

// ended is called once, when the connection is over.
func (a *quicAttempt) ended(err error) {
	q := a.q
	defer q.l.wg.Done()
	if !a.completed() && a.settle() {
		q.l.handshakeRefused(a.f.QUIC.TLS.Refuse(a.ctx, alertOf(err)), a.info())
	}
	q.mu.Lock()
	delete(q.attempts, a)
	q.mu.Unlock()
	q.l.series.Closed()
}

// info is what is known of the connection without its handshake.
func (a *quicAttempt) info() *exchange.Conn {
	return &exchange.Conn{
		Listener: a.q.l.name, Protocol: exchange.HTTP3, Client: a.client, ClientText: a.client.Addr().String(),
		Local: udpAddrPort(a.q.udp.LocalAddr()), Trusted: contains(a.f.Trusted, a.client.Addr()),
	}
}

// full is info with the facts as they are now.
func (a *quicAttempt) full(qc *quic.Conn) *exchange.Conn {
	info := a.info()
	state := qc.ConnectionState().TLS
	info.Secure, info.Facts = true, a.f.QUIC.TLS.Facts(a.ctx, &state)
	if peer := a.peer.Load(); peer != nil {
		info.Facts.PeerName, info.Facts.PQIdentity = *peer, true
	}
	return info
}

// serve serves a connection: at once where it may bring early data, else when its handshake
// has ended.
func (q *quicSide) serve(qc *quic.Conn, a *quicAttempt) {
	if a.f.QUIC.EarlyData && a.f.QUIC.TLS.Identity() == nil {
		q.l.wg.Go(func() { a.await(qc) })
	} else if !a.await(qc) {
		return
	}
	if !a.identify(qc) {
		return
	}
	switch handshake.BaseProtocol(qc.ConnectionState().TLS.NegotiatedProtocol) {
	case http3.ALPN:
		q.serveHTTP3(qc, a)
	case zap.ALPN:
		q.serveZAPStreams(qc, a)
	case zaprpc.ALPN:
		q.serveRPC(qc, a)
	default:
		_ = qc.CloseWithError(0, "")
	}
}

// await waits for the end of the handshake; false where it came to nothing.
func (a *quicAttempt) await(qc *quic.Conn) bool {
	select {
	case <-qc.HandshakeComplete():
	case <-qc.Context().Done():
	}
	return a.completed()
}

// completed notes the end of a handshake that went well; false where it has not.
func (a *quicAttempt) completed() bool {
	qc := a.qc.Load()
	if qc == nil {
		return false
	}
	select {
	case <-qc.HandshakeComplete():
	default:
		return false
	}
	if a.settle() {
		facts := a.full(qc).Facts
		a.q.l.series.Handshake(&facts)
	}
	return true
}

// alertOf gives the alert that a client ended the handshake with the form that
// crypto/tls gives it over TCP.
func alertOf(err error) error {
	var e *quic.TransportError
	if errors.As(err, &e) && e.Remote && e.ErrorCode.IsCryptoError() {
		return &net.OpError{Op: "remote error", Err: tls.AlertError(e.ErrorCode)} //nolint:gosec // the low byte is the alert
	}
	return err
}

// serveRPC serves calls until the connection ends. They wait for the end of the
// handshake: there is no early data.
func (q *quicSide) serveRPC(qc *quic.Conn, a *quicAttempt) {
	if !a.await(qc) || !a.f.speaksRPC {
		_ = qc.CloseWithError(0, "")
		return
	}
	info := a.full(qc)
	info.Protocol = exchange.ZAP
	c := zaprpc.NewQUICConn(qc, info, &a.f.rpc)
	if !q.l.track(c) {
		c.Close()
		return
	}
	_ = c.Serve()
	q.l.untrack(c)
}

func (q *quicSide) serveHTTP3(qc *quic.Conn, a *quicAttempt) {
	o := a.f.h3
	o.Workers = q.workers
	c := http3.NewConn(qc, func() *exchange.Conn { return a.full(qc) }, &o)
	if !q.l.track(c) {
		c.Close()
		return
	}
	err := c.Serve()
	q.l.untrack(c)
	info := a.info()
	info.Protocol = exchange.HTTP3
	q.l.ended(err, info)
}

func udpAddrPort(a net.Addr) netip.AddrPort {
	u, ok := a.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := u.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
