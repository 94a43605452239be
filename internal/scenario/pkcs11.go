package scenario

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hanzoai/pqgw/internal/peers"
)

// BinaryWithPKCS11 is the path of a pqgw that was built with the tag pkcs11.
func BinaryWithPKCS11(t testing.TB) string {
	t.Helper()
	path, err := tagged()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var tagged = sync.OnceValues(func() (string, error) {
	if _, err := binary(); err != nil { // whose folder it lies in
		return "", err
	}
	return compile(filepath.Join(builtIn, "pqgw-pkcs11"), "-tags", "pkcs11")
})

// Token is a SoftHSM token "edge" with a folder of its own.
type Token struct {
	// Module is SoftHSM's library; Env makes it find the token.
	Module, Env string

	util, dir string
}

// TokenPIN opens each [Token].
const TokenPIN = "4711-of-the-test"

// NewToken makes one without keys.
func NewToken(t testing.TB) *Token {
	t.Helper()
	module, util := peers.SoftHSM(t)
	dir := shortDir(t)
	k := &Token{Module: module, util: util, dir: filepath.Join(dir, "tokens"), Env: "SOFTHSM2_CONF=" + filepath.Join(dir, "softhsm2.conf")}
	if err := os.Mkdir(k.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	conf := fmt.Appendf(nil, "directories.tokendir = %s\nlog.level = ERROR\n", k.dir)
	if err := os.WriteFile(filepath.Join(dir, "softhsm2.conf"), conf, 0o600); err != nil {
		t.Fatal(err)
	}
	k.run(t, "--init-token", "--free", "--label", "edge", "--pin", TokenPIN, "--so-pin", "of-the-officer")
	return k
}

// Put stores the key of a leaf by a label and an id.
func (k *Token) Put(t testing.TB, label, id string, leaf Leaf) {
	t.Helper()
	k.run(t, "--import", leaf.KeyFile, "--token", "edge", "--label", label, "--id", id, "--pin", TokenPIN)
}

func (k *Token) run(t testing.TB, args ...string) {
	t.Helper()
	cmd := exec.Command(k.util, args...)
	cmd.Env = append(os.Environ(), k.Env)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("softhsm2-util %v: %v\n%s", args, err, out)
	}
}
