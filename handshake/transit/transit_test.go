package transit

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/internal/transitengine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "s.token-of-the-test"

func newECDSA(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newEngine(t testing.TB, change func(*Settings)) (*transitengine.Engine, *Client) {
	t.Helper()
	e := transitengine.New(t, token)
	e.Keys["site"] = []crypto.Signer{newECDSA(t), newECDSA(t)}
	srv := httptest.NewServer(e)
	t.Cleanup(srv.Close)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := Settings{Address: srv.URL, TokenFile: file}
	if change != nil {
		change(&set)
	}
	c, err := New(set)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return e, c
}

var digest = sha256.Sum256([]byte("x"))

func TestEachKindOfKeySigns(t *testing.T) {
	e, c := newEngine(t, nil)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	e.Keys["rsa"], e.Keys["ed"] = []crypto.Signer{rsaKey}, []crypto.Signer{edKey}
	sign := func(name string, input []byte, opts crypto.SignerOpts) []byte {
		t.Helper()
		s, err := c.Signer(t.Context(), name, "tls-server")
		if err != nil {
			t.Fatal(err)
		}
		signature, err := s.Sign(nil, input, opts)
		if err != nil {
			t.Fatal(err)
		}
		return signature
	}
	newest := e.Keys["site"][1].(*ecdsa.PrivateKey) //nolint:forcetypeassert // made above
	if !ecdsa.VerifyASN1(&newest.PublicKey, digest[:], sign("site", digest[:], crypto.SHA256)) {
		t.Error("the ECDSA signature is not one of the newest version")
	}
	pss := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}
	if err := rsa.VerifyPSS(&rsaKey.PublicKey, crypto.SHA256, digest[:], sign("rsa", digest[:], pss), pss); err != nil {
		t.Errorf("PSS: %v", err)
	}
	if !ed25519.Verify(edKey.Public().(ed25519.PublicKey), []byte("message"), sign("ed", []byte("message"), crypto.Hash(0))) { //nolint:forcetypeassert // as above
		t.Error("Ed25519 does not verify")
	}
}

func TestAnOlderVersionSignsForItsCertificate(t *testing.T) {
	e, c := newEngine(t, nil)
	old := e.Keys["site"][0].(*ecdsa.PrivateKey) //nolint:forcetypeassert // made above
	s, err := c.SignerOf("site", "tls-server", old.Public())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		signature, err := s.Sign(nil, digest[:], crypto.SHA256)
		if err != nil || !ecdsa.VerifyASN1(&old.PublicKey, digest[:], signature) {
			t.Fatalf("%v", err)
		}
	}
	if n := e.Calls.Load(); n != 3 {
		t.Errorf("%d calls for two signatures, want 3", n)
	}
	other, err := c.SignerOf("site", "tls-server", newECDSA(t).Public())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Sign(nil, digest[:], crypto.SHA256); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("a certificate of another key: %v", err)
	}
}

func TestASealedEngineIsAskedAgain(t *testing.T) {
	e, c := newEngine(t, nil)
	s, err := c.Signer(t.Context(), "site", "tls-server")
	if err != nil {
		t.Fatal(err)
	}
	e.Sealed.Store(2)
	if _, err := s.Sign(nil, digest[:], crypto.SHA256); err != nil {
		t.Errorf("%v", err)
	}
}

func TestASignatureIsBoundedInTimeAndToldOf(t *testing.T) {
	var told atomic.Pointer[error]
	e, c := newEngine(t, func(s *Settings) {
		s.Timeout = 100 * time.Millisecond
		s.Observe = func(_ time.Duration, err error) { told.Store(&err) }
	})
	s, err := c.Signer(t.Context(), "site", "tls-server")
	if err != nil {
		t.Fatal(err)
	}
	e.Sealed.Store(1 << 20)
	if _, err := s.Sign(nil, digest[:], crypto.SHA256); err == nil {
		t.Error("a sealed engine signs")
	}
	if got := told.Load(); got == nil || *got == nil {
		t.Error("nobody was told of the failure")
	}
}

func TestRefusalsAreFinalAndShowNoToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(file, []byte("s.wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, c := newEngine(t, func(s *Settings) { s.TokenFile = file })
	_, err := c.Signer(t.Context(), "site", "tls-server")
	var refused *Error
	if !errors.As(err, &refused) || refused.Status != http.StatusForbidden || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("%v", err)
	}
	if strings.Contains(fmt.Sprint(err), "s.wrong") {
		t.Error("the error shows the token")
	}
	if n := e.Calls.Load(); n != 1 {
		t.Errorf("a refusal is asked for %d times", n)
	}
}

func TestARedirectIsNotFollowedWithTheToken(t *testing.T) {
	_, c := newEngine(t, nil)
	var a keyAnswer
	err := c.call(context.Background(), http.MethodGet, "/moved/site", nil, &a)
	var refused *Error
	if !errors.As(err, &refused) || refused.Status != http.StatusTemporaryRedirect {
		t.Errorf("%v", err)
	}
}

func TestWhatTLSDoesNotSignIsNotAskedFor(t *testing.T) {
	for _, opts := range []crypto.SignerOpts{crypto.SHA1, &rsa.PSSOptions{SaltLength: 3, Hash: crypto.SHA256}} {
		if _, err := newSignRequest(digest[:], opts, 1); err == nil {
			t.Errorf("%v is taken", opts)
		}
	}
	if _, err := New(Settings{Address: "vault:8200"}); err == nil {
		t.Error("an address without its scheme is taken")
	}
	if _, err := parsePublic(string(bytes.Repeat([]byte("A"), 8))); err == nil {
		t.Error("rubbish is a key")
	}
}
