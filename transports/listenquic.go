package transports

import (
	"net"
	"strconv"
	"strings"
)

// Prepare binds what other settings need beside what is bound, before Update puts them
// in force. The error is a *BindError.
func (l *Listener) Prepare(s Settings) error {
	if s.QUIC == nil || l.quic.Load() != nil {
		return nil
	}
	q, err := l.bindQUIC(udpOf(l.address, l.ln))
	if err != nil {
		return &BindError{Listener: l.name, Address: l.address, Err: err}
	}
	l.quic.Store(q)
	return nil
}

// UDPAddr is the address that was bound for QUIC, nil without.
func (l *Listener) UDPAddr() net.Addr {
	if q := l.quic.Load(); q != nil {
		return q.udp.LocalAddr()
	}
	return nil
}

// serveQUIC takes QUIC connections, where that is wanted and not done yet.
func (l *Listener) serveQUIC() {
	q := l.quic.Load()
	if q == nil || q.ln != nil {
		return
	}
	if err := q.start(); err != nil {
		l.logger.Error("cannot serve QUIC", "listener", l.name, "error", err)
	}
}

// closeQUIC ends the UDP side once its connections have ended.
func (l *Listener) closeQUIC() {
	if q := l.quic.Load(); q != nil {
		q.once.Do(q.close)
	}
}

// altSvc tells clients over TCP of HTTP/3, "" where there is none.
func (l *Listener) altSvc(f *inForce) string {
	if q := l.quic.Load(); q != nil && f.QUIC != nil && f.speaks3 {
		return q.altSvc
	}
	return ""
}

// wantedBuffer is the size of socket buffers that quic-go asks the system for: bursts
// of a fast path fit into them while the reader is busy.
const wantedBuffer = 7 << 20

// checkBuffers tells where the system did not let quic-go have them.
func (l *Listener) checkBuffers(udp *net.UDPConn) {
	receive, send, ok := socketBuffers(udp)
	if !ok || receive >= wantedBuffer && send >= wantedBuffer {
		return
	}
	l.logger.Warn("UDP buffers are small: QUIC may lose packets in bursts",
		"listener", l.name, "receive", receive, "send", send, "wanted", wantedBuffer,
		"hint", "sysctl -w net.core.rmem_max="+strconv.Itoa(wantedBuffer)+" net.core.wmem_max="+strconv.Itoa(wantedBuffer))
}

// udpOf is the address for the UDP socket beside a TCP one: same host, same port.
func udpOf(address string, tcp net.Listener) string {
	if tcp == nil {
		return address
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return net.JoinHostPort(host, strconv.Itoa(addrPortOf(tcp)))
}

func addrPortOf(tcp net.Listener) int {
	if a, ok := tcp.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// isAny tells an address whose port the system chooses.
func isAny(address string) bool { return strings.HasSuffix(address, ":0") }
