package scenario

// Promise: a pqgw built with -tags pkcs11 serves TLS by a key that only the token has; it
// refuses a wrong PIN at the start and tries it once, goes on when the token's server is
// restarted, waits no longer than a handshake may for one that hangs, and `pqgw kms serve` signs by a token for others. Another build says what
// it lacks.

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/internal/peers"
)

func tokenEdge(addr, module, pin string, leaf Leaf) string {
	return fmt.Sprintf(`version: 1
tls:
  public: {certificates: {kms: {pkcs11: {module: %q, token: edge, pin: %q}, key: site, cert: %q}}, session_tickets: false}
listeners: [{name: edge, address: %q, tls: public}]
routes: [{to: trace}]
`, module, pin, leaf.CertFile, addr)
}

func answers(client *http.Client, url string) error {
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

func TestAnEdgeServesByAKeyOfAToken(t *testing.T) {
	ca := NewCA(t)
	leaf := ca.Leaf(t, "localhost", "127.0.0.1")
	token := NewToken(t)
	token.Put(t, "site", "01", leaf)
	t.Setenv("PQGW_TEST_PIN", TokenPIN)
	addr := FreeAddr(t)
	g := RunBy(t, BinaryWithPKCS11(t), []string{token.Env}, tokenEdge(addr, token.Module, "${PQGW_TEST_PIN}", leaf))
	out, err := exec.Command(peers.Curl(t), "-sS", "--fail", "--cacert", ca.File, "https://"+addr+"/").CombinedOutput()
	if err != nil {
		t.Errorf("curl: %v\n%s", err, out)
	}
	var facts tlsFacts
	NodeResult(t, &facts, "tls-client.mjs", "127.0.0.1", Port(t, addr), "X25519MLKEM768", ca.File, "localhost")
	if !facts.Authorized || facts.Group != "X25519MLKEM768" {
		t.Errorf("node: %+v", facts)
	}
	if _, metrics := g.Admin(t, http.MethodGet, "/metrics"); !strings.Contains(metrics, `pqgw_remote_sign_seconds_count{key="site",result="ok"} 2`) {
		t.Error("the metrics do not tell of the two signatures")
	}

	// A reload with another PIN is refused, and changes nothing.
	g.WriteConfig(t, tokenEdge(addr, token.Module, "wrong-pin", leaf))
	g.Signal(t, syscall.SIGHUP)
	g.Stderr.AwaitText(t, "the token does not take the PIN")
	if err := answers(ca.Client(t, false), "https://"+addr+"/"); err != nil {
		t.Errorf("after a reload with a wrong PIN: %v", err)
	}
	for _, secret := range []string{TokenPIN, "wrong-pin"} {
		if strings.Contains(g.Stderr.String(), secret) {
			t.Errorf("the log shows a PIN")
		}
	}
}

func TestAWrongPINIsRefusedAtTheStart(t *testing.T) {
	leaf := NewCA(t).Leaf(t, "localhost", "127.0.0.1")
	token := NewToken(t)
	token.Put(t, "site", "01", leaf)
	file := filepath.Join(t.TempDir(), "pqgw.yaml")
	if err := os.WriteFile(file, []byte(tokenEdge(FreeAddr(t), token.Module, "wrong-pin", leaf)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(BinaryWithPKCS11(t), "run", "-c", file)
	cmd.Env = append(os.Environ(), token.Env)
	p := StartProcess(t, cmd)
	if code := p.ExitCode(t); code != 3 {
		t.Errorf("exit %d, want 3", code)
	}
	said := p.Stderr.String()
	for _, want := range []string{"tls public: certificates.kms.pkcs11.pin", `token "edge"`, "CKR_PIN_INCORRECT", "not tried again"} {
		if !strings.Contains(said, want) {
			t.Errorf("stderr lacks %q", want)
		}
	}
	if strings.Contains(said, "wrong-pin") {
		t.Error("stderr shows the PIN")
	}

	p = Pqgw(t, "config", "validate", "-c", file)
	if code := p.ExitCode(t); code != 3 {
		t.Errorf("a build without PKCS#11 exits %d, want 3", code)
	}
	if text := p.Stdout.String() + p.Stderr.String(); !strings.Contains(text, "pqgw.yaml:3:") || !strings.Contains(text, "-tags pkcs11") {
		t.Errorf("a build without PKCS#11 says %s", text)
	}
}

// tokenServer is p11-kit with the token in another process, or in one for each client.
type tokenServer struct {
	*Process
	module, socket string
	token          *Token
}

func lend(t *testing.T, token *Token, socket string) *tokenServer {
	t.Helper()
	program, client := peers.P11Kit(t)
	_ = os.Remove(socket)
	cmd := exec.Command(program, "server", "--foreground", "--provider", token.Module, "--name", socket, "pkcs11:token=edge")
	cmd.Env = append(os.Environ(), token.Env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s := &tokenServer{StartProcess(t, cmd), client, socket, token}
	t.Cleanup(func() { s.all(syscall.SIGKILL) })
	Await(t, "the token's server", func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return s
}

// all signals the server and what it has started.
func (s *tokenServer) all(sig syscall.Signal) { _ = syscall.Kill(-s.PID(), sig) }

func lentEdge(t *testing.T, more string) (g *Gateway, s *tokenServer, ask func() error) {
	t.Helper()
	ca := NewCA(t)
	leaf := ca.Leaf(t, "localhost", "127.0.0.1")
	token := NewToken(t)
	token.Put(t, "site", "01", leaf)
	s = lend(t, token, filepath.Join(shortDir(t), "p11"))
	addr := FreeAddr(t)
	g = RunBy(t, BinaryWithPKCS11(t), []string{"P11_KIT_SERVER_ADDRESS=unix:path=" + s.socket}, tokenEdge(addr, s.module, TokenPIN, leaf)+more)
	ask = func() error { return answers(ca.Client(t, false), "https://"+addr+"/") }
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	return g, s, ask
}

func TestAnEdgeOutlivesARestartOfTheTokensServer(t *testing.T) {
	_, s, ask := lentEdge(t, "")
	s.all(syscall.SIGKILL)
	<-s.Exited()
	results := make(chan error, 4)
	for range cap(results) {
		go func() { results <- ask() }()
	}
	lend(t, s.token, s.socket)
	for range cap(results) {
		if err := <-results; err != nil {
			t.Errorf("while the token restarts: %v", err)
		}
	}
}

func TestATokenThatHangsHoldsNothingUp(t *testing.T) {
	g, s, ask := lentEdge(t, "limits: {handshake_timeout: 1s}\n")
	s.all(syscall.SIGSTOP)
	begun := time.Now()
	if err := ask(); err == nil {
		t.Error("a token that hangs has signed")
	}
	if d := time.Since(begun); d > 10*time.Second {
		t.Errorf("a handshake waited %v", d)
	}
	g.Stdout.AwaitText(t, "no_certificate")
	s.all(syscall.SIGCONT)
	Await(t, "a handshake after the token went on", func() bool { return ask() == nil })
	s.all(syscall.SIGSTOP)
	if err := ask(); err == nil {
		t.Error("a token that hangs has signed")
	}
	g.Stop(t) // within the harness's patience, and with 0
}

func TestASignerServesByAToken(t *testing.T) {
	ca := NewCA(t)
	leaf := ca.Leaf(t, "localhost", "127.0.0.1")
	token := NewToken(t)
	token.Put(t, "site", "01", leaf)
	pki, dir := certificates(t, "edge", "signer"), shortDir(t)
	for name, text := range map[string]string{"allow.yaml": "keys: {site: [{peer: edge, for: [tls-server]}]}", "pin": TokenPIN + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	addr, at := FreeAddr(t), FreeAddr(t)
	s := &Gateway{Dir: dir, binary: BinaryWithPKCS11(t), env: []string{token.Env}}
	s.start(t, "kms", "serve", "--listen", "zap-rpc+tls://"+at, "--pkcs11-module", token.Module, "--pkcs11-token", "edge",
		"--pkcs11-pin-file", filepath.Join(dir, "pin"), "--cert", filepath.Join(pki, "signer.pem"), "--key", filepath.Join(pki, "signer-key.pem"),
		"--ca", filepath.Join(pki, "ca.pem"), "--allow", filepath.Join(dir, "allow.yaml"))
	s.Stderr.AwaitText(t, "signing")
	Run(t, askingEdge(addr, at, pki, leaf))
	if err := errors.Join(answers(ca.Client(t, false), "https://"+addr+"/"), answers(ca.Client(t, true), "https://"+addr+"/")); err != nil {
		t.Error(err)
	}
}
