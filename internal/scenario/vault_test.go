package scenario

// Promise: an edge serves TLS by a key that Vault's Transit engine has. It waits for an
// engine that is sealed, within the handshake's time, takes up a token that an agent has
// renewed, and asks once where it is refused.

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/internal/transitengine"
)

// vault is an edge whose key an engine has.
type vault struct {
	*transitengine.Engine
	edge      *Gateway
	addr      string
	ca        *CA
	tokenFile string
}

func newVault(t *testing.T, more string) *vault {
	t.Helper()
	v := &vault{Engine: transitengine.New(t, "s.first"), ca: NewCA(t), addr: FreeAddr(t), tokenFile: filepath.Join(t.TempDir(), "token")}
	leaf := v.ca.Leaf(t, "localhost", "127.0.0.1")
	v.Keys["site"] = []crypto.Signer{keyOf(t, leaf)}
	srv := httptest.NewServer(v.Engine)
	t.Cleanup(srv.Close)
	v.token(t, "s.first")
	v.edge = Run(t, fmt.Sprintf(`version: 1
tls:
  public: {certificates: {kms: {vault: %q, key: site, cert: %q, token: %q}}, session_tickets: false}
listeners: [{name: edge, address: %q, tls: public}]
routes: [{to: trace}]
%s`, srv.URL, leaf.CertFile, v.tokenFile, v.addr, more))
	return v
}

func keyOf(t *testing.T, leaf Leaf) crypto.Signer {
	t.Helper()
	text, err := os.ReadFile(leaf.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key.(crypto.Signer) //nolint:forcetypeassert // of a leaf
}

// token is what an agent does that has got another.
func (v *vault) token(t *testing.T, token string) {
	t.Helper()
	if err := os.WriteFile(v.tokenFile, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (v *vault) ask(t *testing.T) error {
	return answers(v.ca.Client(t, false), "https://"+v.addr+"/")
}

func TestAnEdgeServesByAKeyOfVault(t *testing.T) {
	v := newVault(t, "")
	if err := v.ask(t); err != nil {
		t.Fatal(err)
	}
	if _, metrics := v.edge.Admin(t, http.MethodGet, "/metrics"); !strings.Contains(metrics, `pqgw_remote_sign_seconds_count{key="site",result="ok"} 1`) {
		t.Error("the metrics tell nothing of the signature")
	}
	t.Run("sealed for a while", func(t *testing.T) {
		before := v.Calls.Load()
		v.Sealed.Store(5)
		if err := v.ask(t); err != nil {
			t.Errorf("%v", err)
		}
		if n := v.Calls.Load() - before; n != 6 {
			t.Errorf("the engine was asked %d times, want 6", n)
		}
	})
	t.Run("a token that was renewed", func(t *testing.T) {
		next := "s.second"
		v.Token.Store(&next)
		before := v.Calls.Load()
		if err := v.ask(t); err == nil {
			t.Error("served by a token that has ended")
		}
		if n := v.Calls.Load() - before; n != 1 {
			t.Errorf("a refusal was asked for %d times", n)
		}
		v.edge.Stdout.AwaitText(t, "no_certificate")
		v.token(t, next)
		if err := v.ask(t); err != nil {
			t.Errorf("by the next token: %v", err)
		}
	})
	if said := v.edge.Stdout.String() + v.edge.Stderr.String(); strings.Contains(said, "s.first") || strings.Contains(said, "s.second") {
		t.Error("the log shows a token")
	}
}

func TestASealedVaultHoldsAHandshakeNoLongerThanItMay(t *testing.T) {
	v := newVault(t, "limits: {handshake_timeout: 1s}")
	v.Sealed.Store(1 << 20)
	begun := time.Now()
	if err := v.ask(t); err == nil {
		t.Error("served by a sealed engine")
	}
	if d := time.Since(begun); d > 10*time.Second {
		t.Errorf("the client waited %v", d)
	}
	v.Sealed.Store(0)
	if err := v.ask(t); err != nil {
		t.Errorf("after the seal: %v", err)
	}
}
