package transports

import (
	"bufio"
	"net"
	"net/netip"

	"github.com/hanzoai/pqgw/exchange"
	proxyproto "github.com/pires/go-proxyproto"
)

// readProxyHeader reads the PROXY header (v1 or v2) that a load balancer sends
// before all else, and lets info tell the client that it names. It returns what
// was read behind it.
func readProxyHeader(nc net.Conn, info *exchange.Conn) (early []byte, err error) {
	r := bufio.NewReader(nc)
	h, err := proxyproto.Read(r)
	if err != nil {
		return nil, err
	}
	if n := r.Buffered(); n > 0 {
		early, _ = r.Peek(n)
	}
	if h.Command.IsLocal() {
		return early, nil // the balancer's own: a health check
	}
	if src, dst, ok := h.TCPAddrs(); ok {
		info.Client, info.Local = unmapped(src), unmapped(dst)
	}
	return early, nil
}

func unmapped(a *net.TCPAddr) netip.AddrPort {
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
