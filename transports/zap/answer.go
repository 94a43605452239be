package zap

import (
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/zapcodec"
)

// mostData is the largest chunk of a data frame: peers may gather a frame before they
// look at it.
const mostData = 1 << 20

// headRoom is what a message of a known body is taken to need besides it.
const headRoom = 64 << 10

// Interim implements exchange.Responder. ZAP carries no interim answers: they
// are dropped, as a server may (RFC 9110, section 15.2).
func (t *turn) Interim(*exchange.Head) error {
	if t.Started() {
		return serial.ErrAnswered
	}
	return nil
}

// Tunnel implements exchange.Responder: ZAP carries none.
func (t *turn) Tunnel(*exchange.Head) (exchange.Tunnel, error) { return nil, exchange.ErrTunnel }

// AppendHead implements serial.Format. A body that comes in pieces goes into the same
// message where its length is known and fits, else into data frames.
func (t *turn) AppendHead(out []byte, h *exchange.Head, shape serial.Shape, length int64) (_ []byte, framed bool, err error) {
	kind, body := byte(zapcodec.TypeResponse), 0
	switch {
	case shape == serial.NoBody:
		if length < 0 {
			length = lengthOfNone(t.X.Request.Method, h)
		}
	case shape == serial.WholeBody || length >= 0 && length <= int64(t.MostWhole()) && !h.Has(exchange.Trailer):
		body, length = int(length), -1
	default:
		kind, framed = zapcodec.TypeResponseHead, true
	}
	if !t.c.extended {
		length = -1
	}
	out, err = t.enc.response(out, h, kind, body, length)
	if err == nil && t.c.Closing && t.c.extended {
		out[prefix+6] |= FlagLast
	}
	return out, framed, err
}

// lengthOfNone is the Content-Length of an answer without a body that is
// worth saying: what a body would have had on HEAD and 304 (RFC 9110, section
// 8.6). -1 is none.
func lengthOfNone(m exchange.Method, h *exchange.Head) int64 {
	if h.Status/100 != 1 && h.Status != 204 && (m == exchange.HEAD || h.Status == 304) {
		return h.Length
	}
	return -1
}

// MostWhole implements serial.Format.
func (t *turn) MostWhole() int { return messageLimit(t.c.o.MessageBytes) - headRoom }
