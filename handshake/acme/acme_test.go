package acme

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/hanzoai/pqgw/handshake"
)

// certmagic's locks in a folder, which a gateway with a store does not use, are
// looked after by goroutines that end seconds after the lock was given back.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.keepLockfileFresh"))
}

// deadEnd is an issuer at which nobody listens.
const deadEnd = "https://127.0.0.1:1/dir"

func newSource(t *testing.T, s Settings) *Source {
	t.Helper()
	if s.Storage == nil {
		s.Storage = &certmagic.FileStorage{Path: t.TempDir()}
	}
	s.Directory, s.TLSALPN01 = deadEnd, true
	src, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	})
	return src
}

// issue puts a certificate into the storage, as another gateway would.
func issue(t *testing.T, src *Source, a *handshake.Authority, host string) {
	t.Helper()
	cert, err := a.Issue(24*time.Hour, host)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for key, data := range map[string][]byte{
		certmagic.StorageKeys.SitePrivateKey(src.issuer, host): pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		certmagic.StorageKeys.SiteMeta(src.issuer, host):       []byte(`{"sans": ["` + host + `"]}`),
		certmagic.StorageKeys.SiteCert(src.issuer, host):       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
	} {
		if err := src.set.Storage.Store(t.Context(), key, data); err != nil {
			t.Fatal(err)
		}
	}
}

