package scenario

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/internal/peers"
)

// Issuer is a running Pebble, the ACME server for tests.
type Issuer struct {
	*Process
	// Directory is its URL, whose certificate is of CA.
	Directory string
	CA        *CA
	DNS       *Nameserver
	// HTTP and TLS are where it looks for http-01 and tls-alpn-01: 127.0.0.1
	// and the ports that are its 80 and 443.
	HTTP, TLS string

	manage string
	config string
	roots  int
}

// IssuerOptions say how a Pebble differs from the usual.
type IssuerOptions struct {
	Life  time.Duration // of certificates; 90 days where 0
	Sleep time.Duration // before each validation
	EAB   [2]string     // key id and MAC key that accounts must have, if any
	OCSP  string        // URL of the responder that certificates name, if any
	Roots int           // chains that are offered beside the usual one
}

// NewIssuer starts one.
func NewIssuer(t testing.TB, o IssuerOptions) *Issuer {
	t.Helper()
	ca := NewCA(t)
	i := &Issuer{CA: ca, roots: o.Roots, DNS: NewNameserver(t), HTTP: FreeAddr(t), TLS: FreeAddr(t), manage: FreeAddr(t)}
	leaf, addr := ca.Leaf(t, "localhost", "127.0.0.1"), FreeAddr(t)
	i.Directory = "https://" + addr + "/dir"
	if o.Life == 0 {
		o.Life = 90 * 24 * time.Hour
	}
	settings := map[string]any{
		"listenAddress": addr, "managementListenAddress": i.manage,
		"certificate": leaf.CertFile, "privateKey": leaf.KeyFile,
		"httpPort": atoi(t, Port(t, i.HTTP)), "tlsPort": atoi(t, Port(t, i.TLS)),
		"retryAfter":   map[string]int{"authz": 1, "order": 1},
		"keyAlgorithm": "ecdsa", "ocspResponderURL": o.OCSP,
		"profiles": map[string]any{"default": map[string]any{"description": "of the test", "validityPeriod": int(o.Life / time.Second)}},
	}
	if o.EAB[0] != "" {
		settings["externalAccountBindingRequired"] = true
		settings["externalAccountMACKeys"] = map[string]string{o.EAB[0]: o.EAB[1]}
	}
	if o.OCSP != "" {
		settings["keyAlgorithm"] = "rsa" // it gives out no other key, for the responder to sign with
	}
	data, err := json.Marshal(map[string]any{"pebble": settings})
	if err != nil {
		t.Fatal(err)
	}
	i.config = filepath.Join(t.TempDir(), "pebble.json")
	if err := os.WriteFile(i.config, data, 0o600); err != nil {
		t.Fatal(err)
	}
	i.Start(t, o.Sleep)
	return i
}

// Start starts it, again where it was stopped: it then knows nothing of before.
func (i *Issuer) Start(t testing.TB, sleep time.Duration) {
	t.Helper()
	cmd := exec.Command(peers.Pebble(t), "-config", i.config, "-dnsserver", i.DNS.Addr)
	cmd.Env = append(os.Environ(), "PEBBLE_WFE_NONCEREJECT=0", "PEBBLE_AUTHZREUSE=0", "PEBBLE_VA_NOSLEEP=1",
		"PEBBLE_ALTERNATE_ROOTS="+strconv.Itoa(i.roots))
	if sleep > 0 {
		cmd.Env = append(cmd.Env, "PEBBLE_VA_NOSLEEP=0", "PEBBLE_VA_SLEEPTIME="+strconv.Itoa(int(sleep/time.Second)))
	}
	i.Process = StartProcess(t, cmd)
	Await(t, "Pebble to answer", func() bool {
		resp, err := i.client(t).Get(i.Directory)
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil
	})
}

// Kill ends it at once.
func (i *Issuer) Kill() { i.kill() }

func (i *Issuer) client(t testing.TB) *http.Client { return i.CA.Client(t, false) }

// ask gets a path of its management interface.
func (i *Issuer) ask(t testing.TB, path string) []byte {
	t.Helper()
	resp, err := i.client(t).Get("https://" + i.manage + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("Pebble says %s of %s: %v", resp.Status, path, err)
	}
	return body
}

// Roots are those that its certificates chain to.
func (i *Issuer) Roots(t testing.TB) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(i.ask(t, "/roots/0")) {
		t.Fatal("Pebble gives no root")
	}
	return pool
}

// PEM gives the first block of what its management interface has at path.
func (i *Issuer) PEM(t testing.TB, path string) []byte {
	t.Helper()
	block, _ := pem.Decode(i.ask(t, path))
	if block == nil {
		t.Fatalf("Pebble has nothing at %s", path)
	}
	return block.Bytes
}

// Status is what it says of a certificate: Valid or Revoked.
func (i *Issuer) Status(t testing.TB, cert *x509.Certificate) string {
	t.Helper()
	var status struct{ Status string }
	if err := json.Unmarshal(i.ask(t, fmt.Sprintf("/cert-status-by-serial/%x", cert.SerialNumber)), &status); err != nil {
		t.Fatal(err)
	}
	return status.Status
}

// Issued counts the certificates that it has issued.
func (i *Issuer) Issued() int {
	return strings.Count(i.Stdout.String()+i.Stderr.String(), "Issued certificate serial")
}

// YAML is a source of certificates by this issuer.
func (i *Issuer) YAML(more string) string {
	return fmt.Sprintf("acme: {directory: %q, ca: %q, check_every: 1s, %s}", i.Directory, i.CA.File, more)
}

// Peek makes a handshake that names host and gives the leaf that was served,
// which must be good.
func (i *Issuer) Peek(t testing.TB, addr, host string) (*x509.Certificate, error) {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: i.Roots(t), ServerName: host})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0], nil
}

// AwaitLeaf awaits that a certificate for host is served that is not the one of before.
func (i *Issuer) AwaitLeaf(t testing.TB, addr, host string, before *x509.Certificate) (leaf *x509.Certificate) {
	t.Helper()
	Await(t, "a new certificate for "+host, func() bool {
		var err error
		leaf, err = i.Peek(t, addr, host)
		return err == nil && (before == nil || leaf.SerialNumber.Cmp(before.SerialNumber) != 0)
	})
	return leaf
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
