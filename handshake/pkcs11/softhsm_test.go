//go:build pkcs11

package pkcs11

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	p11 "github.com/miekg/pkcs11"
	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/internal/peers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	label = "edge"
	right = "right-pin"
)

// hsm is a SoftHSM of the test's own with one token.
type hsm struct {
	module, util, tokens string
}

func newHSM(t testing.TB) *hsm {
	t.Helper()
	module, util := peers.SoftHSM(t)
	dir := t.TempDir()
	h := &hsm{module: module, util: util, tokens: filepath.Join(dir, "tokens")}
	if err := os.Mkdir(h.tokens, 0o700); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "softhsm2.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "directories.tokendir = %s\nlog.level = ERROR\n", h.tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOFTHSM2_CONF", conf)
	h.run(t, "--init-token", "--free", "--label", label, "--pin", right, "--so-pin", "so-pin")
	return h
}

func (h *hsm) run(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command(h.util, args...).CombinedOutput(); err != nil {
		t.Fatalf("softhsm2-util %v: %v\n%s", args, err, out)
	}
}

// put stores a key pair in the token.
func (h *hsm) put(t testing.TB, name, id string, key crypto.Signer, more ...string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run(t, append([]string{"--import", file, "--token", label, "--label", name, "--id", id, "--pin", right}, more...)...)
}

func (h *hsm) settings(change func(*Settings)) Settings {
	s := Settings{Module: h.module, Token: label, PIN: right, Timeout: 5 * time.Second}
	if change != nil {
		change(&s)
	}
	return s
}

func (h *hsm) open(t testing.TB, change func(*Settings)) *keys {
	t.Helper()
	k, err := Open(h.settings(change))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k.(*keys) //nolint:forcetypeassert // of this build
}

// as runs use in a session that may write, as other tools would.
func (h *hsm) as(t testing.TB, k *keys, use func(ctx *p11.Ctx, sh p11.SessionHandle) error) {
	t.Helper()
	sh, err := k.t.m.ctx.OpenSession(k.t.slot, p11.CKF_SERIAL_SESSION|p11.CKF_RW_SESSION)
	if err == nil {
		err = use(k.t.m.ctx, sh)
		_ = k.t.m.ctx.CloseSession(sh)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (h *hsm) putCertificate(t testing.TB, k *keys, name string, id, der []byte) {
	t.Helper()
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	h.as(t, k, func(ctx *p11.Ctx, sh p11.SessionHandle) error {
		_, err := ctx.CreateObject(sh, []*p11.Attribute{
			p11.NewAttribute(p11.CKA_CLASS, p11.CKO_CERTIFICATE), p11.NewAttribute(p11.CKA_CERTIFICATE_TYPE, p11.CKC_X_509),
			p11.NewAttribute(p11.CKA_TOKEN, true), p11.NewAttribute(p11.CKA_PRIVATE, false), p11.NewAttribute(p11.CKA_LABEL, name),
			p11.NewAttribute(p11.CKA_ID, id), p11.NewAttribute(p11.CKA_SUBJECT, cert.RawSubject), p11.NewAttribute(p11.CKA_VALUE, der),
		})
		return err
	})
}

func signBy(t testing.TB, s crypto.Signer, input []byte, opts crypto.SignerOpts) []byte {
	t.Helper()
	signature, err := s.Sign(rand.Reader, input, opts)
	if err != nil {
		t.Fatal(err)
	}
	return signature
}
