//go:build pkcs11

package pkcs11

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	p11 "github.com/miekg/pkcs11"
)

var (
	digest = sha256.Sum256([]byte("x"))
	long   = sha512.Sum384([]byte("x"))
)

func newECDSA(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestEachKindOfKeySignsAsTLSHasIt(t *testing.T) {
	h := newHSM(t)
	p256, p384 := newECDSA(t, elliptic.P256()), newECDSA(t, elliptic.P384())
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	h.put(t, "p256", "01", p256)
	h.put(t, "p384", "02", p384)
	h.put(t, "rsa", "03", rsaKey)
	h.put(t, "ed", "04", edKey)
	k := h.open(t, nil)
	sign := func(name string, input []byte, opts crypto.SignerOpts) []byte {
		t.Helper()
		s, err := k.Signer(t.Context(), name, "tls-server")
		if err != nil {
			t.Fatal(err)
		}
		return signBy(t, s, input, opts)
	}
	for range 50 { // r and s have leading zeros now and then
		if !ecdsa.VerifyASN1(&p256.PublicKey, digest[:], sign("p256", digest[:], crypto.SHA256)) {
			t.Fatal("P-256 does not verify")
		}
	}
	if !ecdsa.VerifyASN1(&p384.PublicKey, long[:], sign("p384", long[:], crypto.SHA384)) {
		t.Error("P-384 does not verify")
	}
	for _, hash := range []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512} {
		pss := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
		input := make([]byte, hash.Size())
		if err := rsa.VerifyPSS(&rsaKey.PublicKey, hash, input, sign("rsa", input, pss), pss); err != nil {
			t.Errorf("PSS with %v: %v", hash, err)
		}
	}
	if !ed25519.Verify(edPublic, []byte("message"), sign("ed", []byte("message"), crypto.Hash(0))) {
		t.Error("Ed25519 does not verify")
	}
	s, err := k.Signer(t.Context(), "rsa", "tls-server")
	if err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]crypto.SignerOpts{"PKCS #1 v1.5": crypto.SHA256, "SHA-1": crypto.SHA1, "a message": crypto.Hash(0)} {
		if _, err := s.Sign(nil, digest[:], opts); err == nil {
			t.Errorf("an RSA key signs %s", name)
		}
	}
}

func TestAWrongPINIsTriedOnce(t *testing.T) {
	h := newHSM(t)
	wrong := func(s *Settings) { s.PIN = "wrong-pin" }
	_, err := Open(h.settings(wrong))
	if !errors.Is(err, ErrPIN) || !is(err, p11.CKR_PIN_INCORRECT) {
		t.Fatalf("%v", err)
	}
	if strings.Contains(err.Error(), "wrong-pin") {
		t.Error("the error shows the PIN")
	}
	// Were it tried again, it would be right now.
	k := h.open(t, nil)
	h.as(t, k, func(ctx *p11.Ctx, sh p11.SessionHandle) error { return ctx.SetPIN(sh, right, "wrong-pin") })
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(h.settings(wrong)); !errors.Is(err, ErrPIN) || !strings.Contains(err.Error(), "not tried again") {
		t.Errorf("%v", err)
	}
}

func TestAnotherPINIsProvenWhileTheTokenIsInUse(t *testing.T) {
	h := newHSM(t)
	key := newECDSA(t, elliptic.P256())
	h.put(t, "site", "01", key)
	k := h.open(t, nil)
	s, err := k.Signer(t.Context(), "site", "tls-server")
	if err != nil {
		t.Fatal(err)
	}
	signBy(t, s, digest[:], crypto.SHA256)
	if _, err := Open(h.settings(func(s *Settings) { s.PIN = "other-pin" })); !errors.Is(err, ErrPIN) {
		t.Errorf("another PIN: %v", err)
	}
	signBy(t, s, digest[:], crypto.SHA256)
	h.as(t, k, func(ctx *p11.Ctx, sh p11.SessionHandle) error { return ctx.SetPIN(sh, right, "new-pin") })
	h.open(t, func(s *Settings) { s.PIN = "new-pin" })
	signBy(t, s, digest[:], crypto.SHA256)
}

