package scenario

// Promise: an edge serves TLS by a key that only `pqgw kms serve` holds, goes on when
// that is restarted, and shows how long signatures take; whoever is not on the
// signer's list gets none.

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// signer runs `pqgw kms serve` at addr until the returned function stops it.
func signer(t *testing.T, addr, dir string, pairDir string) (stop func()) {
	t.Helper()
	g := &Gateway{Dir: shortDir(t)}
	g.start(t, "kms", "serve", "--listen", "zap-rpc+tls://"+addr, "--dir", filepath.Join(dir, "store"), "--master-file", filepath.Join(dir, "master"),
		"--cert", filepath.Join(pairDir, "signer.pem"), "--key", filepath.Join(pairDir, "signer-key.pem"), "--ca", filepath.Join(pairDir, "ca.pem"),
		"--allow", filepath.Join(dir, "allow.yaml"))
	Await(t, "the signer to accept connections", func() bool {
		g.mustRun(t)
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	})
	return func() { g.Stop(t) }
}

// keyStore makes a store with the key of leaf as "site".
func keyStore(t *testing.T, leaf Leaf, allow string) (dir string) {
	t.Helper()
	dir = shortDir(t)
	at := []string{"--dir", filepath.Join(dir, "store"), "--master-file", filepath.Join(dir, "master")}
	if code := Pqgw(t, append([]string{"kms", "init"}, at...)...).ExitCode(t); code != 0 {
		t.Fatalf("kms init exits %d", code)
	}
	key, err := os.Open(leaf.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	defer key.Close()
	cmd := exec.Command(Binary(t), append([]string{"kms", "put", "site", "--kind", "certificate", "--public", leaf.CertFile}, at...)...)
	cmd.Stdin = key
	if code := StartProcess(t, cmd).ExitCode(t); code != 0 {
		t.Fatalf("kms put exits %d", code)
	}
	if err := os.WriteFile(filepath.Join(dir, "allow.yaml"), []byte(allow), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// askingEdge is the configuration of an edge that has a signer at "at" sign.
func askingEdge(addr, at, pki string, leaf Leaf) string {
	return fmt.Sprintf(`version: 1
tls:
  signer: {certificates: {files: {cert: %q, key: %q}}, ca: %q, pq: require}
  public: {certificates: {kms: {server: "zap-rpc+tls://%s", key: site, cert: %q, tls: signer}}, session_tickets: false}
listeners: [{name: edge, address: %q, tls: public}]
routes: [{to: trace}]
`, filepath.Join(pki, "edge.pem"), filepath.Join(pki, "edge-key.pem"), filepath.Join(pki, "ca.pem"), at, leaf.CertFile, addr)
}

func TestAnEdgeServesByAKeyThatOnlyTheSignerHolds(t *testing.T) {
	ca := NewCA(t)
	leaf := ca.Leaf(t, "localhost", "127.0.0.1")
	pki := certificates(t, "edge", "signer")
	dir := keyStore(t, leaf, "keys: {site: [{peer: edge, for: [tls-server]}]}")
	addr, at := FreeAddr(t), FreeAddr(t)
	stop := signer(t, at, dir, pki)
	g := Run(t, askingEdge(addr, at, pki, leaf))

	ask := func() error { return answers(ca.Client(t, false), "https://"+addr+"/") }
	if err := ask(); err != nil {
		t.Fatalf("%v\n%s", err, g.Stderr.String())
	}
	stop()
	results := make(chan error, 4)
	for range cap(results) {
		go func() { results <- ask() }()
	}
	signer(t, at, dir, pki)
	for range cap(results) {
		if err := <-results; err != nil {
			t.Errorf("while the signer restarts: %v", err)
		}
	}
	if _, metrics := g.Admin(t, http.MethodGet, "/metrics"); !strings.Contains(metrics, `pqgw_remote_sign_seconds_count{key="site",result="ok"}`) {
		t.Error("the metrics tell nothing of signatures")
	}
	audit := Pqgw(t, "kms", "audit", "--verify", "--dir", filepath.Join(dir, "store"), "--master-file", filepath.Join(dir, "master"))
	if code := audit.ExitCode(t); code != 0 {
		t.Errorf("kms audit --verify exits %d", code)
	}
}

func TestASignerTakesAnotherListBySIGHUPAndSignsForNobodyElse(t *testing.T) {
	ca := NewCA(t)
	leaf := ca.Leaf(t, "localhost", "127.0.0.1")
	pki := certificates(t, "edge", "signer")
	dir := keyStore(t, leaf, "keys: {site: [{peer: other, for: [tls-server]}]}")
	addr, at := FreeAddr(t), FreeAddr(t)
	s := &Gateway{Dir: shortDir(t)}
	s.start(t, "kms", "serve", "--listen", "zap-rpc+tls://"+at, "--dir", filepath.Join(dir, "store"), "--master-file", filepath.Join(dir, "master"),
		"--cert", filepath.Join(pki, "signer.pem"), "--key", filepath.Join(pki, "signer-key.pem"), "--ca", filepath.Join(pki, "ca.pem"),
		"--allow", filepath.Join(dir, "allow.yaml"))
	s.Stderr.AwaitText(t, "signing")
	g := Run(t, askingEdge(addr, at, pki, leaf))
	client := ca.Client(t, false)
	if resp, err := client.Get("https://" + addr + "/"); err == nil {
		_ = resp.Body.Close()
		t.Fatal("the edge got a signature that it may not have")
	}
	g.Stdout.AwaitText(t, "no_certificate")
	if err := os.WriteFile(filepath.Join(dir, "allow.yaml"), []byte("keys: {site: [{peer: edge, for: [tls-server]}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Signal(t, syscall.SIGHUP)
	s.Stderr.AwaitText(t, "list read")
	resp, err := client.Get("https://" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

func TestKMSServeNamesWhatIsMissing(t *testing.T) {
	dir := keyStore(t, NewCA(t).Leaf(t, "localhost"), "keys: {site: [{peer: other, for: [tls-server]}]}")
	p := Pqgw(t, "kms", "serve", "--dir", filepath.Join(dir, "store"), "--master-file", filepath.Join(dir, "master"))
	if code := p.ExitCode(t); code != 2 {
		t.Errorf("exit %d, want 2", code)
	}
	p.Stderr.AwaitText(t, "is missing")
}
