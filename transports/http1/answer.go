package http1

import (
	"crypto/sha1" //nolint:gosec // RFC 6455 asks for it
	"encoding/base64"
	"math"
	"strconv"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/serial"
)

// Interim implements exchange.Responder.
func (t *turn) Interim(h *exchange.Head) error {
	if t.Started() {
		return serial.ErrAnswered
	}
	if t.c.minor == 0 {
		return nil // HTTP/1.0 knows none (RFC 9110, section 15.2)
	}
	if h.Status == 100 {
		if t.continued {
			return nil
		}
		t.continued = true
	}
	out := serial.GetScratch()
	defer serial.PutScratch(out)
	*out = append(appendFields(appendStatusLine(*out, h), h), "\r\n"...)
	return t.Write(*out)
}

// lengthOfNone is the Content-Length to write where no body follows: what a body would have
// had on HEAD and 304, which length may tell, none on 1xx and 204 (RFC 9110, section 8.6).
func lengthOfNone(m exchange.Method, h *exchange.Head, length int64) int64 {
	switch {
	case h.Status/100 == 1 || h.Status == 204:
		return -1
	case length >= 0:
		return length
	case m == exchange.HEAD || h.Status == 304:
		return h.Length
	}
	return 0
}

// AppendHead implements serial.Format. Where nothing else tells the body's end, the
// connection's does.
func (t *turn) AppendHead(out []byte, h *exchange.Head, shape serial.Shape, length int64) (_ []byte, framed bool, err error) {
	c := t.c
	switch {
	case shape == serial.NoBody:
		length = lengthOfNone(t.X.Request.Method, h, length)
	case shape == serial.Pieces && h.Has(exchange.Trailer) && c.minor > 0:
		length = -1 // HTTP/2 has trailers beside a length; here they need chunks
	}
	out = appendFields(appendStatusLine(out, h), h)
	switch {
	case length >= 0:
		out = append(out, "Content-Length: "...)
		out = append(strconv.AppendInt(out, length, 10), "\r\n"...)
	case shape == serial.NoBody:
	case c.minor > 0:
		framed = true
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	default:
		c.Closing = true
	}
	switch {
	case c.Closing:
		out = append(out, "Connection: close\r\n"...)
	case c.minor == 0:
		out = append(out, "Connection: keep-alive\r\n"...)
	}
	return append(out, "\r\n"...), framed, nil
}

// MostWhole implements serial.Format: any number.
func (t *turn) MostWhole() int { return math.MaxInt }

// Tunnel implements exchange.Responder.
func (t *turn) Tunnel(h *exchange.Head) (exchange.Tunnel, error) {
	if err := t.HandOver(); err != nil {
		return nil, err
	}
	c := t.c
	q := &t.X.Request
	if key := q.Get(exchange.SecWebSocketKey); key != nil && !h.Has(exchange.SecWebSocketAccept) {
		h.AddKnownString(exchange.SecWebSocketAccept, acceptKey(key))
	}
	out := serial.GetScratch()
	defer serial.PutScratch(out)
	*out = append(*out, "HTTP/1.1 101 Switching Protocols\r\n"...)
	*out = appendFields(*out, h)
	*out = append(append(append(*out, "Connection: Upgrade\r\nUpgrade: "...), q.Protocol()...), "\r\n\r\n"...)
	if err := t.Write(*out); err != nil {
		return nil, err
	}
	return &tunnel{c: c, early: append([]byte(nil), c.Pending()[c.Head:]...)}, nil
}

// acceptKey proves that the opening handshake was understood (RFC 6455, section 4.2.2).
func acceptKey(key []byte) string {
	sum := sha1.Sum(append(append([]byte(nil), key...), "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"...)) //nolint:gosec // as above
	return base64.StdEncoding.EncodeToString(sum[:])
}

// tunnel is the client's side of an upgraded connection.
type tunnel struct {
	c     *Conn
	early []byte // what came along with the request
}

func (t *tunnel) Read(p []byte) (int, error) {
	if len(t.early) > 0 {
		n := copy(p, t.early)
		t.early = t.early[n:]
		return n, nil
	}
	n, err := t.c.Stream.Read(p)
	if n == 0 && t.c.DrainOnly(err) {
		n, err = t.c.Stream.Read(p)
	}
	t.c.Extend()
	return n, err
}

func (t *tunnel) Write(p []byte) (int, error) {
	t.c.Extend()
	return t.c.Stream.Write(p)
}

func (t *tunnel) CloseWrite() error { return t.c.Stream.CloseWrite() }

func (t *tunnel) Close() error { return t.c.Stream.Close() }