func TestWhatIsNotThereIsNamed(t *testing.T) {
	h := newHSM(t)
	h.put(t, "site", "01", newECDSA(t, elliptic.P256()))
	h.put(t, "two", "02", newECDSA(t, elliptic.P256()))
	h.put(t, "two", "03", newECDSA(t, elliptic.P256()))
	h.put(t, "bare", "04", newECDSA(t, elliptic.P256()), "--no-public-key")
	open := func(change func(*Settings)) error {
		_, err := Open(h.settings(change))
		return err
	}
	k := h.open(t, nil)
	public := func(name string) error {
		_, err := k.Public(t.Context(), name)
		return err
	}
	_, notOurs := k.SignerOf("site", "", newECDSA(t, elliptic.P256()).Public())
	_, noChain := k.Chain(t.Context(), "site")
	for name, c := range map[string]struct {
		err, kind error
		text      string
	}{
		"a module that is no file": {open(func(s *Settings) { s.Module = "/none.so" }), ErrModule, "/none.so"},
		"a module that is none":    {open(func(s *Settings) { s.Module = "pkcs11_test.go" }), ErrModule, "shared library"},
		"a token":                  {open(func(s *Settings) { s.Token = "none" }), ErrToken, `there are "edge" in slot`},
		"a slot":                   {open(func(s *Settings) { s.Token, s.Slot = "", 77 }), ErrToken, "token in slot 77"},
		"no PIN":                   {open(func(s *Settings) { s.PIN = "" }), ErrPIN, "none is given"},
		"a key":                    {public("none"), ErrKey, `label "none"`},
		"two keys":                 {public("two"), ErrAmbiguous, "by its id"},
		"no public half":           {public("bare"), ErrKey, "put the public key"},
		"another's certificate":    {notOurs, ErrKey, "the certificate is for another"},
		"no certificate":           {noChain, ErrChain, "store the certificate"},
	} {
		var typed *Error
		if !errors.Is(c.err, c.kind) || !errors.As(c.err, &typed) || !strings.Contains(c.err.Error(), c.text) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}

func TestOfTwoKeysOfOneNameTheCertificatesSigns(t *testing.T) {
	h := newHSM(t)
	for _, id := range []string{"0a", "0b"} {
		key := newECDSA(t, elliptic.P256())
		h.put(t, "site", id, key)
		s, err := h.open(t, nil).SignerOf("site", "tls-server", key.Public())
		if err != nil {
			t.Fatal(err)
		}
		if !ecdsa.VerifyASN1(&key.PublicKey, digest[:], signBy(t, s, digest[:], crypto.SHA256)) {
			t.Error("the other key signed")
		}
		public, err := h.open(t, func(s *Settings) { s.ID = []byte{0x0a} }).Public(t.Context(), "")
		if err != nil || public == nil {
			t.Errorf("by its id alone: %v", err)
		}
	}
}

func TestManySignaturesShareTheSessions(t *testing.T) {
	h := newHSM(t)
	key := newECDSA(t, elliptic.P256())
	h.put(t, "site", "01", key)
	var told atomic.Int32
	k := h.open(t, func(s *Settings) {
		s.Timeout = time.Minute
		s.Observe = func(d time.Duration, err error) {
			if d > 0 && err == nil {
				told.Add(1)
			}
		}
	})
	s, err := k.Signer(t.Context(), "site", "tls-server")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 * maxSessions {
		wg.Go(func() {
			if signature, err := s.Sign(nil, digest[:], crypto.SHA256); err != nil || !ecdsa.VerifyASN1(&key.PublicKey, digest[:], signature) {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	if n := told.Load(); n != 4*maxSessions {
		t.Errorf("%d signatures were told of", n)
	}
	if n := len(k.t.idle); n == 0 || n > maxSessions {
		t.Errorf("%d sessions are open", n)
	}
}

func TestATokenThatWasAwaySignsAgain(t *testing.T) {
	h := newHSM(t)
	key := newECDSA(t, elliptic.P256())
	h.put(t, "site", "01", key)
	k := h.open(t, func(s *Settings) { s.Timeout = 300 * time.Millisecond })
	s, err := k.Signer(t.Context(), "site", "tls-server")
	if err != nil {
		t.Fatal(err)
	}
	signBy(t, s, digest[:], crypto.SHA256)
	entries, err := os.ReadDir(h.tokens)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v %v", entries, err)
	}
	there, away := filepath.Join(h.tokens, entries[0].Name()), filepath.Join(filepath.Dir(h.tokens), "away")
	if err := os.Rename(there, away); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if _, err := s.Sign(nil, digest[:], crypto.SHA256); !errors.Is(err, ErrToken) && !errors.Is(err, ErrOperation) {
		t.Errorf("without the token: %v", err)
	}
	if d := time.Since(begun); d > 3*time.Second {
		t.Errorf("a handshake waited %v for a token that is away", d)
	}
	if err := os.Rename(away, there); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		signature, err := s.Sign(nil, digest[:], crypto.SHA256)
		if err == nil && ecdsa.VerifyASN1(&key.PublicKey, digest[:], signature) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the token is back and does not sign: %v", err)
		}
	}
}

func TestWhatIsClosedSignsNoMore(t *testing.T) {
	h := newHSM(t)
	h.put(t, "site", "01", newECDSA(t, elliptic.P256()))
	other := h.open(t, func(s *Settings) { s.Token, s.Slot = "", slotOf(t, h) })
	k := h.open(t, func(s *Settings) { s.Timeout = time.Minute })
	s, err := k.Signer(t.Context(), "site", "tls-server")
	if err != nil {
		t.Fatal(err)
	}
	signBy(t, s, digest[:], crypto.SHA256)
	if err := errors.Join(k.Close(), k.Close()); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for range 20 {
		if _, err := s.Sign(nil, digest[:], crypto.SHA256); err == nil {
			t.Fatal("a signer signs after the end of its token's use")
		}
		if _, err := k.Chain(t.Context(), "site"); err == nil || errors.Is(err, ErrChain) {
			t.Fatalf("the token was asked: %v", err)
		}
	}
	if d := time.Since(begun); d > 10*time.Second {
		t.Errorf("it took %v to say so", d)
	}
	if len(k.t.idle) != 0 || k.t.loggedIn {
		t.Error("sessions are open")
	}
	if _, err := other.Public(t.Context(), "site"); err != nil {
		t.Errorf("who else uses the token: %v", err)
	}
}

// slotOf is where the token is.
func slotOf(t *testing.T, h *hsm) uint {
	t.Helper()
	k := h.open(t, nil)
	slot := k.t.slot
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	return slot
}

func TestDERHasWhatTheTokenGave(t *testing.T) {
	for _, odd := range [][]byte{nil, make([]byte, 63)} {
		if _, err := derOf(odd); err == nil {
			t.Errorf("%d bytes are a signature", len(odd))
		}
	}
	der, err := derOf(append(bytes.Repeat([]byte{0}, 31), append([]byte{1}, bytes.Repeat([]byte{0xff}, 32)...)...))
	if err != nil || !bytes.HasPrefix(der, []byte{0x30, 38, 2, 1, 1, 2, 33, 0, 0xff}) {
		t.Errorf("%x %v", der, err)
	}
}
