package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kmsRun is a store's folder and master, and commands upon it.
type kmsRun struct {
	t      *testing.T
	dir    string
	master []string
}

func newKMSRun(t *testing.T) kmsRun {
	t.Helper()
	root := t.TempDir()
	k := kmsRun{t: t, dir: filepath.Join(root, "store"), master: []string{"--master-file", filepath.Join(root, "master")}}
	k.ok("", "init")
	return k
}

// try runs one kms command and returns its exit code and output.
func (k kmsRun) try(stdin string, args ...string) (code int, stdout, stderr string) {
	k.t.Helper()
	var out, errs bytes.Buffer
	all := append(append([]string{"kms"}, args...), "--dir", k.dir)
	code = run(k.t.Context(), append(all, k.master...), strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func (k kmsRun) ok(stdin string, args ...string) string {
	k.t.Helper()
	code, stdout, stderr := k.try(stdin, args...)
	if code != exitOK {
		k.t.Fatalf("kms %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

func (k kmsRun) fails(code int, part string, args ...string) {
	k.t.Helper()
	got, _, stderr := k.try("", args...)
	if got != code || !strings.Contains(stderr, part) {
		k.t.Errorf("kms %s: exit code %d, %q; want %d and %q", strings.Join(args, " "), got, stderr, code, part)
	}
}

func (k kmsRun) json(into any, args ...string) {
	k.t.Helper()
	if err := json.Unmarshal([]byte(k.ok("", append(args, "--output", "json")...)), into); err != nil {
		k.t.Fatal(err)
	}
}

func TestKMSPutGetListRotateAudit(t *testing.T) {
	k := newKMSRun(t)
	k.ok("first\n", "put", "db/password")
	k.ok("second\n", "put", "db/password")
	if got := k.ok("", "get", "db/password"); got != "second\n" {
		t.Errorf("got %q", got)
	}
	if got := k.ok("", "get", "db/password", "--previous"); got != "first\n" {
		t.Errorf("got %q", got)
	}
	if got := k.ok("", "rotate"); !strings.Contains(got, "2 files sealed anew") {
		t.Errorf("rotate says %q", got)
	}
	var shown struct {
		Name    string
		Version int
		Value   []byte
	}
	k.json(&shown, "get", "db/password")
	if shown.Name != "db/password" || shown.Version != 2 || string(shown.Value) != "second\n" {
		t.Errorf("got %+v", shown)
	}
	k.ok("", "put", "id", "--generate", "ml-dsa-65")
	if got := k.ok("", "get", "id", "--public"); !strings.Contains(got, "PUBLIC KEY") || strings.Contains(got, "PRIVATE") {
		t.Errorf("public part is %s", got)
	}
	var listed struct {
		Entries []struct{ Name, Kind string }
		Damaged []any
	}
	k.json(&listed, "list")
	if len(listed.Entries) != 2 || listed.Entries[1].Kind != "ml-dsa" || listed.Damaged == nil {
		t.Errorf("listed %+v", listed)
	}
	if got := k.ok("", "list"); strings.Contains(got, "second") || !strings.Contains(got, "db/password") {
		t.Errorf("listed %s", got)
	}
	head := strings.TrimSpace(k.ok("", "audit", "--verify")[strings.Index(k.ok("", "audit", "--verify"), "head ")+5:])
	k.ok("", "audit", "--head", head)
	k.cutOffInALine()
	if got := k.ok("", "audit", "--verify"); !strings.Contains(got, ", 1 that a writer was cut off in") {
		t.Errorf("the audit says %q of an unfinished line", got)
	}
	if got := k.ok("", "audit"); strings.Count(got, `"op":"get"`) != 3 {
		t.Errorf("audit is %s", got)
	}
	k.ok("", "delete", "id")
	k.fails(exitFailed, "no such entry", "get", "id")
}

// cutOffInALine leaves in the audit what a writer leaves that is killed.
func (k *kmsRun) cutOffInALine() {
	k.t.Helper()
	f, err := os.OpenFile(filepath.Join(k.dir, "audit.log"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"seq":`)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		k.t.Fatal(err)
	}
}

func TestKMSExitCodes(t *testing.T) {
	k := newKMSRun(t)
	k.ok("value", "put", "a")
	k.fails(exitFailed, "already exists", "init")
	k.fails(exitFailed, "no such entry", "get", "b")
	k.fails(exitUsage, "name is not allowed", "get", "../a")
	k.fails(exitUsage, "another kind", "put", "a", "--generate", "ecdsa-p256")
	k.fails(exitUsage, "unknown", "put", "k", "--generate", "dsa")
	k.fails(exitUsage, "accepts 1 arg", "get")
	k.fails(exitUsage, "text and json", "list", "--output", "yaml")
	k.fails(exitUsage, "no overlap", "rotate", "a")
	k.fails(exitUsage, "exclude each other", "rotate", "--keep-old", "--drop-old")
	k.fails(exitUsage, "2 masters", "get", "a", "--master-env", "X")
	k.fails(exitUsage, "starts with", "seal", "--recipient", "x")
	if code, _, stderr := k.try(strings.Repeat("x", 1<<20+1), "put", "big"); code != exitNotMet {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if err := os.Chmod(k.master[1], 0o644); err != nil {
		t.Fatal(err)
	}
	k.fails(exitBind, "chmod 0600", "get", "a")
	if err := os.Chmod(k.master[1], 0o600); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(k.dir, "audit.log")
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, bytes.Replace(data, []byte(`"name":"a"`), []byte(`"name":"b"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	k.fails(exitNotMet, "its MAC is wrong", "audit", "--verify")
	k.dir = ""
	k.fails(exitUsage, "--dir is missing", "list")
}

func TestKMSSealsForAStoreElsewhere(t *testing.T) {
	k, other := newKMSRun(t), newKMSRun(t)
	recipient := strings.TrimSpace(k.ok("", "recipient"))
	var blob, errs bytes.Buffer
	if code := run(t.Context(), []string{"kms", "seal", "--recipient", recipient}, strings.NewReader("value"), &blob, &errs); code != exitOK {
		t.Fatal(errs.String())
	}
	if got := k.ok(blob.String(), "unseal"); got != "value" {
		t.Errorf("unsealed %q", got)
	}
	if code, _, stderr := other.try(blob.String(), "unseal"); code != exitFailed || !strings.Contains(stderr, "no master key") {
		t.Errorf("another store: %d, %s", code, stderr)
	}
	other.ok("a value", "put", "a")
	export := other.ok("", "export", "--recipient", recipient)
	k.ok(export, "import")
	if got := k.ok("", "get", "a"); got != "a value" {
		t.Errorf("imported %q", got)
	}
	if got := k.ok(k.ok("value", "seal"), "unseal"); got != "value" {
		t.Errorf("unsealed %q", got)
	}
}

func TestKMSRotatesFromFileToPassphraseAndBack(t *testing.T) {
	if testing.Short() {
		t.Skip("Argon2id with its real cost")
	}
	k := newKMSRun(t)
	k.ok("value", "put", "a")
	file := k.master
	passphrase := filepath.Join(t.TempDir(), "passphrase")
	if err := os.WriteFile(passphrase, []byte("correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.ok("", "rotate", "--to-passphrase-file", passphrase, "--keep-old")
	if got := k.ok("", "get", "a"); got != "value" {
		t.Errorf("the old master opens %q", got)
	}
	k.master = []string{"--passphrase-file", passphrase}
	k.ok("", "rotate", "--drop-old")
	if got := k.ok("", "get", "a"); got != "value" {
		t.Errorf("the passphrase opens %q", got)
	}
	k.master = file
	k.fails(exitFailed, "no master key", "get", "a")
	k.master = []string{"--passphrase-file", passphrase}
	back := filepath.Join(t.TempDir(), "back")
	k.ok("", "rotate", "--to-master-file", back)
	k.master = []string{"--master-file", back}
	if got := k.ok("", "get", "a"); got != "value" {
		t.Errorf("the new file opens %q", got)
	}
	k.ok("", "audit", "--verify")
}

func TestKMSPublishesECH(t *testing.T) {
	k := newKMSRun(t)
	var made struct {
		Rotated bool
		Record  string
	}
	k.json(&made, "ech", "rotate", "edge", "--public-name", "public.example.com", "--host", "api.example.com")
	if !made.Rotated || !strings.HasPrefix(made.Record, "api.example.com. 300 IN HTTPS 1 . alpn=\"h2,h3\" ech=\"") {
		t.Errorf("made %+v", made)
	}
	if got := k.ok("", "ech", "publish", "edge", "--host", "api.example.com"); strings.TrimSpace(got) != made.Record {
		t.Errorf("published %s", got)
	}
	k.json(&made, "ech", "rotate", "edge")
	if made.Rotated {
		t.Error("a fresh key was rotated")
	}
	k.ok("", "put", "tickets", "--generate", "ticket-root")
	if got := k.ok("", "rotate", "tickets"); !strings.Contains(got, "version 2") {
		t.Errorf("rotated: %s", got)
	}
	k.ok("", "audit", "--verify")
}
