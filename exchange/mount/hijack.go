package mount

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/hanzoai/pqgw/exchange"
)

// maxDecline bounds the body with which a handler declines an upgrade.
const maxDecline = 64 << 10

var errDecline = errors.New("mount: an upgrade was declined with a body that is cut or too large")

// ErrNotUpgrade is returned by Hijack where the request asks for no upgrade: a
// connection that carries other exchanges is not given away.
var ErrNotUpgrade = errors.New("mount: only a request to upgrade can be hijacked")

// wishUpgrade gives the request the fields by which net/http's WebSocket
// libraries know one, which the exchange has taken in or HTTP/2 does not have.
func wishUpgrade(h http.Header, protocol string) {
	h.Set("Connection", "Upgrade")
	h.Set("Upgrade", protocol)
	if h.Get("Sec-Websocket-Key") == "" {
		key := make([]byte, 16)
		_, _ = rand.Read(key) // never fails
		h.Set("Sec-Websocket-Key", base64.StdEncoding.EncodeToString(key))
	}
	if h.Get("Sec-Websocket-Version") == "" {
		h.Set("Sec-Websocket-Version", "13")
	}
}

// hijack is a connection that a handler has taken over. The handler holds one end of a
// pipe, which has deadlines as it expects; the head of its answer is taken from the other, and
// after a 101 the bytes go through the tunnel.
type hijack struct {
	x    *exchange.Exchange
	ours net.Conn
	done sync.WaitGroup
}

// hijackConn is the handler's end.
type hijackConn struct {
	net.Conn
	local, remote net.Addr
}

func (c *hijackConn) LocalAddr() net.Addr  { return c.local }
func (c *hijackConn) RemoteAddr() net.Addr { return c.remote }

// Hijack implements http.Hijacker. The exchange lasts until the handler closes
// the connection, or the client does.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over || w.status != 0:
		return nil, nil, errReturned
	case w.hijacked.Load() != nil:
		return nil, nil, http.ErrHijacked
	case w.x.Cancelled() != nil:
		return nil, nil, w.x.Cancelled()
	case len(w.x.Request.Protocol()) == 0:
		return nil, nil, ErrNotUpgrade
	}
	ours, theirs := net.Pipe()
	h := &hijack{x: w.x, ours: ours}
	w.hijacked.Store(h)
	h.done.Add(1)
	go h.run()
	c := &hijackConn{Conn: theirs, local: tcpAddr(w.x.Conn.Local), remote: tcpAddr(w.x.Conn.Client)}
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), nil
}

func (h *hijack) wait()  { h.done.Wait() }
func (h *hijack) abort() { _ = h.ours.Close() }

// run takes the handler's answer, and carries the tunnel.
func (h *hijack) run() {
	defer h.done.Done()
	defer h.ours.Close()
	r := bufio.NewReader(h.ours)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		h.x.Responder.Abort(err)
		return
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusSwitchingProtocols {
		h.decline(res)
		return
	}
	h.tunnel(res.Header, r)
}

// decline passes on an answer other than 101.
func (h *hijack) decline(res *http.Response) {
	body, err := io.ReadAll(io.LimitReader(res.Body, maxDecline+1))
	if err != nil || len(body) > maxDecline {
		h.x.Responder.Abort(errDecline)
		return
	}
	head := &h.x.Response
	head.Reset(nil)
	head.Status = res.StatusCode
	copyHeader(head, res.Header)
	respond(h.x, head, body)
}

func (h *hijack) tunnel(fields http.Header, r *bufio.Reader) {
	head := &h.x.Response
	head.Reset(nil)
	head.Status = http.StatusSwitchingProtocols
	if h.x.Conn.Protocol != exchange.HTTP1 {
		fields.Del("Sec-Websocket-Accept") // there is no key to accept (RFC 8441, section 5)
	}
	copyHeader(head, fields)
	t, err := h.x.Responder.Tunnel(head)
	if err != nil {
		h.x.Responder.Abort(err)
		return
	}
	h.done.Add(1)
	go func() {
		defer h.done.Done()
		_, _ = io.Copy(h.ours, t) // either side's end is the end of both
		_ = h.ours.Close()
	}()
	_, _ = io.Copy(t, r) // as above
	_ = t.Close()
}
