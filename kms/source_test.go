package kms

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAMasterFileThatOthersCanReadIsRefused(t *testing.T) {
	m := MasterFile{Path: filepath.Join(t.TempDir(), "master")}
	if _, err := m.Create(); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o644, 0o640, 0o604, 0o620, 0o601, 0o777} {
		if err := os.Chmod(m.Path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := m.Keys(nil)
		wantErr(t, err, ErrLooseMode)
	}
	for _, mode := range []fs.FileMode{0o600, 0o400} {
		if err := os.Chmod(m.Path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Keys(nil); err != nil {
			t.Error(err)
		}
	}
	_, err := m.Create()
	wantErr(t, err, fs.ErrExist)
	_, err = MasterFile{Path: t.TempDir()}.Keys(nil)
	wantErr(t, err, fs.ErrInvalid)
	_, err = MasterFile{Path: m.Path + "x"}.Keys(nil)
	wantErr(t, err, fs.ErrNotExist)
}

func TestASystemdCredentialOpensTheStore(t *testing.T) {
	s, master := newStore(t)
	put(t, s, "a", "one")
	dir := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	data, err := os.ReadFile(master.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kms"), data, 0o440); err != nil {
		t.Fatal(err)
	}
	wantValue(t, reopen(t, s.Dir(), MasterCredential{Name: "kms"}), "a", "one")
	if err := os.Chmod(filepath.Join(dir, "kms"), 0o444); err != nil {
		t.Fatal(err)
	}
	_, err = MasterCredential{Name: "kms"}.Keys(nil)
	wantErr(t, err, ErrLooseMode)
	_, err = MasterCredential{Name: "../kms"}.Keys(nil)
	wantErr(t, err, ErrName)
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	_, err = MasterCredential{Name: "kms"}.Keys(nil)
	wantErr(t, err, fs.ErrNotExist)
}

func TestAnEnvironmentVariableOpensTheStoreAndIsTakenAway(t *testing.T) {
	s, master := newStore(t)
	put(t, s, "a", "one")
	keys, err := master.Keys(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PQGW_TEST_MASTER", string(keys[0].text()))
	env := &MasterEnv{Variable: "PQGW_TEST_MASTER"}
	wantValue(t, reopen(t, s.Dir(), env), "a", "one")
	if _, there := os.LookupEnv("PQGW_TEST_MASTER"); there {
		t.Error("the variable is still in the environment")
	}
	wantValue(t, reopen(t, s.Dir(), env), "a", "one")
	_, err = (&MasterEnv{Variable: "PQGW_TEST_MASTER"}).Keys(nil)
	wantErr(t, err, fs.ErrNotExist)
}

func TestAPassphraseOpensTheStore(t *testing.T) {
	if testing.Short() {
		t.Skip("Argon2id with its real cost")
	}
	dir := t.TempDir()
	right := MasterPassphrase{Passphrase: NewSecret([]byte("right"))}
	key, err := right.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := Init(dir, key); err != nil {
		t.Fatal(err)
	}
	s := reopen(t, dir, right)
	put(t, s, "a", "one")
	wantValue(t, reopen(t, dir, MasterPassphrase{Passphrase: NewSecret([]byte("right"))}), "a", "one")
	_, err = Open(dir, Options{Master: MasterPassphrase{Passphrase: NewSecret([]byte("wrong"))}})
	wantErr(t, err, ErrNoKey)
	if _, err := (MasterPassphrase{Passphrase: NewSecret(nil)}).New(); err == nil {
		t.Error("an empty passphrase was taken")
	}
}

func TestArgonParametersOfAHeaderAreBounded(t *testing.T) {
	good := Derivation{Salt: make([]byte, 16), Time: 1, Memory: 8, Threads: 1}
	for _, change := range []func(*Derivation){
		func(d *Derivation) { d.Time = 0 },
		func(d *Derivation) { d.Time = maxArgonTime + 1 },
		func(d *Derivation) { d.Memory = maxArgonMemory + 1 },
		func(d *Derivation) { d.Threads = 0 },
		func(d *Derivation) { d.Salt = nil },
	} {
		d := good
		change(&d)
		_, err := d.master(NewSecret([]byte("x")))
		wantErr(t, err, ErrCorrupt)
	}
}

func TestSeveralSourcesServeAsOne(t *testing.T) {
	s, master := newStore(t)
	put(t, s, "a", "one")
	missing := MasterFile{Path: master.Path + "-missing"}
	wantValue(t, reopen(t, s.Dir(), Masters{missing, master}), "a", "one")
	_, err := Masters{missing}.Keys(nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func FuzzParseMasterFile(f *testing.F) {
	key, err := NewMasterKey()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(key.text(), '\n'))
	f.Add([]byte("# comment\nnext:pqgw-master-1:AA\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		current, _, err := parseMasterFile("fuzz", data)
		if (err == nil) != (current != nil) {
			t.Errorf("key %v, error %v", current, err)
		}
	})
}
