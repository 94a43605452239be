package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/hanzoai/pqgw/handshake"
)

// loaded is a certificate as the storage had it.
type loaded struct {
	cert     *tls.Certificate
	modified time.Time
}

// held is what is served for a name, nil for nothing.
func (s *Source) held(name string) *loaded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded[name]
}

// names are the hosts and what was got on demand.
func (s *Source) names() []string { return append(slices.Clone(s.set.Hosts), s.demand.known()...) }

// refresh serves what the storage has now: another gateway may have renewed a
// certificate, or one was revoked and is gone; the old one serves on until there is
// another. It returns the hosts that the storage has nothing for.
func (s *Source) refresh() (missing []string) {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	var held []handshake.Held
	for _, name := range s.names() {
		l, gone := s.look(name)
		if gone {
			missing = append(missing, name)
		}
		if l != nil {
			held = append(held, handshake.Held{Certificate: s.stapled(name, l), Location: name})
		}
	}
	s.Put(held)
	return missing
}

// look loads a certificate if the storage has another one; gone tells that it has none.
func (s *Source) look(name string) (l *loaded, gone bool) {
	old := s.held(name)
	key := certmagic.StorageKeys.SiteCert(s.issuer, name)
	info, err := s.set.Storage.Stat(s.ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		if old != nil {
			s.cache.RemoveManaged([]certmagic.SubjectIssuer{{Subject: name}})
		}
		return old, true
	}
	if err == nil && old != nil && info.Modified.Equal(old.modified) {
		return old, false
	}
	var cert *tls.Certificate
	if err == nil {
		cert, err = s.read(s.ctx, name)
	}
	if err != nil {
		// The chain and its key are two files: for a moment they may not match.
		s.log.Warn("a certificate cannot be read from the storage", "host", name, "error", err)
		return old, false
	}
	l = &loaded{cert: cert, modified: info.Modified}
	s.mu.Lock()
	s.loaded[name] = l
	s.mu.Unlock()
	if old != nil && !bytes.Equal(old.cert.Certificate[0], cert.Certificate[0]) {
		s.log.Info("certificate replaced", "host", name, "not_after", cert.Leaf.NotAfter)
	}
	return l, false
}

func (s *Source) read(ctx context.Context, name string) (*tls.Certificate, error) {
	chain, err := s.set.Storage.Load(ctx, certmagic.StorageKeys.SiteCert(s.issuer, name))
	if err != nil {
		return nil, err
	}
	key, err := s.set.Storage.Load(ctx, certmagic.StorageKeys.SitePrivateKey(s.issuer, name))
	if err != nil {
		return nil, err
	}
	defer clear(key)
	cert, err := tls.X509KeyPair(chain, key)
	return &cert, err
}

// stapled is the certificate with the OCSP staple that certmagic has for it,
// where it has one.
func (s *Source) stapled(name string, l *loaded) *tls.Certificate {
	for _, c := range s.cache.AllMatchingCertificates(name) {
		if len(c.OCSPStaple) > 0 && bytes.Equal(c.Certificate.Certificate[0], l.cert.Certificate[0]) {
			with := *l.cert
			with.OCSPStaple = c.OCSPStaple
			return &with
		}
	}
	return l.cert
}

// Revoke tells the issuer that the certificate of a host must not be trusted any
// more, by a reason code of RFC 5280, section 5.3.1, and takes it out of the
// storage. Gateways that serve it get another one at their next look, and serve
// the old one until then.
func (s *Source) Revoke(ctx context.Context, host string, reason int) error {
	// By one issuer alone: certmagic would go on to the next with what is gone.
	c := certmagic.New(s.cache, certmagic.Config{Storage: s.set.Storage, Logger: newZap(s.log)})
	c.Issuers = []certmagic.Issuer{s.newIssuer(c, false)}
	return c.RevokeCert(ctx, host, reason, false)
}

// Has reports whether the storage has a certificate for a host.
func (s *Source) Has(host string) bool {
	return s.set.Storage.Exists(s.ctx, certmagic.StorageKeys.SiteCert(s.issuer, host))
}
