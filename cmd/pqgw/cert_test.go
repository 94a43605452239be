package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCertMakesACAOnceAndPairsByIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if code, _, errs := command("cert", "issue", dir, "--name", "a"); code != exitFailed || !strings.Contains(errs, "pqgw cert ca") {
		t.Errorf("without a CA: exit %d, %s", code, errs)
	}
	code, out, errs := command("cert", "ca", dir)
	if want := filepath.Join(dir, "ca.pem") + "\n" + filepath.Join(dir, "ca-key.pem") + "\n"; code != exitOK || out != want || errs != "" {
		t.Fatalf("exit %d, %q, %s", code, out, errs)
	}
	before, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	code, _, errs = command("cert", "ca", dir)
	after, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil || code != exitOK || string(before) != string(after) || !strings.Contains(errs, "was kept") {
		t.Errorf("a second time: exit %d, %s, %v", code, errs, err)
	}
	code, out, errs = command("cert", "issue", dir, "--name", "svc", "--output", "json")
	var made madeFiles
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != exitOK {
		t.Fatalf("exit %d, %v, %s", code, err, errs)
	}
	if made.Cert != filepath.Join(dir, "svc.pem") || made.Key != filepath.Join(dir, "svc-key.pem") || !slices.Equal(made.Names, []string{"svc", "localhost", "127.0.0.1"}) {
		t.Errorf("%+v", made)
	}
	if info, err := os.Stat(made.Key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestCertRefusesWhatMakesNoSense(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{"cert", "issue", dir}, exitUsage},
		{[]string{"cert", "issue", dir, "--name", "a", "--days", "0"}, exitUsage},
		{[]string{"cert", "ca"}, exitUsage},
		{[]string{"cert", "nonsense"}, exitUsage},
		{[]string{"cert", "ca", dir, "--output", "xml"}, exitUsage},
	} {
		if code, _, errs := command(tt.args...); code != tt.code || errs == "" {
			t.Errorf("%v: exit %d, %s", tt.args, code, errs)
		}
	}
}

func TestCertIssueTakesASPIFFEID(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if code, _, errs := runPQGW("cert", "ca", dir); code != exitOK {
		t.Fatal(errs)
	}
	code, out, errs := runPQGW("cert", "issue", dir, "--name", "front", "--spiffe-id", "spiffe://mesh/front", "--output", "json")
	if code != exitOK || !strings.Contains(out, `"spiffe://mesh/front"`) {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	for id, want := range map[string]int{"https://mesh/front": exitUsage, "spiffe:///front": exitFailed} {
		if code, _, errs := runPQGW("cert", "issue", dir, "--name", "other", "--spiffe-id", id); code != want {
			t.Errorf("%s: exit %d, want %d; %s", id, code, want, errs)
		}
	}
}
