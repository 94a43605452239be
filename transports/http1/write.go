package http1

import (
	"crypto/rand"
	"encoding/base64"
	"strconv"

	"github.com/hanzoai/pqgw/exchange"
)

// appendFields writes the fields that are not dropped, in their order and
// spelling.
func appendFields(out []byte, h *exchange.Head) []byte {
	for i := range h.Len() {
		if h.Dropped(i) {
			continue
		}
		out = append(append(out, h.Name(i)...), ": "...)
		out = append(append(out, h.Value(i)...), "\r\n"...)
	}
	return out
}

// appendStatusLine writes the reason as it came, else the usual one.
func appendStatusLine(out []byte, h *exchange.Head) []byte {
	out = append(out, "HTTP/1.1 "...)
	out = append(strconv.AppendInt(out, int64(h.Status), 10), ' ')
	if r := h.Reason(); len(r) > 0 {
		out = append(out, r...)
	} else {
		out = append(out, exchange.ReasonPhrase(h.Status)...)
	}
	return append(out, "\r\n"...)
}

// appendRequest writes a request's head. length is that of its body, -1 where
// only the end will tell.
func appendRequest(out []byte, h *exchange.Head, body bool, length int64) []byte {
	connect := h.Method == exchange.CONNECT
	if connect {
		out = append(out, "GET "...) // RFC 8441, section 5.1: the HTTP/1 form of an extended CONNECT
	} else {
		out = append(append(out, h.MethodName()...), ' ')
	}
	out = append(append(out, h.Target()...), " HTTP/1.1\r\nHost: "...)
	out = append(append(out, h.Authority()...), "\r\n"...)
	out = appendFields(out, h)
	switch {
	case body && length < 0:
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	case body:
		out = append(out, "Content-Length: "...)
		out = append(strconv.AppendInt(out, length, 10), "\r\n"...)
	case h.Method == exchange.POST || h.Method == exchange.PUT || h.Method == exchange.PATCH:
		out = append(out, "Content-Length: 0\r\n"...)
	}
	if h.ExpectContinue && body {
		out = append(out, "Expect: 100-continue\r\n"...)
	}
	switch p := h.Protocol(); {
	case len(p) > 0:
		out = append(append(append(out, "Connection: Upgrade\r\nUpgrade: "...), p...), "\r\n"...)
		if connect && !h.Has(exchange.SecWebSocketKey) {
			out = append(append(append(out, "Sec-WebSocket-Key: "...), newKey()...), "\r\n"...)
		}
	case h.TETrailers:
		out = append(out, "Connection: TE\r\nTE: trailers\r\n"...)
	}
	return append(out, "\r\n"...)
}

// newKey is the nonce of an opening handshake (RFC 6455, section 4.1).
func newKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return base64.StdEncoding.EncodeToString(b[:])
}
