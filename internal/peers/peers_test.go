package peers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// recorder takes the verdict that a missing peer gives its test.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (r *recorder) Helper() {}

func (r *recorder) Skipf(format string, args ...any) { r.skipped = format }

func (r *recorder) Fatalf(format string, args ...any) { r.failed = format }

func TestMissingPeerSkips(t *testing.T) {
	t.Setenv(EnvDir, t.TempDir())
	t.Setenv(EnvRequire, "")
	var r recorder
	H2spec(&r)
	if r.skipped == "" || r.failed != "" {
		t.Errorf("a missing peer gave skip %q, failure %q; want a skip alone", r.skipped, r.failed)
	}
}

func TestMissingPeerFailsWherePeersAreRequired(t *testing.T) {
	t.Setenv(EnvDir, t.TempDir())
	t.Setenv(EnvRequire, "1")
	var r recorder
	H2spec(&r)
	if r.failed == "" || r.skipped != "" {
		t.Errorf("a missing peer gave skip %q, failure %q; want a failure alone", r.skipped, r.failed)
	}
}

func TestDirIsInTheCacheUnlessNamed(t *testing.T) {
	t.Setenv(EnvDir, "")
	t.Setenv("XDG_CACHE_HOME", "/some/cache")
	if got, want := Dir(), filepath.Join("/some/cache", "pqgw-peers"); got != want {
		t.Errorf("Dir() = %q, want %q", got, want)
	}
	t.Setenv(EnvDir, "/elsewhere")
	if got := Dir(); got != "/elsewhere" {
		t.Errorf("Dir() = %q, want /elsewhere", got)
	}
}

func TestNodeHasTheHybridGroups(t *testing.T) {
	const script = `const {TLSSocket} = require('tls'), tls = require('tls');
for (const g of ['X25519MLKEM768', 'SecP256r1MLKEM768', 'SecP384r1MLKEM1024']) tls.createSecureContext({ecdhCurve: g});
console.log(process.versions.openssl)`
	out := run(t, exec.CommandContext(t.Context(), Node(t), "-e", script))
	if !strings.HasPrefix(out, "3.5") {
		t.Errorf("node's OpenSSL is %s, want 3.5", out)
	}
}

func TestWSIsWhereScriptsFindIt(t *testing.T) {
	modules := NodeModules(t)
	script := `console.log(typeof require('module').createRequire(process.argv[1] + '/')('ws').WebSocketServer)`
	if out := run(t, exec.CommandContext(t.Context(), Node(t), "-e", script, modules)); out != "function" {
		t.Errorf("ws exports a WebSocketServer of type %q", out)
	}
}

func TestProgramsRun(t *testing.T) {
	client, server := GRPCInterop(t)
	for name, cmd := range map[string]*exec.Cmd{
		"chromium":    exec.CommandContext(t.Context(), Chromium(t), "--version"),
		"curl":        exec.CommandContext(t.Context(), Curl(t), "--version"),
		"strace":      exec.CommandContext(t.Context(), Strace(t), "--version"),
		"h2spec":      exec.CommandContext(t.Context(), H2spec(t), "--version"),
		"grpc client": exec.CommandContext(t.Context(), client, "--help"),
		"grpc server": exec.CommandContext(t.Context(), server, "--help"),
		"grpcurl":     exec.CommandContext(t.Context(), GRPCurl(t), "--version"),
		"pebble":      exec.CommandContext(t.Context(), Pebble(t), "-version"),
	} {
		t.Run(name, func(t *testing.T) { run(t, cmd) })
	}
}

func TestTrixieHasTheHybridGroupsAndHTTP3(t *testing.T) {
	x := NewTrixie(t)
	for name, want := range map[string]struct {
		args   []string
		output string
	}{
		"curl":    {[]string{"--version"}, "HTTP3"},
		"openssl": {[]string{"list", "-tls-groups", "-tls1_3"}, "X25519MLKEM768"},
		"nginx":   {[]string{"-V"}, "http_v3_module"},
		"haproxy": {[]string{"-vv"}, "QUIC"},
		"h2load":  {[]string{"--version"}, "h2load"},
	} {
		t.Run(name, func(t *testing.T) {
			if out := run(t, x.Command(t.Context(), name, want.args...)); !strings.Contains(out, want.output) {
				t.Errorf("%s says nothing of %s:\n%s", name, want.output, out)
			}
		})
	}
}

func TestTrixieSharesAFolder(t *testing.T) {
	x := NewTrixie(t)
	outside, inside := x.TempDir(t)
	if err := os.WriteFile(filepath.Join(outside, "note"), []byte("seen"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := run(t, x.Command(context.Background(), "cat", inside+"/note")); out != "seen" {
		t.Errorf("inside, the file holds %q", out)
	}
}

// run gives what cmd printed, and fails the test when cmd fails.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return strings.TrimSpace(string(out))
}
