// Package scenario drives the built binary as its users do: each test file
// holds one promise, starts the real pqgw, and speaks to it with real peers.
//
// The harness builds the binary once per test run (with the race detector
// where the tests have it), gives each process free loopback ports and folders
// of its own, captures what it prints, and stops it by SIGTERM, after which it
// must exit 0. Nothing sleeps to await a state: everything polls, or waits for
// a line, with a deadline.
package scenario

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience is how long the harness awaits anything before the test fails. It
// is long, since a loaded machine is no fault of the gateway.
const Patience = 30 * time.Second

// Main runs the tests and removes the binary afterwards; a package's TestMain
// passes its result to os.Exit.
func Main(m *testing.M) int {
	code := m.Run()
	if builtIn != "" {
		_ = os.RemoveAll(builtIn)
	}
	return code
}

// Binary is the path of the pqgw that was built for this test run.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var (
	binary  = sync.OnceValues(build)
	builtIn string // the folder that holds the binary, once it is built
)

// build compiles cmd/pqgw into a folder of its own.
func build() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if err := noteSources(root); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "pqgw-bin-")
	if err != nil {
		return "", err
	}
	builtIn = dir
	return compile(filepath.Join(dir, "pqgw"))
}

// compile builds cmd/pqgw as path.
func compile(path string, flags ...string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	args := append([]string{"build", "-o", path}, flags...)
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/pqgw")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build pqgw: %w\n%s", err, out)
	}
	return path, nil
}

// moduleRoot is the nearest folder upwards that has the go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above the working directory")
		}
		dir = parent
	}
}

// noteSources reads the module's folders, so that the go command, which caches
// test results by the files a test has opened, runs these tests again when the
// source of the binary has changed.
func noteSources(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		return nil
	})
}
