package certstore

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
)

func TestStorageBehavesAsAFolder(t *testing.T) {
	dir, master := newStore(t)
	s, other := open(t, dir, master), open(t, dir, master)
	ctx := t.Context()
	keys := []string{
		"acme/ca/users/a@example.com/a.json",
		"acme/ca/users/a@example.com/a.key",
		"certificates/ca/example.com/example.com.crt",
		"certificates/ca/example.com/example.com.json",
		"certificates/ca/example.com/example.com.key",
		"certificates/ca/wildcard_.example.com/wildcard_.example.com.key",
		"ocsp/example.com-1234",
		"last_clean.json",
	}
	for _, key := range keys {
		if s.Exists(ctx, key) {
			t.Errorf("%s exists before it is stored", key)
		}
		if err := s.Store(ctx, key, []byte("old")); err != nil {
			t.Fatal(err)
		}
		if err := s.Store(ctx, key, []byte("value of "+key)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range keys {
		value, err := other.Load(ctx, key)
		if err != nil || string(value) != "value of "+key {
			t.Errorf("%s is %q, %v", key, value, err)
		}
		info, err := other.Stat(ctx, key)
		if err != nil || !info.IsTerminal || info.Key != key || info.Size != int64(len(value)) || time.Since(info.Modified) > time.Minute {
			t.Errorf("%+v, %v", info, err)
		}
	}
	list := func(folder string, recursive bool, want ...string) {
		t.Helper()
		got, err := s.List(ctx, folder, recursive)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q; %v", folder, got, want, err)
		}
	}
	list("", false, "acme", "certificates", "last_clean.json", "ocsp")
	list("certificates/ca", false, "certificates/ca/example.com", "certificates/ca/wildcard_.example.com")
	list("certificates/ca/example.com", true, keys[2], keys[3], keys[4])
	list("acme", true, "acme/ca", "acme/ca/users", "acme/ca/users/a@example.com", keys[0], keys[1])
	if info, err := s.Stat(ctx, "certificates/ca"); err != nil || info.IsTerminal {
		t.Errorf("%+v, %v", info, err)
	}
	if !s.Exists(ctx, "certificates/ca") || s.Exists(ctx, "certificates/c") {
		t.Error("folders are not told by their parts")
	}
	if err := other.Delete(ctx, "certificates/ca/example.com"); err != nil {
		t.Fatal(err)
	}
	list("certificates/ca", false, "certificates/ca/wildcard_.example.com")
	if err := s.Delete(ctx, "certificates/ca/example.com"); err != nil {
		t.Errorf("deleting what is not there: %v", err)
	}
	_, err := s.Load(ctx, keys[4])
	_, statErr := s.Stat(ctx, keys[4])
	_, listErr := s.List(ctx, "certificates/ca/example.com", true)
	for _, err := range []error{err, statErr, listErr} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what is not there gives %v", err)
		}
	}
}

func TestKeysAndAccountsAreSealed(t *testing.T) {
	dir, master := newStore(t)
	s := open(t, dir, master)
	secret := []byte("-----BEGIN EC PRIVATE KEY-----")
	value := bytes.Clone(secret)
	for _, key := range []string{"certificates/ca/a/a.key", "acme/ca/users/a/a.json", "acme/ca/users/a/a.key", "other"} {
		if err := s.Store(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(value, secret) {
		t.Error("the caller's value was changed")
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, secret) {
			t.Errorf("%s shows it", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// countingIssuer is a certificate authority in this process.
type countingIssuer struct {
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	issued atomic.Int32
}

func newIssuer(t *testing.T) *countingIssuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &countingIssuer{key: key, cert: cert}
}

func (i *countingIssuer) IssuerKey() string { return "test" }

func (i *countingIssuer) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	n := i.issued.Add(1)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(int64(n) + 1), DNSNames: csr.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, i.cert, csr.PublicKey.(crypto.PublicKey), i.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

func TestTwoGatewaysOnOneStoreAskOnce(t *testing.T) {
	dir, master := newStore(t)
	issuer := newIssuer(t)
	var wg sync.WaitGroup
	for range 2 {
		s := open(t, dir, master)
		var magic *certmagic.Config
		cache := certmagic.NewCache(certmagic.CacheOptions{
			GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return magic, nil },
		})
		t.Cleanup(cache.Stop)
		magic = certmagic.New(cache, certmagic.Config{Storage: s, Issuers: []certmagic.Issuer{issuer}, OCSP: certmagic.OCSPConfig{DisableStapling: true}})
		wg.Go(func() {
			if err := magic.ManageSync(context.Background(), []string{"a.example.com"}); err != nil {
				t.Error(err)
			}
			cert, err := magic.CacheManagedCertificate(context.Background(), "a.example.com")
			if err != nil || !slices.Contains(cert.Names, "a.example.com") {
				t.Errorf("%v, %v", cert.Names, err)
			}
		})
	}
	wg.Wait()
	if n := issuer.issued.Load(); n != 1 {
		t.Errorf("%d certificates were issued", n)
	}
	s := open(t, dir, master)
	keys, err := s.List(t.Context(), "certificates/test/a.example.com", false)
	if err != nil || len(keys) != 3 || !strings.HasSuffix(keys[2], ".key") {
		t.Errorf("the store has %v, %v", keys, err)
	}
}
