package scenario

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Gateway is a running pqgw. At the end of the test it is stopped by SIGTERM
// and must exit 0.
type Gateway struct {
	*Process
	// Dir is a folder of its own, with a short path: the admin socket lies in it.
	Dir string
	// Config is its configuration file, when it runs from one.
	Config string

	binary  string   // "" for the ordinary one
	env     []string // beside the test's own
	stopped bool
}

// Pqgw starts the binary with any arguments and no expectations: for commands
// that end by themselves.
func Pqgw(t testing.TB, args ...string) *Process {
	t.Helper()
	return StartProcess(t, exec.Command(Binary(t), args...))
}

// Run starts `pqgw run` with a configuration, to which it adds an admin socket,
// and returns when the gateway is ready.
func Run(t testing.TB, config string) *Gateway {
	t.Helper()
	return RunBy(t, "", nil, config)
}

// RunBy is [Run] of another binary, with more environment.
func RunBy(t testing.TB, binary string, env []string, config string) *Gateway {
	t.Helper()
	dir := shortDir(t)
	g := &Gateway{Dir: dir, Config: filepath.Join(dir, "pqgw.yaml"), binary: binary, env: env}
	g.WriteConfig(t, config)
	g.start(t, "run", "-c", g.Config)
	g.awaitReady(t)
	return g
}

// Edge starts `pqgw edge` on a free loopback port with a data folder of its
// own, and returns with its address when it accepts connections.
func Edge(t testing.TB, args ...string) (g *Gateway, addr string) {
	t.Helper()
	addr = FreeAddr(t)
	g = &Gateway{Dir: shortDir(t)}
	g.start(t, append([]string{"edge", "--listen", addr, "--data-dir", filepath.Join(g.Dir, "data")}, args...)...)
	Await(t, "the edge to accept connections", func() bool {
		g.mustRun(t)
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
	return g, addr
}

// WriteConfig replaces the configuration file, in one step.
func (g *Gateway) WriteConfig(t testing.TB, config string) {
	t.Helper()
	config = strings.TrimSpace(config) + "\nadmin: {address: \"unix:" + g.adminSocket() + "\"}\n"
	next := g.Config + ".next"
	if err := os.WriteFile(next, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, g.Config); err != nil {
		t.Fatal(err)
	}
}

// Stop ends it by SIGTERM and fails the test unless it exits 0.
func (g *Gateway) Stop(t testing.TB) {
	t.Helper()
	if g.stopped {
		return
	}
	g.stopped = true
	g.Signal(t, syscall.SIGTERM)
	if code := g.ExitCode(t); code != 0 {
		t.Errorf("after SIGTERM the gateway exited with %d, want 0", code)
	}
}

// Admin asks the admin socket of a gateway started by Run.
func (g *Gateway) Admin(t testing.TB, method, path string) (status int, body string) {
	t.Helper()
	status, body, err := g.askAdmin(method, path)
	if err != nil {
		t.Fatalf("%s %s on the admin socket: %v", method, path, err)
	}
	return status, body
}

func (g *Gateway) askAdmin(method, path string) (int, string, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", g.adminSocket())
		},
	}
	client := http.Client{Transport: transport, Timeout: Patience}
	req, err := http.NewRequest(method, "http://admin"+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func (g *Gateway) adminSocket() string { return filepath.Join(g.Dir, "admin.sock") }

func (g *Gateway) start(t testing.TB, args ...string) {
	t.Helper()
	if g.binary == "" {
		g.binary = Binary(t)
	}
	cmd := exec.Command(g.binary, args...)
	if len(g.env) > 0 {
		cmd.Env = append(os.Environ(), g.env...)
	}
	g.Process = StartProcess(t, cmd)
	t.Cleanup(func() { g.Stop(t) })
}

func (g *Gateway) awaitReady(t testing.TB) {
	t.Helper()
	Await(t, "the gateway to be ready", func() bool {
		g.mustRun(t)
		status, _, err := g.askAdmin(http.MethodGet, "/readyz")
		return err == nil && status == http.StatusOK
	})
}

// mustRun fails the test if the gateway has ended by itself.
func (g *Gateway) mustRun(t testing.TB) {
	t.Helper()
	select {
	case <-g.Exited():
		g.stopped = true
		t.Fatalf("the gateway ended by itself with exit code %d", g.ExitCode(t))
	default:
	}
}

// shortDir makes a temporary folder whose path leaves room for the name of a
// unix socket (108 bytes in all), which t.TempDir's may not.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pqgw-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