func authority(t *testing.T) *handshake.Authority {
	t.Helper()
	a, _, err := handshake.MakeAuthority(filepath.Join(t.TempDir(), "ca"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func serial(t *testing.T, src *Source, host string) string {
	t.Helper()
	c, err := src.Certificate(&tls.ClientHelloInfo{ServerName: host})
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return ""
	}
	return c.Leaf.SerialNumber.String()
}

func TestWhatAnotherGatewayGotIsServed(t *testing.T) {
	storage, a := &certmagic.FileStorage{Path: t.TempDir()}, authority(t)
	src := newSource(t, Settings{Hosts: []string{"a.example.com"}, Storage: storage})
	if got := serial(t, src, "a.example.com"); got != "" {
		t.Fatalf("served %s before there was one", got)
	}
	issue(t, src, a, "a.example.com")
	if missing := src.refresh(); missing != nil {
		t.Errorf("missing %v", missing)
	}
	first := serial(t, src, "A.example.com.")
	if first == "" || serial(t, src, "b.example.com") != "" {
		t.Error("the certificate is not served, or for another name")
	}
	issue(t, src, a, "a.example.com")
	src.refresh()
	second := serial(t, src, "a.example.com")
	if second == first {
		t.Error("the renewed certificate is not served")
	}
	again := newSource(t, Settings{Hosts: []string{"a.example.com"}, Storage: storage})
	if got := serial(t, again, "a.example.com"); got != second {
		t.Error("a source does not begin with what the storage has")
	}
	if err := storage.Delete(t.Context(), certmagic.StorageKeys.SiteCert(src.issuer, "a.example.com")); err != nil {
		t.Fatal(err)
	}
	if missing := src.refresh(); len(missing) != 1 || serial(t, src, "a.example.com") != second {
		t.Errorf("after it is gone from the storage: missing %v; the old one must serve on", missing)
	}
}

func TestAnotherIssuersCertificateServesUntilOursIsThere(t *testing.T) {
	storage, a := &certmagic.FileStorage{Path: t.TempDir()}, authority(t)
	old := newSource(t, Settings{Hosts: []string{"a.example.com"}, Storage: storage})
	ours := old.issuer
	old.issuer = "before.example-directory"
	issue(t, old, a, "a.example.com")
	src := newSource(t, Settings{Hosts: []string{"a.example.com"}, Storage: storage})
	if src.issuer != ours {
		t.Fatalf("issuer %s", src.issuer)
	}
	cert, err := src.Certificate(&tls.ClientHelloInfo{ServerName: "a.example.com"})
	if err != nil || cert == nil {
		t.Fatalf("nothing is served after the issuer was changed: %v", err)
	}
	digest := sha256.Sum256([]byte("x"))
	if _, err := cert.PrivateKey.(crypto.Signer).Sign(rand.Reader, digest[:], crypto.SHA256); err != nil {
		t.Errorf("it does not sign: %v", err)
	}
	if missing := src.refresh(); len(missing) != 1 {
		t.Error("no certificate of the new issuer is wanted")
	}
	issue(t, src, a, "a.example.com")
	src.refresh()
	if serial(t, src, "a.example.com") == cert.Leaf.SerialNumber.String() {
		t.Error("the old issuer's is served on")
	}
}

func TestKeysAreLoadedWhenTheySign(t *testing.T) {
	storage, a := &certmagic.FileStorage{Path: t.TempDir()}, authority(t)
	src := newSource(t, Settings{Hosts: []string{"a.example.com"}, Storage: storage})
	issue(t, src, a, "a.example.com")
	src.refresh()
	cert, err := src.Certificate(&tls.ClientHelloInfo{ServerName: "a.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	key, ok := cert.PrivateKey.(*lateKey)
	if !ok || key.key != nil {
		t.Fatalf("the key is a %T, loaded before it is needed", cert.PrivateKey)
	}
	digest := sha256.Sum256([]byte("x"))
	signature, err := key.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil || !ecdsa.VerifyASN1(cert.Leaf.PublicKey.(*ecdsa.PublicKey), digest[:], signature) {
		t.Errorf("it signs badly: %v", err)
	}
	again := newSource(t, Settings{Hosts: []string{"a.example.com"}, Storage: storage})
	stale, _ := again.Certificate(&tls.ClientHelloInfo{ServerName: "a.example.com"})
	issue(t, src, a, "a.example.com")
	if _, err := stale.PrivateKey.(crypto.Signer).Sign(rand.Reader, digest[:], crypto.SHA256); !errors.Is(err, errOtherKey) {
		t.Errorf("it signs with the key of another certificate: %v", err)
	}
}

func TestHalfWrittenCertificatesAreTakenAway(t *testing.T) {
	storage, a := &certmagic.FileStorage{Path: t.TempDir()}, authority(t)
	src := newSource(t, Settings{Hosts: []string{"a.example.com", "b.example.com"}, Storage: storage})
	issue(t, src, a, "a.example.com")
	issue(t, src, a, "b.example.com")
	chain := func(host string) string { return certmagic.StorageKeys.SiteCert(src.issuer, host) }
	foreign, err := storage.Load(t.Context(), chain("b.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	if err := storage.Store(t.Context(), chain("a.example.com"), foreign); err != nil {
		t.Fatal(err)
	}
	for _, host := range src.set.Hosts {
		if err := src.mend(t.Context(), host); err != nil {
			t.Fatal(err)
		}
	}
	if src.Has("a.example.com") || !src.Has("b.example.com") {
		t.Error("what was half written stays, or what was whole is gone")
	}
}

func TestAnIssuerThatIsDownEndsWithTheSource(t *testing.T) {
	src := newSource(t, Settings{Hosts: []string{"a.example.com"}, CheckEvery: time.Millisecond})
	src.Start()
	src.Start() // does nothing
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := src.obtain(ctx, "b.example.com"); err == nil {
		t.Error("a certificate came from nowhere")
	}
}

// asker is an ask URL that says yes to tenants.
func asker(t *testing.T) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch domain := r.URL.Query().Get("domain"); {
		case strings.HasPrefix(domain, "moved"):
			http.Redirect(w, r, "/?domain=tenant", http.StatusFound)
		case !strings.HasPrefix(domain, "tenant"):
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL, asked
}

func TestOnDemandAsksOnceAndOnlyForWhatMayBe(t *testing.T) {
	url, asked := asker(t)
	storage, a := &certmagic.FileStorage{Path: t.TempDir()}, authority(t)
	src := newSource(t, Settings{Hosts: []string{"a.example.com", "*.wild.example.com"}, Storage: storage, OnDemand: &OnDemand{Ask: url, Rate: 1}})
	for _, host := range []string{"", "a.example.com", "x.wild.example.com", "192.0.2.1", "localhost", "printer.local"} {
		if serial(t, src, host) != "" || asked.Load() != 0 {
			t.Errorf("%q: asked %d times", host, asked.Load())
		}
	}
	for _, host := range []string{"evil.example.com", "moved.example.com"} {
		before := asked.Load()
		if serial(t, src, host) != "" || serial(t, src, host) != "" || asked.Load() != before+1 {
			t.Errorf("%s: asked %d times for two hellos, want once", host, asked.Load()-before)
		}
	}
	// What the storage has already is no use of the rate.
	for n := range 3 {
		host := fmt.Sprintf("tenant%d.example.com", n)
		issue(t, src, a, host)
		if serial(t, src, host) == "" {
			t.Errorf("%s is not served from the storage", host)
		}
	}
	before := asked.Load()
	if serial(t, src, "tenant0.example.com") == "" || asked.Load() != before {
		t.Error("a host that is known was asked for again")
	}
}

func TestOnDemandHeedsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d demand
		d.init(&OnDemand{})
		got := []bool{d.take(2), d.take(2), d.take(2)}
		time.Sleep(time.Hour + 1)
		got = append(got, d.take(2))
		if fmt.Sprint(got) != "[true true false true]" {
			t.Errorf("took %v", got)
		}
	})
}

func TestOnDemandForgetsRefusalsRatherThanGrow(t *testing.T) {
	var d demand
	d.init(&OnDemand{})
	for n := range demandNos + 1 {
		d.refuse(fmt.Sprint(n))
	}
	if len(d.no) > demandNos {
		t.Errorf("%d refusals are remembered", len(d.no))
	}
}

func TestRenewalsOnDemandAreAskedForAgain(t *testing.T) {
	url, _ := asker(t)
	src := newSource(t, Settings{Hosts: []string{"evil.example.com"}, OnDemand: &OnDemand{Ask: url, Rate: 1}})
	src.demand.names["former.example.com"], src.demand.names["tenant.example.com"] = true, true
	for host, want := range map[string]error{"evil.example.com": nil, "tenant.example.com": nil, "former.example.com": ErrNotAllowed} {
		if err := src.event(t.Context(), "cert_obtaining", map[string]any{"identifier": host}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", host, err, want)
		}
	}
}

func TestNobodyIsAnsweredWithoutAnOrder(t *testing.T) {
	src := newSource(t, Settings{Hosts: []string{"a.example.com"}, HTTP01: true})
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	for _, host := range []string{"a.example.com", "other.example.com"} {
		hello := &tls.ClientHelloInfo{ServerName: host, SupportedProtos: []string{handshake.ALPNChallenge}, Conn: near}
		if src.Challenge(hello) != nil {
			t.Errorf("tls-alpn-01 is answered for %s", host)
		}
		if _, ok := src.KeyAuthorization(t.Context(), host, ChallengePath+"token"); ok {
			t.Errorf("http-01 is answered for %s", host)
		}
	}
}

func TestCertmagicsLogIsOurs(t *testing.T) {
	var out bytes.Buffer
	log := newZap(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))).With(zap.String("ca", "x")).Named("n")
	log.Debug("left out")
	log.Info("step", zap.String("host", "a"))
	log.Warn("stapling OCSP", zap.Error(fmt.Errorf("%w: none", certmagic.ErrNoOCSPServerSpecified)))
	log.Error("bad", zap.Error(errors.New("why")))
	got := out.String()
	for _, want := range []string{`level=DEBUG msg="acme: step" ca=x host=a`, `level=ERROR msg="acme: bad" ca=x error=why`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, "left out") || strings.Contains(got, "stapling") {
		t.Errorf("logged too much:\n%s", got)
	}
}
