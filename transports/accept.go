package transports

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/telemetry"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/stream"
)

// workersKept is how many goroutines wait for the next connection to shake hands
// with. Their stacks have grown to what a handshake needs; a connection goes on in a goroutine
// of its own, whose stack is small while it idles.
const workersKept = 64

// acceptPause is how long accepting rests when the system has run out of
// descriptors.
const acceptPause = 50 * time.Millisecond

// accept takes connections until the socket is closed.
func (l *Listener) accept() {
	defer close(l.idle)
	kept := 0
	for {
		nc, err := l.ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			l.logger.Warn("cannot accept connections", "listener", l.name, "error", err, "hint", "raise the limit on open files")
			time.Sleep(acceptPause)
			continue
		}
		f := l.inForce.Load()
		l.series.Opened()
		if f.Connections > 0 && l.series.Open() > int64(f.Connections) {
			l.refuse(nc, "too_many_connections")
			continue
		}
		a := accepted{Conn: nc, client: addrPort(nc.RemoteAddr())}
		if !l.admit(&a, f) {
			continue
		}
		select {
		case l.idle <- a:
		default:
			keep := kept < workersKept
			if keep {
				kept++
			}
			l.wg.Go(func() { l.work(a, keep) })
		}
	}
}

// accepted is a connection on its way from the socket to a worker.
type accepted struct {
	net.Conn
	client   netip.AddrPort
	admitted bool // its handshake may begin, by the permit
	permit   handshake.Permit
}

// admit asks for leave to shake hands before anything else is spent on a connection:
// in a flood nearly all end here. Behind a PROXY header it is not known yet who asks.
func (l *Listener) admit(a *accepted, f *inForce) bool {
	if f.TLS == nil || f.Handshakes == nil || contains(f.ProxyFrom, a.client.Addr()) {
		return true
	}
	var err error
	if a.permit, err = f.Handshakes.Acquire(a.client.Addr()); err != nil {
		l.handshakeRefused(err, &exchange.Conn{ClientText: clientText(a.client)})
		l.series.Closed()
		_ = a.Close()
		return false
	}
	a.admitted = true
	return true
}

// clientText is how log lines name a client.
func clientText(client netip.AddrPort) string {
	if !client.IsValid() {
		return "unix"
	}
	return client.Addr().String()
}

func (l *Listener) refuse(nc net.Conn, reason string) {
	l.series.Refused(reason)
	l.series.Closed()
	_ = nc.Close()
}

// work opens a connection, and where it is kept waits for the next.
func (l *Listener) work(a accepted, keep bool) {
	for ok := true; ok; a, ok = <-l.idle {
		l.open(a)
		if !keep {
			return
		}
	}
}

// opening is a connection that shakes hands.
type opening struct{ nc net.Conn }

func (o *opening) Shutdown() {}
func (o *opening) Close()    { _ = o.nc.Close() }

// open brings a connection to where requests can come, and lets another
// goroutine serve them.
func (l *Listener) open(a accepted) {
	defer func() { a.permit.Release() }()
	f := l.inForce.Load()
	info := &exchange.Conn{Listener: l.name, AltSvc: l.altSvc(f)}
	info.Client, info.Local = a.client, addrPort(a.LocalAddr())
	o := &opening{nc: a.Conn}
	if !l.track(o) {
		l.refuse(a.Conn, "closing")
		return
	}
	s, err := l.prepare(&a, f, info)
	l.untrack(o)
	if err != nil {
		l.series.Closed()
		_ = a.Close()
		return
	}
	l.wg.Go(func() { l.serve(s, info, f) })
}

// prepare reads what comes before the first request: the PROXY header, the
// handshake.
func (l *Listener) prepare(a *accepted, f *inForce, info *exchange.Conn) (*stream.Stream, error) {
	nc := a.Conn
	entry := deadline.Entry{FD: -1, Expire: func() { _ = nc.SetDeadline(time.Unix(1, 0)) }}
	l.watch.Add(&entry)
	l.watch.Set(&entry, f.HandshakeTimeout)
	defer l.watch.Remove(&entry)
	var early []byte
	if contains(f.ProxyFrom, info.Client.Addr()) {
		var err error
		if early, err = readProxyHeader(nc, info); err != nil {
			l.series.Refused("bad_proxy_header")
			l.logger.Warn("bad PROXY header", "listener", l.name, "peer", nc.RemoteAddr().String(), "error", err)
			return nil, err
		}
	}
	info.ClientText = clientText(info.Client)
	info.Trusted = contains(f.Trusted, neighbour(info.Client.Addr()))
	s := &stream.Stream{Sock: stream.NewSocket(nc, f.Portable, early)}
	if f.TLS == nil {
		l.series.Clear()
		return s, nil
	}
	if err := l.handshake(s, a, f, info); err != nil {
		return nil, err
	}
	if !l.watch.Set(&entry, 0) {
		return nil, context.DeadlineExceeded
	}
	return s, nil
}

func (l *Listener) handshake(s *stream.Stream, a *accepted, f *inForce, info *exchange.Conn) (err error) {
	if f.Handshakes != nil && !a.admitted {
		if a.permit, err = f.Handshakes.Acquire(info.Client.Addr()); err != nil {
			l.handshakeRefused(err, info)
			return err
		}
	}
	s.TLS = tls.Server(s.Sock, f.TLS.Config())
	facts, err := f.TLS.Handshake(context.Background(), s.TLS)
	if err != nil {
		l.handshakeRefused(err, info)
		return err
	}
	if facts.ALPN == handshake.ALPNChallenge {
		return errChallenge
	}
	info.Secure, info.Facts = true, facts
	l.series.Handshake(&facts)
	return nil
}

// errChallenge ends a connection on which an issuer's challenge was answered: it
// was never one of a client.
var errChallenge = errors.New("a challenge was answered")

func (l *Listener) handshakeRefused(err error, info *exchange.Conn) {
	r := telemetry.HandshakeRecord{Time: time.Now(), Listener: l.name, Client: info.ClientText, Detail: err.Error()}
	var refused *handshake.RefusedError
	if errors.As(err, &refused) {
		r.Reason, r.SNI = refused.Reason, refused.SNI
		r.ALPN, r.Groups = refused.ALPN, refused.Groups
	}
	l.series.HandshakeRefused(r.Reason)
	l.log.Load().Handshake(&r)
}

// neighbour is the address by which a client is trusted or not: one that came by a unix
// socket is on this machine.
func neighbour(a netip.Addr) netip.Addr {
	if !a.IsValid() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return a
}

// contains tells whether one of the networks has the address.
func contains(nets []netip.Prefix, a netip.Addr) bool {
	for _, n := range nets {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// addrPort is the address of a TCP socket, IPv4 in its own form; the zero value on
// others.
func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
