package acme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
)

// silent is a server that takes what is asked and says nothing.
type silent struct {
	net.Listener
	asked chan struct{} // has room for one: something was asked

	mu    sync.Mutex
	conns []net.Conn
}

func newSilent(t *testing.T) *silent {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &silent{Listener: ln, asked: make(chan struct{}, 1)}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			select {
			case s.asked <- struct{}{}:
			default:
			}
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		done.Wait()
		for _, c := range s.conns {
			_ = c.Close()
		}
	})
	return s
}

// naming is a certificate that names a server for all that can be asked about it.
func naming(t *testing.T, host, server string) (chain, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: time.Now(), NotAfter: time.Now().Add(90 * 24 * time.Hour),
		OCSPServer: []string{"http://" + server}, IssuingCertificateURL: []string{"http://" + server},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

func TestCloseWaitsForNoAnswerThatDoesNotCome(t *testing.T) {
	responder := newSilent(t)
	storage := &certmagic.FileStorage{Path: t.TempDir()}
	const host = "a.example.com"
	issuer := newSource(t, Settings{Storage: storage}).issuer
	chain, key := naming(t, host, responder.Addr().String())
	for name, data := range map[string][]byte{
		certmagic.StorageKeys.SitePrivateKey(issuer, host): key,
		certmagic.StorageKeys.SiteMeta(issuer, host):       []byte(`{"sans": ["` + host + `"]}`),
		certmagic.StorageKeys.SiteCert(issuer, host):       chain,
	} {
		if err := storage.Store(t.Context(), name, data); err != nil {
			t.Fatal(err)
		}
	}
	src, err := New(Settings{Directory: deadEnd, TLSALPN01: true, Storage: storage, Hosts: []string{host}})
	if err != nil {
		t.Fatal(err)
	}
	src.Start()
	<-responder.asked
	began := time.Now()
	if err := src.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 5*closePatience {
		t.Errorf("closing took %v", took)
	}
}

// watchedStorage is a storage whose owner closes it.
type watchedStorage struct {
	certmagic.Storage
	entered chan struct{}
	left    atomic.Bool
}

func (s *watchedStorage) Lock(ctx context.Context, _ string) error {
	close(s.entered)
	<-ctx.Done()
	s.left.Store(true)
	return context.Cause(ctx)
}

func TestTheStorageIsNotUsedOnceItIsClosed(t *testing.T) {
	under := &watchedStorage{Storage: &certmagic.FileStorage{Path: t.TempDir()}, entered: make(chan struct{})}
	g := newGate(under)
	ctx := t.Context()
	if err := g.Store(ctx, "key", []byte("value")); err != nil {
		t.Fatal(err)
	}
	if err := under.Storage.Lock(ctx, "before"); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() { waits <- g.Lock(ctx, "another's") }()
	<-under.entered
	g.close()
	if !under.left.Load() {
		t.Error("close did not wait for a use that was under way")
	}
	if err := <-waits; !errors.Is(err, errClosed) {
		t.Errorf("one who waited for a lock got %v", err)
	}
	_, loadErr := g.Load(ctx, "key")
	_, statErr := g.Stat(ctx, "key")
	_, listErr := g.List(ctx, "", true)
	_, tryErr := g.TryLock(ctx, "other")
	for _, err := range []error{loadErr, statErr, listErr, tryErr, g.Store(ctx, "key", nil), g.Delete(ctx, "key"), g.Lock(ctx, "other")} {
		if !errors.Is(err, errClosed) {
			t.Errorf("a use after close: %v", err)
		}
	}
	if g.Exists(ctx, "key") {
		t.Error("a use after close went through")
	}
	if err := g.Unlock(ctx, "before"); err != nil {
		t.Errorf("a lock of before cannot be given back: %v", err)
	}
}
