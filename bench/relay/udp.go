package relay

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	datagram = 64 << 10 // the largest there is
	inFlight = 4096     // datagrams on the line in one direction; more are lost, as on a real one
)

// UDP forwards datagrams to a target and its answers back, for any number of
// clients. It ends with Close.
type UDP struct {
	delay  time.Duration // one way
	target *net.UDPAddr
	conn   *net.UDPConn
	wg     sync.WaitGroup

	mu      sync.Mutex
	clients map[netip.AddrPort]*route
	closed  bool
}

// route is one client's way to the target.
type route struct {
	server *net.UDPConn
	there  chan parcel
}

// ListenUDP relays a port of the loopback to target, with a round trip time
// of rtt.
func ListenUDP(target string, rtt time.Duration) (*UDP, error) {
	to, err := net.ResolveUDPAddr("udp", target)
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	r := &UDP{delay: rtt / 2, target: to, conn: conn, clients: make(map[netip.AddrPort]*route)}
	r.wg.Go(r.read)
	return r, nil
}

// Addr is where to send to.
func (r *UDP) Addr() string { return r.conn.LocalAddr().String() }

// Close ends the relay; what is under way is lost.
func (r *UDP) Close() error {
	err := r.conn.Close()
	r.mu.Lock()
	r.closed = true
	for _, c := range r.clients {
		_ = c.server.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
	return err
}

func (r *UDP) read() {
	buf := make([]byte, datagram)
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, c := range r.clients {
			close(c.there)
		}
	}()
	for {
		n, from, err := r.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		c := r.client(from)
		if c == nil {
			return
		}
		send(c.there, buf[:n], r.delay)
	}
}

// client is the route of a client, made at its first datagram; nil when the
// relay is closed or the system has no sockets left.
func (r *UDP) client(from netip.AddrPort) *route {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.clients[from]; c != nil || r.closed {
		return c
	}
	server, err := net.DialUDP("udp", nil, r.target)
	if err != nil {
		return nil
	}
	c := &route{server: server, there: make(chan parcel, inFlight)}
	r.clients[from] = c
	r.wg.Go(func() { deliver(c.there, func(b []byte) { _, _ = server.Write(b) }) })
	r.wg.Go(func() { r.back(server, from) })
	return c
}

// back carries the target's answers to one client.
func (r *UDP) back(server *net.UDPConn, to netip.AddrPort) {
	line := make(chan parcel, inFlight)
	defer close(line)
	r.wg.Go(func() { deliver(line, func(b []byte) { _, _ = r.conn.WriteToUDPAddrPort(b, to) }) })
	buf := make([]byte, datagram)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		send(line, buf[:n], r.delay)
	}
}

func send(line chan<- parcel, data []byte, delay time.Duration) {
	select {
	case line <- parcel{append([]byte(nil), data...), time.Now().Add(delay)}:
	default: // the line is full
	}
}

func deliver(line <-chan parcel, write func([]byte)) {
	for p := range line {
		time.Sleep(time.Until(p.due))
		write(p.data)
	}
}
