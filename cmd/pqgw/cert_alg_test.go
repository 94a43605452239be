package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/internal/peers"
	"github.com/hanzoai/pqgw/kms/pqcert"
)

func TestCertIssuesIdentities(t *testing.T) {
	for _, alg := range []string{"ml-dsa-65", "ml-dsa-87"} {
		dir := filepath.Join(t.TempDir(), "pki")
		if code, _, errs := command("cert", "issue", dir, "--name", "a", "--alg", alg); code != exitFailed || !strings.Contains(errs, "pqgw cert ca "+dir+" --alg "+alg) {
			t.Errorf("without a CA: exit %d, %s", code, errs)
		}
		for _, again := range []string{"", "was kept"} {
			if code, _, errs := command("cert", "ca", dir, "--alg", alg); code != exitOK || !strings.Contains(errs, again) {
				t.Fatalf("exit %d, %s", code, errs)
			}
		}
		code, out, errs := command("cert", "issue", dir, "--name", "svc", "--alg", alg, "--output", "json")
		var made madeFiles
		if err := json.Unmarshal([]byte(out), &made); err != nil || code != exitOK {
			t.Fatalf("exit %d, %v, %s", code, err, errs)
		}
		if info, err := os.Stat(made.Key); err != nil || info.Mode().Perm() != 0o600 || made.Cert != filepath.Join(dir, "svc.pem") {
			t.Errorf("%+v, %v", made, err)
		}
		roots, chain := readChain(t, filepath.Join(dir, "ca.pem")), readChain(t, made.Cert)
		if _, err := pqcert.Verify(chain, pqcert.Expect{Roots: roots, Name: "svc"}); err != nil {
			t.Error(err)
		}
		if chain[0].PublicKey.Algorithm().String() != alg {
			t.Errorf("the key is of %v", chain[0].PublicKey.Algorithm())
		}
	}
}

func readChain(t *testing.T, path string) []*pqcert.Certificate {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := pqcert.ParsePEM(data)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

func TestCertKeepsTheKindsOfAuthoritiesApart(t *testing.T) {
	classical, identity := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	if code, _, errs := command("cert", "ca", classical); code != exitOK {
		t.Fatal(errs)
	}
	if code, _, errs := command("cert", "ca", identity, "--alg", "ml-dsa-65"); code != exitOK {
		t.Fatal(errs)
	}
	for _, tt := range []struct {
		args []string
		code int
		part string
	}{
		{[]string{"cert", "issue", classical, "--name", "a", "--alg", "ml-dsa-65"}, exitFailed, "folder of its own"},
		{[]string{"cert", "issue", identity, "--name", "a"}, exitFailed, "folder of its own"},
		{[]string{"cert", "ca", classical, "--alg", "ml-dsa-65"}, exitFailed, "take another folder"},
		{[]string{"cert", "ca", identity, "--alg", "ml-dsa-87"}, exitFailed, "take another folder"},
		{[]string{"cert", "ca", identity, "--alg", "ml-dsa-44"}, exitUsage, "there are"},
		{[]string{"cert", "issue", identity, "--alg", "ml-dsa-65", "--name", "ca"}, exitFailed, "overwrite"},
		{[]string{"cert", "issue", identity, "--alg", "ml-dsa-65", "--name", "../x"}, exitFailed, "x"},
	} {
		if code, _, errs := command(tt.args...); code != tt.code || !strings.Contains(errs, tt.part) {
			t.Errorf("%v: exit %d, %s", tt.args, code, errs)
		}
	}
}

func TestOpenSSLVerifiesWhatCertIssues(t *testing.T) {
	x := peers.NewTrixie(t)
	outside, inside := x.TempDir(t)
	for _, args := range [][]string{{"ca", outside}, {"issue", outside, "--name", "svc"}} {
		if code, _, errs := command(append(append([]string{"cert"}, args...), "--alg", "ml-dsa-65")...); code != exitOK {
			t.Fatal(errs)
		}
	}
	out, err := x.Command(t.Context(), "openssl", "verify", "-x509_strict", "-CAfile", inside+"/ca.pem", inside+"/svc.pem").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "svc.pem: OK") {
		t.Errorf("openssl says %s, %v", out, err)
	}
}
