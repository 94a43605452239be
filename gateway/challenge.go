package gateway

import (
	"bytes"

	"github.com/hanzoai/pqgw/exchange"
)

// challengePath is where an ACME issuer asks (RFC 8555, section 8.3).
var challengePath = []byte("/.well-known/acme-challenge/")

// challenge answers an issuer that an order of ours waits for, and leaves what
// is nobody's to the routes: a service behind us may have orders of its own.
func (f *flow) challenge(l *listener) bool {
	answer := f.g.opts.Challenge
	if answer == nil || f.x.Request.Method != exchange.GET || !bytes.HasPrefix(f.path, challengePath) {
		return false
	}
	body, ok := answer(string(f.host), string(f.path))
	if !ok {
		return false
	}
	f.b = &l.proof
	h := &f.x.Response
	h.Reset(nil)
	h.Status = 200
	h.AddKnownString(exchange.ContentType, "application/octet-stream")
	h.AddKnownString(exchange.CacheControl, "no-store")
	f.answer(h, body)
	return true
}
