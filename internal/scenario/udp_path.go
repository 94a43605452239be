package scenario

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// udpPath stands between a client and a UDP port. While it is held nothing comes
// back; what it records can be sent again.
type udpPath struct {
	addr   string
	to     string
	gate   sync.RWMutex // locked while nothing comes back
	retry  atomic.Int64 // Retry packets that came back
	record atomic.Bool

	mu     sync.Mutex
	flight [][]byte // with a long header: Initial and 0-RTT packets
}

func (p *udpPath) hold()    { p.gate.Lock() }
func (p *udpPath) release() { p.gate.Unlock() }

func newUDPPath(t *testing.T, to string) *udpPath {
	t.Helper()
	front, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &udpPath{addr: front.LocalAddr().String(), to: to}
	var wg sync.WaitGroup
	wg.Go(func() {
		backs := map[string]net.Conn{} // of each client
		defer func() {
			for _, back := range backs {
				_ = back.Close()
			}
		}()
		buf := make([]byte, 65536)
		for {
			n, from, err := front.ReadFrom(buf)
			if err != nil {
				return
			}
			back := backs[from.String()]
			if back == nil {
				if back, err = net.Dial("udp", to); err != nil {
					return
				}
				backs[from.String()] = back
				wg.Go(func() { p.answers(front, back, from) })
			}
			p.note(buf[:n])
			_, _ = back.Write(buf[:n])
		}
	})
	t.Cleanup(func() {
		_ = p.gate.TryLock() // where a test has failed it is held
		p.release()
		_ = front.Close()
		wg.Wait()
	})
	return p
}

func (p *udpPath) answers(front net.PacketConn, back net.Conn, client net.Addr) {
	buf := make([]byte, 65536)
	for {
		n, err := back.Read(buf)
		if err != nil {
			return
		}
		if buf[0]&0xf0 == 0xf0 { // RFC 9000, section 17.2.5
			p.retry.Add(1)
		}
		p.gate.RLock()
		_, _ = front.WriteTo(buf[:n], client)
		p.gate.RUnlock()
	}
}

func (p *udpPath) note(b []byte) {
	if p.record.Load() && b[0]&0x80 != 0 {
		p.mu.Lock()
		p.flight = append(p.flight, append([]byte(nil), b...))
		p.mu.Unlock()
	}
}

// replay sends the flight from another address, and waits a moment for an
// answer, which shows that it was looked at.
func (p *udpPath) replay(t *testing.T) {
	t.Helper()
	c, err := net.Dial("udp", p.to)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.flight {
		_, _ = c.Write(b)
	}
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	_, _ = c.Read(make([]byte, 1500))
}
