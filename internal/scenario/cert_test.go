package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/internal/peers"
)

// The promise: the certificates that `pqgw cert` makes are good to others:
// OpenSSL 3.5 verifies the chain and the name.

func TestOpenSSLVerifiesOurCertificates(t *testing.T) {
	x := peers.NewTrixie(t)
	outside, inside := x.TempDir(t)
	for _, args := range [][]string{{"cert", "ca", outside}, {"cert", "issue", outside, "--name", "hop.example.com"}} {
		if code := Pqgw(t, args...).ExitCode(t); code != 0 {
			t.Fatalf("pqgw %v exited with %d", args, code)
		}
	}
	if info, err := os.Stat(filepath.Join(outside, "hop.example.com-key.pem")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file: %v, error %v; want mode 0600", info, err)
	}
	for _, name := range []string{"hop.example.com", "localhost"} {
		out, err := x.Command(t.Context(), "openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", name,
			"-CAfile", inside+"/ca.pem", inside+"/hop.example.com.pem").CombinedOutput()
		if err != nil || !strings.Contains(string(out), ": OK") {
			t.Errorf("openssl verify for %s: %v\n%s", name, err, out)
		}
	}
	if out, err := x.Command(t.Context(), "openssl", "verify", "-verify_hostname", "other.example.com",
		"-CAfile", inside+"/ca.pem", inside+"/hop.example.com.pem").CombinedOutput(); err == nil {
		t.Errorf("openssl verified it for another name:\n%s", out)
	}
}
