package acme

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/hanzoai/pqgw/handshake"
)

// loaded is a certificate as the storage had it.
type loaded struct {
	cert     *tls.Certificate
	modified time.Time // zero where it was not asked for
	issuer   string    // whose it is; another's serves until ours is there
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
	s.before = sync.OnceValue(s.otherIssuers) // the storage is listed at most once
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
	if old == nil {
		return s.first(name)
	}
	key := certmagic.StorageKeys.SiteCert(s.issuer, name)
	info, err := s.store.Stat(s.ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		s.cache.RemoveManaged([]certmagic.SubjectIssuer{{Subject: name}})
		return old, true
	}
	if err == nil && info.Modified.Equal(old.modified) {
		return old, false
	}
	var cert *tls.Certificate
	if err == nil {
		cert, err = s.read(s.ctx, s.issuer, name)
	}
	if err != nil {
		// The chain and its key are two files: for a moment they may not match.
		s.log.Warn("a certificate cannot be read from the storage", "host", name, "error", err)
		return old, false
	}
	l = s.keep(name, &loaded{cert: cert, modified: info.Modified, issuer: s.issuer})
	if !bytes.Equal(old.cert.Certificate[0], cert.Certificate[0]) {
		s.log.Info("certificate replaced", "host", name, "not_after", cert.Leaf.NotAfter)
	}
	return l, false
}

// first loads a certificate of which nothing is known yet. Its key is left
// where it is until it is needed: to unseal ten thousand would delay the start.
func (s *Source) first(name string) (l *loaded, gone bool) {
	l, err := s.firstOf(s.issuer, name)
	if err == nil {
		return s.keep(name, l), false
	}
	if !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("a certificate cannot be read from the storage", "host", name, "error", err)
		return nil, false
	}
	// The issuer may have been changed: what the one before gave serves meanwhile.
	for _, issuer := range s.before() {
		if l, err := s.firstOf(issuer, name); err == nil && time.Now().Before(l.cert.Leaf.NotAfter) {
			return s.keep(name, l), true
		}
	}
	return nil, true
}

func (s *Source) firstOf(issuer, name string) (*loaded, error) {
	text, err := s.store.Load(s.ctx, certmagic.StorageKeys.SiteCert(issuer, name))
	if err != nil {
		return nil, err
	}
	cert, err := s.withKeyLater(issuer, name, text)
	return &loaded{cert: cert, issuer: issuer}, err
}

// otherIssuers are those of which the storage has certificates besides ours.
func (s *Source) otherIssuers() (issuers []string) {
	const folder = "certificates"
	list, err := s.store.List(s.ctx, folder, false)
	if err != nil {
		return nil // there is none, or a storage that will be complained of elsewhere
	}
	for _, key := range list {
		if issuer := path.Base(key); issuer != certmagic.StorageKeys.Safe(s.issuer) {
			issuers = append(issuers, issuer)
		}
	}
	return issuers
}

func (s *Source) keep(name string, l *loaded) *loaded {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded[name] = l
	return l
}

func (s *Source) withKeyLater(issuer, name string, chain []byte) (*tls.Certificate, error) {
	cert := &tls.Certificate{}
	for block, rest := pem.Decode(chain); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			cert.Certificate = append(cert.Certificate, block.Bytes)
		}
	}
	if len(cert.Certificate) == 0 {
		return nil, errors.New("no certificate in PEM")
	}
	var err error
	if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
		return nil, err
	}
	cert.PrivateKey = &lateKey{public: cert.Leaf.PublicKey, load: func() (any, error) {
		whole, err := readPair(context.Background(), s.set.Storage, issuer, name) // after Close, too
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(whole.Certificate[0], cert.Certificate[0]) {
			s.tell() // it has been renewed
		}
		return whole.PrivateKey, nil
	}}
	return cert, nil
}

// lateKey is a private key that is loaded when it signs for the first time.
type lateKey struct {
	public crypto.PublicKey
	load   func() (any, error)

	mu  sync.Mutex
	key crypto.Signer
}

// Public implements crypto.Signer.
func (k *lateKey) Public() crypto.PublicKey { return k.public }

// Sign implements crypto.Signer.
func (k *lateKey) Sign(random io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	key, err := k.signer()
	if err != nil {
		return nil, err
	}
	return key.Sign(random, digest, opts)
}

var errOtherKey = errors.New("the storage has the key of another certificate")

func (k *lateKey) signer() (crypto.Signer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key != nil {
		return k.key, nil
	}
	key, err := k.load()
	if err != nil {
		return nil, err
	}
	return k.set(key)
}

// give is for one who has loaded the key anyway.
func (k *lateKey) give(key any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, _ = k.set(key) // of another certificate, it is of no use here
}

func (k *lateKey) set(key any) (crypto.Signer, error) {
	signer, ok := key.(crypto.Signer)
	if public, can := k.public.(interface{ Equal(crypto.PublicKey) bool }); !ok || !can || !public.Equal(signer.Public()) {
		return nil, errOtherKey
	}
	k.key = signer
	return signer, nil
}

// errPair is a chain and a key in the storage that do not belong together.
var errPair = errors.New("chain and key do not belong together")

func (s *Source) read(ctx context.Context, issuer, name string) (*tls.Certificate, error) {
	return readPair(ctx, s.store, issuer, name)
}

func readPair(ctx context.Context, from certmagic.Storage, issuer, name string) (*tls.Certificate, error) {
	chain, err := from.Load(ctx, certmagic.StorageKeys.SiteCert(issuer, name))
	if err != nil {
		return nil, err
	}
	key, err := from.Load(ctx, certmagic.StorageKeys.SitePrivateKey(issuer, name))
	if err != nil {
		return nil, err
	}
	defer clear(key)
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		err = fmt.Errorf("%w: %w", errPair, err)
	}
	return &cert, err
}

// mend takes out of the storage what a gateway left half written when it was
// killed: certmagic would neither use it nor get another. That nobody is about
// to write the other half is made sure of by certmagic's own lock.
func (s *Source) mend(ctx context.Context, name string) error {
	if _, err := s.read(ctx, s.issuer, name); !errors.Is(err, errPair) {
		return nil
	}
	lock := "issue_cert_" + name
	if err := s.store.Lock(ctx, lock); err != nil {
		return err
	}
	defer func() {
		if err := s.store.Unlock(context.WithoutCancel(ctx), lock); err != nil {
			s.log.Warn("a lock cannot be given back", "lock", lock, "error", err)
		}
	}()
	if _, err := s.read(ctx, s.issuer, name); !errors.Is(err, errPair) {
		return nil
	}
	s.log.Warn("a half-written certificate is taken out of the storage", "host", name)
	return s.store.Delete(ctx, certmagic.StorageKeys.CertsSitePrefix(s.issuer, name))
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
