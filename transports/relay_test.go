package transports

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// relay stands between a client and a listener's UDP port, and does to datagrams
// what the test says.
type relay struct {
	front *net.UDPConn // the client's side
	to    *net.UDPAddr

	mu     sync.Mutex
	back   *net.UDPConn // the listener's side
	client *net.UDPAddr
	up     func(n int, p []byte) [][]byte // what to send for the n-th datagram of the client; nil: itself
	down   func(n int, p []byte) [][]byte

	sentUp, sentDown atomic.Int64 // bytes
	wg               sync.WaitGroup
}

func newRelay(t *testing.T, to string, up, down func(n int, p []byte) [][]byte) *relay {
	t.Helper()
	addr, err := net.ResolveUDPAddr("udp", to)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{to: addr, up: up, down: down, front: loopback(t), back: loopback(t)}
	r.wg.Go(r.forth)
	r.wg.Go(func() { r.answers(r.back) })
	t.Cleanup(func() {
		_ = r.front.Close()
		r.mu.Lock()
		_ = r.back.Close()
		r.mu.Unlock()
		r.wg.Wait()
	})
	return r
}

func loopback(t *testing.T) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadBuffer(4 << 20)
	return c
}

func (r *relay) addr() string { return r.front.LocalAddr().String() }

func apply(f func(int, []byte) [][]byte, n int, p []byte) [][]byte {
	if f == nil {
		return [][]byte{p}
	}
	return f(n, p)
}

func (r *relay) forth() {
	buf := make([]byte, 65536)
	for n := 0; ; n++ {
		size, from, err := r.front.ReadFromUDP(buf)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.client = from
		back := r.back
		r.mu.Unlock()
		for _, p := range apply(r.up, n, append([]byte(nil), buf[:size]...)) {
			r.sentUp.Add(int64(len(p)))
			_, _ = back.WriteToUDP(p, r.to)
		}
	}
}

func (r *relay) answers(back *net.UDPConn) {
	buf := make([]byte, 65536)
	for n := 0; ; n++ {
		size, _, err := back.ReadFromUDP(buf)
		if err != nil {
			return
		}
		r.mu.Lock()
		client := r.client
		r.mu.Unlock()
		r.sentDown.Add(int64(size))
		for _, p := range apply(r.down, n, append([]byte(nil), buf[:size]...)) {
			_, _ = r.front.WriteToUDP(p, client)
		}
	}
}

// rebind lets the client seem to come from another port, as a NAT does that has
// forgotten it.
func (r *relay) rebind(t *testing.T) {
	t.Helper()
	back := loopback(t)
	r.mu.Lock()
	old := r.back
	r.back = back
	r.mu.Unlock()
	_ = old.Close()
	r.wg.Go(func() { r.answers(back) })
}
