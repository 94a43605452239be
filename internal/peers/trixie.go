package peers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Trixie is a small Debian trixie in a folder: OpenSSL 3.5, curl with HTTP/3,
// nginx, HAProxy and h2load, all with the hybrid groups. Programs in it see
// its folder as /, and share the network with the test.
type Trixie struct {
	root string
}

// NewTrixie finds it. Entering it is a chroot, so the test must run as root.
func NewTrixie(t testing.TB) *Trixie {
	t.Helper()
	root := cached(t, "Debian trixie", "trixie")
	if os.Getuid() != 0 {
		miss(t, "root", "the trixie peers are entered by chroot")
	}
	return &Trixie{root: root}
}

// Command prepares a program of trixie's: a name ("curl") or an absolute path
// within it. It is killed when ctx ends.
func (x *Trixie) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, x.find(name), args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C"}
	enter(cmd, x.root)
	return cmd
}

// find gives the path within trixie of a program's name.
func (x *Trixie) find(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	for _, dir := range []string{"/usr/sbin", "/usr/bin"} {
		if _, err := os.Stat(filepath.Join(x.root, dir, name)); err == nil {
			return dir + "/" + name
		}
	}
	return "/usr/bin/" + name // its start fails and says so
}

// TempDir makes a folder that test and program share until the test ends. The
// test knows it as outside, programs in trixie as inside.
func (x *Trixie) TempDir(t testing.TB) (outside, inside string) {
	t.Helper()
	outside, err := os.MkdirTemp(filepath.Join(x.root, "tmp"), "pqgw-")
	if err != nil {
		t.Fatalf("make a folder in trixie: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(outside) })
	if err := os.Chmod(outside, 0o755); err != nil { // nginx's workers are not root
		t.Fatal(err)
	}
	return outside, strings.TrimPrefix(outside, x.root)
}
