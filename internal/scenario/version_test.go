package scenario

import (
	"strings"
	"testing"
)

// The promise: the binary says what it is, and a wrong command line is told
// apart from every other failure by exit code 2.

func TestVersionNamesTheToolchain(t *testing.T) {
	p := Pqgw(t, "version")
	if code := p.ExitCode(t); code != 0 {
		t.Errorf("version exited with %d, want 0", code)
	}
	if out := p.Stdout.String(); !strings.HasPrefix(out, "pqgw ") || !strings.Contains(out, "go1.") {
		t.Errorf("version printed %q", out)
	}
}

func TestWrongCommandLineExits2(t *testing.T) {
	for name, args := range map[string][]string{
		"unknown command": {"no-such-command"},
		"unknown flag":    {"version", "--no-such-flag"},
		"extra argument":  {"version", "extra"},
	} {
		t.Run(name, func(t *testing.T) {
			p := Pqgw(t, args...)
			if code := p.ExitCode(t); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			if p.Stdout.String() != "" || p.Stderr.String() == "" {
				t.Errorf("stdout %q, stderr %q; want the reason on stderr alone", p.Stdout.String(), p.Stderr.String())
			}
		})
	}
}
