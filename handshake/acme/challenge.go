package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"net/url"

	"github.com/caddyserver/certmagic"

	"github.com/hanzoai/pqgw/handshake"
)

// ChallengePath is where http-01 is answered (RFC 8555, section 8.3).
const ChallengePath = "/.well-known/acme-challenge/"

// Challenge implements [handshake.Challenger]: tls-alpn-01, for orders of ours
// and of gateways that share the storage.
func (s *Source) Challenge(hello *tls.ClientHelloInfo) *tls.Certificate {
	if !s.set.TLSALPN01 || !s.manages(handshake.NormalName(hello.ServerName)) {
		return nil
	}
	cert, err := s.answer.GetCertificate(hello)
	if err != nil {
		return nil // none is awaited
	}
	return cert
}

// KeyAuthorization answers http-01 for a host and path, for orders of ours and
// of gateways that share the storage. ok is false where none is awaited.
func (s *Source) KeyAuthorization(ctx context.Context, host, path string) (answer []byte, ok bool) {
	if !s.set.HTTP01 || !s.manages(host) {
		return nil, false
	}
	r := (&http.Request{Method: http.MethodGet, Host: host, URL: &url.URL{Path: path}, RequestURI: path}).WithContext(ctx)
	for _, i := range s.exact.Issuers {
		issuer, isACME := i.(*certmagic.ACMEIssuer)
		var w recorder
		if isACME && issuer.HandleHTTPChallenge(&w, r) {
			return w.body.Bytes(), true
		}
	}
	return nil, false
}

// recorder keeps what a handler of net/http writes.
type recorder struct {
	header http.Header
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(int) {}
