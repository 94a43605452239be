package serial

import (
	"net"
	"time"

	"github.com/hanzoai/pqgw/transports/buffer"
)

// lingerTime bounds how long a closing connection goes on reading what the client
// still sends, so that our answer is not lost to a reset (RFC 9112, section 9.6).
const lingerTime = 5 * time.Second

// lingerBytes bounds how much of it.
const lingerBytes = 64 << 20

// end closes the connection: at once where all was read, lingering where the
// client may still be sending.
func (c *Conn) end() {
	aborted := false
	if t := c.Turn; t != nil {
		aborted = t.aborted
		t.Body.Free()
		if !c.left && t.started && !t.aborted && !t.tunnelled && c.Unread {
			c.linger()
		}
	}
	c.o.Watch.Remove(&c.entry)
	c.rest()
	if c.left {
		c.Stream.Sock.Waiting = nil
		return
	}
	c.buf.Put()
	c.buf = nil
	if aborted {
		cut(c.Stream.Sock.Conn)
		return
	}
	_ = c.Stream.Close()
}

// cut closes so that the client sees that its answer is not whole.
func cut(nc net.Conn) {
	switch t := nc.(type) {
	case *net.TCPConn:
		_ = t.SetLinger(0)
	case interface{ Reset() }: // a stream of QUIC
		t.Reset()
	}
	_ = nc.Close()
}

func (c *Conn) linger() {
	_ = c.Stream.Sock.SetDeadline(time.Now().Add(lingerTime))
	if c.Stream.CloseWrite() != nil {
		return
	}
	// What was read is of no more use, nor is the length that the client announced.
	if c.buf == nil {
		c.buf = buffer.Get(buffer.Small)
	}
	for left := lingerBytes; left > 0; {
		n, err := c.Stream.Sock.Read(c.buf.B)
		if err != nil {
			return
		}
		left -= n
	}
}
