package stored

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/kms"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newStore(t *testing.T) *kms.Store {
	t.Helper()
	dir := t.TempDir()
	master := kms.MasterFile{Path: filepath.Join(dir, "master")}
	key, err := master.Create()
	if err != nil {
		t.Fatal(err)
	}
	if err := kms.Init(filepath.Join(dir, "store"), key); err != nil {
		t.Fatal(err)
	}
	s, err := kms.Open(filepath.Join(dir, "store"), kms.Options{Master: master})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// put issues a certificate for host and stores it, its chain as the public part.
func put(t *testing.T, s *kms.Store, a *handshake.Authority, name string, chain []byte, life time.Duration, host string) []byte {
	t.Helper()
	cert, err := a.Issue(life, host)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	if chain == nil {
		chain = own
	}
	e := kms.Entry{Name: name, Kind: kms.KindCertificate, Value: kms.NewSecret(key), Public: chain}
	defer e.Value.Close()
	if _, err := s.Put(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return own
}

func authority(t *testing.T) *handshake.Authority {
	t.Helper()
	a, _, err := handshake.MakeAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAVersionThatIsPutIsServedAndABadOneIsNot(t *testing.T) {
	s, a := newStore(t), authority(t)
	put(t, s, a, "edge/a", nil, time.Hour, "a.example.com")
	put(t, s, a, "edge/b", nil, time.Hour, "b.example.com")
	news := make(chan Reload, 8)
	src, err := New(s, []string{"edge/a", "edge/b"}, Options{Poll: 10 * time.Millisecond, OnReload: func(r Reload) { news <- r }})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	served := func(name string) string {
		t.Helper()
		c, err := src.Certificate(&tls.ClientHelloInfo{ServerName: name})
		if err != nil || c == nil {
			t.Fatalf("%s: %v, %v", name, c, err)
		}
		return c.Leaf.SerialNumber.String()
	}
	a1, b1 := served("a.example.com"), served("b.example.com")
	if d, _ := src.Default(&tls.ClientHelloInfo{}); d.Leaf.SerialNumber.String() != a1 {
		t.Error("the first entry is not the default")
	}
	foreign := put(t, s, a, "edge/other", nil, time.Hour, "a.example.com")

	put(t, s, a, "edge/b", nil, time.Hour, "b.example.com")
	if r := <-news; r.Entry != "edge/b" || r.Err != nil {
		t.Fatalf("told %+v", r)
	}
	b2 := served("b.example.com")
	if b2 == b1 || served("a.example.com") != a1 {
		t.Error("the version that was put is not served, or another changed")
	}
	put(t, s, a, "edge/b", foreign, time.Hour, "b.example.com")
	if r := <-news; r.Err == nil || served("b.example.com") != b2 {
		t.Errorf("the chain of another key was taken: %+v", r)
	}
	put(t, s, a, "edge/b", nil, -time.Hour, "b.example.com")
	if r := <-news; r.Err == nil || !strings.Contains(r.Err.Error(), "expired") || served("b.example.com") != b2 {
		t.Errorf("an expired certificate was taken: %+v", r)
	}
	if infos := src.Describe(); len(infos) != 2 || infos[0].Source != "kms" || infos[1].Location != "edge/b" {
		t.Errorf("described as %+v", infos)
	}
}

// An entry that was deleted and put again has the version that it had.
func TestAnEntryThatIsPutAgainIsServed(t *testing.T) {
	s, a := newStore(t), authority(t)
	put(t, s, a, "edge/a", nil, time.Hour, "a.example.com")
	news := make(chan Reload, 8)
	src, err := New(s, []string{"edge/a"}, Options{Poll: 10 * time.Millisecond, OnReload: func(r Reload) { news <- r }})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if err := s.Delete(t.Context(), "edge/a"); err != nil {
		t.Fatal(err)
	}
	put(t, s, a, "edge/a", nil, time.Hour, "b.example.com")
	late := time.After(10 * time.Second)
	for {
		select {
		case r := <-news:
			if r.Err != nil {
				continue // it saw that there was none
			}
			if len(r.Info.Names) == 0 || r.Info.Names[0] != "b.example.com" {
				t.Errorf("told %+v", r)
			}
			return
		case <-late:
			t.Fatal("the key that was deleted serves on")
		}
	}
}

func TestEachSignatureIsInTheAudit(t *testing.T) {
	s, a := newStore(t), authority(t)
	put(t, s, a, "edge", nil, time.Hour, "a.example.com")
	src, err := New(s, []string{"edge"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	srv, err := handshake.NewServer(handshake.Settings{Sources: []handshake.Source{src}})
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	done := make(chan error, 1)
	go func() {
		done <- tls.Client(far, &tls.Config{RootCAs: a.Pool(), ServerName: "a.example.com"}).Handshake()
	}()
	if _, err := srv.Handshake(t.Context(), srv.Conn(near)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var audit strings.Builder
	if err := s.PrintAudit(&audit); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(audit.String(), `"op":"sign","name":"edge"`); n != 1 {
		t.Errorf("%d signatures in the audit, want 1:\n%s", n, audit.String())
	}
}

func TestEntriesThatAreNoCertificatesAreRefused(t *testing.T) {
	s, a := newStore(t), authority(t)
	secret := kms.NewSecret([]byte("x"))
	defer secret.Close()
	if _, err := s.Put(t.Context(), kms.Entry{Name: "secret", Kind: kms.KindSecret, Value: secret}); err != nil {
		t.Fatal(err)
	}
	put(t, s, a, "bare", []byte("no chain"), time.Hour, "a.example.com")
	for name, want := range map[string]error{"secret": kms.ErrKind, "absent": kms.ErrNotFound, "bare": nil} {
		_, err := New(s, []string{name}, Options{})
		var e *Error
		if !errors.As(err, &e) || e.Entry != name || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(s, nil, Options{}); err == nil {
		t.Error("a source of nothing was made")
	}
}
