package scenario

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The promise: scripts can tell by the exit code what went wrong, and people
// by the message where.

func TestBadConfigurationExits3AndSaysWhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad.yaml")
	config := `version: 1
listenrs: []
listeners:
  - {name: edge, address: "127.0.0.1:1", protocols: [h9]}
routes: [{to: nowhere}]
`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"run", "-c", file}, {"config", "validate", "-c", file}} {
		t.Run(strings.Join(args[:len(args)-2], " "), func(t *testing.T) {
			p := Pqgw(t, args...)
			if code := p.ExitCode(t); code != 3 {
				t.Errorf("exit code %d, want 3", code)
			}
			// All problems at once, each with its position.
			for _, want := range []string{file + ":2:1", "listeners", file + ":4:", "h9", file + ":5:", "nowhere"} {
				if !strings.Contains(p.Stderr.String(), want) {
					t.Errorf("stderr does not say %q:\n%s", want, p.Stderr.String())
				}
			}
		})
	}
}

func TestMissingConfigurationExits3(t *testing.T) {
	p := Pqgw(t, "run", "-c", filepath.Join(t.TempDir(), "none.yaml"))
	if code := p.ExitCode(t); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
}

func TestAddressInUseExits4(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "pqgw.yaml")
	config := fmt.Sprintf("version: 1\nlisteners: [{name: edge, address: %q}]\nroutes: [{to: trace}]\n", taken.Addr())
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"run":  {"run", "-c", file},
		"edge": {"edge", "--listen", taken.Addr().String(), "--data-dir", t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			p := Pqgw(t, args...)
			if code := p.ExitCode(t); code != 4 {
				t.Errorf("exit code %d, want 4", code)
			}
			if !strings.Contains(p.Stderr.String(), taken.Addr().String()) {
				t.Errorf("stderr does not name the address:\n%s", p.Stderr.String())
			}
		})
	}
}
