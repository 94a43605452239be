package transports

import (
	"encoding/binary"
	"net"
	"runtime"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// groupedUDP is a UDP socket on which the kernel hands datagrams of one sender
// over in groups (UDP_GRO, Linux 5.0), where it would otherwise cut up what the
// sender's GSO and the NIC have kept together, and copy each by itself. quic-go,
// which knows nothing of that, reads single datagrams from it; it has but one
// reader.
type groupedUDP struct {
	*net.UDPConn
	socket *ipv4.PacketConn // of both IP versions: only its reading of several messages is used
	groups []ipv4.Message   // as the kernel gave them
	n      int              // of them came in the last read
	at     int              // the one that is being given out
	off    int              // bytes of it that were given out
	size   int              // of its datagrams but the last
	given  int              // datagrams since others had the CPU
}

const (
	// maxGroup is what the largest group takes: that of an IP packet.
	maxGroup = 64 << 10
	// Groups for one system call: a listener's socket serves many connections, a client's one.
	listenGroups, dialGroups = 4, 2
	// groupControl holds the control messages of a group: its size, ECN and the local
	// address by both IP versions.
	groupControl = 192
	// turnAfter is how many datagrams are given out before the connections get a
	// turn: quic-go drops what exceeds 256 that a connection has not looked at.
	turnAfter = 64
)

// grouped lets the kernel group what arrives on a socket, up to so many groups
// for one read. Where the kernel cannot, the socket is as it was.
func grouped(udp *net.UDPConn, groups int) net.PacketConn {
	raw, err := udp.SyscallConn()
	if err != nil {
		return udp
	}
	var refused error
	err = raw.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1) })
	if err != nil || refused != nil {
		return udp
	}
	g := &groupedUDP{UDPConn: udp, socket: ipv4.NewPacketConn(udp), groups: make([]ipv4.Message, groups)}
	for i := range g.groups {
		g.groups[i].Buffers = [][]byte{make([]byte, maxGroup)}
		g.groups[i].OOB = make([]byte, groupControl)
	}
	return g
}

// ReadBatch fills messages with a datagram each; quic-go looks for this method.
func (g *groupedUDP) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	if g.at == g.n {
		if err := g.read(flags); err != nil {
			return 0, err
		}
	}
	n := 0
	for n < len(ms) && g.at < g.n {
		g.give(&ms[n])
		n++
	}
	g.given += n
	return n, nil
}

func (g *groupedUDP) read(flags int) error {
	if g.given >= turnAfter {
		g.given = 0
		runtime.Gosched()
	}
	g.n, g.at = 0, 0
	n, err := g.socket.ReadBatch(g.groups, flags)
	if err != nil {
		return err
	}
	g.n = n
	g.begin()
	return nil
}

// begin looks at the size of the datagrams of the group at hand.
func (g *groupedUDP) begin() {
	if g.at == g.n {
		return
	}
	m := &g.groups[g.at]
	g.off, g.size = 0, m.N
	var size int
	if m.NN, size = withoutSize(m.OOB[:m.NN]); size > 0 {
		g.size = size
	}
}

// give gives the next datagram out, cut off where the reader has no room for
// more, as a socket does.
func (g *groupedUDP) give(to *ipv4.Message) {
	m := &g.groups[g.at]
	end := min(g.off+g.size, m.N)
	to.N = copy(to.Buffers[0], m.Buffers[0][g.off:end])
	to.NN = copy(to.OOB, m.OOB[:m.NN])
	to.Addr, to.Flags = m.Addr, m.Flags
	if g.off = end; end == m.N {
		g.at++
		g.begin()
	}
}

// withoutSize takes the message of the kernel that tells the size of a group's
// datagrams out of control messages. It returns the length of the others, and the
// size, 0 if it was not told: a datagram alone.
func withoutSize(control []byte) (length, size int) {
	for rest := control; len(rest) > 0; {
		head, body, more, err := unix.ParseOneSocketControlMessage(rest)
		if err != nil {
			return length, size
		}
		if head.Level == unix.IPPROTO_UDP && head.Type == unix.UDP_GRO && len(body) >= 4 {
			size = int(binary.NativeEndian.Uint32(body))
		} else {
			length += copy(control[length:], rest[:len(rest)-len(more)])
		}
		rest = more
	}
	return length, size
}
