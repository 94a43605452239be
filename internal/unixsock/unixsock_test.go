package unixsock

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shortDir is a folder whose sockets' names fit the 108 bytes of an address.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "us")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestListenMakesFolderSetsModeAndRemovesOnClose(t *testing.T) {
	path := filepath.Join(shortDir(t), "a", "b", "s.sock")
	l, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode().Perm())
	}
	if got := l.Addr().String(); got != path {
		t.Errorf("address %q, want %q", got, path)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestListenReplacesADeadSocket(t *testing.T) {
	path := filepath.Join(shortDir(t), "s.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	l, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestListenLeavesALiveSocketAlone(t *testing.T) {
	path := filepath.Join(shortDir(t), "s.sock")
	first, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := Listen(path, 0o600); !errors.Is(err, ErrInUse) {
		t.Fatalf("second listen: %v, want ErrInUse", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
}

func TestListenLeavesOtherFilesAlone(t *testing.T) {
	path := filepath.Join(shortDir(t), "s.sock")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, 0o600); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Fatalf("error %v, want one that says it is no socket", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("the file holds %q, %v", b, err)
	}
}

func TestListenRefusesAbstractSockets(t *testing.T) {
	for _, path := range []string{"", "@name", "\x00name"} {
		if l, err := Listen(path, 0o600); err == nil {
			l.Close()
			t.Errorf("%q was taken", path)
		}
	}
}

func TestCloseLeavesASuccessorsSocket(t *testing.T) {
	path := filepath.Join(shortDir(t), "s.sock")
	old, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	successor, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer successor.Close()
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the successor's socket is gone: %v", err)
	}
	c.Close()
}
