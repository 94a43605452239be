package gateway

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

// Buffers of tunnels: a small one while little moves, as most WebSockets are
// quiet; a large one while reads fill it.
const (
	tunnelSmall = 4 << 10
	tunnelLarge = 64 << 10
)

var tunnelBuffers = [2]sync.Pool{
	{New: func() any { return newBuffer(tunnelSmall) }},
	{New: func() any { return newBuffer(tunnelLarge) }},
}

func newBuffer(n int) *[]byte {
	b := make([]byte, n)
	return &b
}

// tunnel is the two byte streams of an upgraded exchange.
type tunnel struct {
	client, upstream exchange.Tunnel
	idle             time.Duration
	moved            atomic.Int64 // when bytes last moved, Unix nanoseconds
	timer            *time.Timer
	expired          atomic.Bool
	in, out          int64 // bytes from and to the client
	done             chan error
}

// tunnel agrees to the upgrade towards the client, and carries bytes both ways
// until both have ended, one has failed, or nothing has moved for too long.
func (f *flow) tunnel(h *exchange.Head, up exchange.Tunnel) error {
	f.status = f.tunnelStatus()
	client, err := f.x.Responder.Tunnel(h)
	if err != nil {
		_ = up.Close()
		return err
	}
	t := &tunnel{client: client, upstream: up, idle: f.timeouts.Idle, done: make(chan error, 1)}
	t.moved.Store(time.Now().UnixNano())
	if t.idle > 0 {
		t.timer = time.AfterFunc(t.idle, t.check)
		defer t.timer.Stop()
	}
	f.g.workers.start(t)
	err = t.pump(client, up, &t.in)
	if back := <-t.done; err == nil {
		err = back
	}
	t.close()
	f.x.BytesIn, f.x.BytesOut = max(f.x.BytesIn, t.in), max(f.x.BytesOut, t.out)
	switch {
	case t.expired.Load():
		f.reason, f.err = "tunnel_idle", exchange.ErrTimeout
	case err != nil:
		f.reason, f.err = "tunnel_cut", err
	}
	return nil
}

// tunnelStatus is what the client is told that gets its tunnel.
func (f *flow) tunnelStatus() int {
	if f.x.Conn.Protocol == exchange.HTTP1 {
		return 101
	}
	return 200 // RFC 8441, section 5
}

// plain keeps an answer from opening a tunnel by its status alone: any 2xx to an extended
// CONNECT does (RFC 8441, section 5), also one by which a service passes over
// a wish to upgrade. The client is told 501 in its place.
func (f *flow) plain(h *exchange.Head) {
	if h.Status/100 == 2 && len(f.x.Request.Protocol()) > 0 && f.x.Conn.Protocol != exchange.HTTP1 {
		h.Status, f.status, f.reason = 501, 501, "upgrade_refused"
	}
}

// run implements task: the way from the upstream to the client.
func (t *tunnel) run() { t.done <- t.pump(t.upstream, t.client, &t.out) }

// check runs when the idle time may be over.
func (t *tunnel) check() {
	rest := t.idle - time.Since(time.Unix(0, t.moved.Load()))
	if rest <= 0 {
		t.expired.Store(true)
		t.close()
		return
	}
	t.timer.Reset(rest)
}

func (t *tunnel) close() {
	_ = t.client.Close()
	_ = t.upstream.Close()
}

// pump copies one way. The end is passed on as such and leaves the other way open; a failure
// ends both.
func (t *tunnel) pump(from, to exchange.Tunnel, count *int64) error {
	size := 0
	buf := tunnelBuffers[size].Get().(*[]byte) //nolint:forcetypeassert // nothing else is put there
	defer func() { tunnelBuffers[size].Put(buf) }()
	for {
		n, err := from.Read(*buf)
		if n > 0 {
			*count += int64(n)
			t.moved.Store(time.Now().UnixNano())
			if _, err := to.Write((*buf)[:n]); err != nil {
				t.close()
				return err
			}
		}
		switch {
		case err == io.EOF: //nolint:errorlint // the end is this value
			if err := to.CloseWrite(); err != nil {
				t.close()
			}
			return nil
		case err != nil:
			t.close()
			return err
		}
		if want := sizeFor(n); want != size {
			tunnelBuffers[size].Put(buf)
			size = want
			buf = tunnelBuffers[size].Get().(*[]byte) //nolint:forcetypeassert // as above
		}
	}
}

func sizeFor(n int) int {
	if n >= tunnelSmall {
		return 1
	}
	return 0
}
