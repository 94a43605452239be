package handshakes

import (
	"net"
	"sync/atomic"
)

// countedConn counts what passes above the socket; the kernel counts its
// segments.
type countedConn struct {
	net.Conn
	up, down int
}

// Read counts what came.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.down += n
	return n, err
}

// Write counts what went.
func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.up += n
	return n, err
}

func (c *countedConn) traffic() (traffic, error) {
	up, down, err := segments(c.Conn)
	return traffic{BytesUp: float64(c.up), BytesDown: float64(c.down), PacketsUp: float64(up), PacketsDown: float64(down)}, err
}

// countedPackets counts datagrams. Around it quic-go sends them one by one,
// so none is counted as part of another.
type countedPackets struct {
	net.PacketConn
	bytesUp, bytesDown, up, down atomic.Int64
}

// ReadFrom counts a datagram that came.
func (c *countedPackets) ReadFrom(p []byte) (int, net.Addr, error) {
	n, from, err := c.PacketConn.ReadFrom(p)
	if err == nil {
		c.down.Add(1)
		c.bytesDown.Add(int64(n))
	}
	return n, from, err
}

// WriteTo counts a datagram that went.
func (c *countedPackets) WriteTo(p []byte, to net.Addr) (int, error) {
	n, err := c.PacketConn.WriteTo(p, to)
	if err == nil {
		c.up.Add(1)
		c.bytesUp.Add(int64(n))
	}
	return n, err
}

func (c *countedPackets) traffic() traffic {
	return traffic{
		BytesUp: float64(c.bytesUp.Load()), BytesDown: float64(c.bytesDown.Load()),
		PacketsUp: float64(c.up.Load()), PacketsDown: float64(c.down.Load()),
	}
}
