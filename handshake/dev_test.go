package handshake

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestTheLocalCAIsMadeOnceAndItsFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "dev")
	first, created, err := NewDev(dir, "a.example")
	if err != nil || !created {
		t.Fatalf("created %t, %v", created, err)
	}
	second, created, err := NewDev(dir, "b.example")
	if err != nil || created {
		t.Fatalf("created again %t, %v", created, err)
	}
	if !first.Authority().Certificate().Equal(second.Authority().Certificate()) {
		t.Error("another CA")
	}
	for path, want := range map[string]fs.FileMode{dir: 0o700, filepath.Join(dir, "ca-key.pem"): 0o600, filepath.Join(dir, "ca.pem"): 0o644} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestProcessesThatMakeTheCAAtOnceGetTheSame(t *testing.T) {
	dir := t.TempDir()
	made := make([]*Authority, 8)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			a, _, err := MakeAuthority(dir)
			if err != nil {
				t.Error(err)
			}
			made[i] = a
		})
	}
	wg.Wait()
	for _, a := range made[1:] {
		if a == nil || !a.Certificate().Equal(made[0].Certificate()) {
			t.Fatal("two CAs")
		}
	}
}

func TestACAWhoseMakingWasCutShortIsFinished(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := MakeAuthority(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "ca.pem")); err != nil { // the key is written first
		t.Fatal(err)
	}
	a, created, err := MakeAuthority(dir)
	if err != nil || !created {
		t.Fatalf("created %t, %v", created, err)
	}
	if _, err := a.Issue(time.Hour, "a.example"); err != nil {
		t.Error(err)
	}
}

func TestTheDevCertificateIsForTheHostsAndTheLocalMachine(t *testing.T) {
	dev, _, err := NewDev(t.TempDir(), "a.example", "*.b.example", "192.0.2.7")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.example", "x.b.example", "localhost"} {
		c, err := dev.Certificate(&tls.ClientHelloInfo{ServerName: name})
		if err != nil || c == nil {
			t.Fatalf("%s: %v, %v", name, c, err)
		}
	}
	if c, err := dev.Certificate(&tls.ClientHelloInfo{ServerName: "other.example"}); c != nil || err != nil {
		t.Errorf("other.example: %v, %v", c, err)
	}
	c, err := dev.Default(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.example", "x.b.example", "192.0.2.7", "localhost", "127.0.0.1", "::1"} {
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			o := x509.VerifyOptions{Roots: dev.Authority().Pool(), DNSName: name, KeyUsages: []x509.ExtKeyUsage{usage}}
			if _, err := c.Leaf.Verify(o); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestTheDevCertificateIsMadeAnewWhenItIsDueOrTheHostsChange(t *testing.T) {
	dev, _, err := NewDev(t.TempDir(), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	serial := func() string {
		c, err := dev.Default(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.SerialNumber.String()
	}
	first := serial()
	dev.now = func() time.Time { return time.Now().Add(devLife - devRenew - time.Hour) }
	if serial() != first {
		t.Error("made anew before it was due")
	}
	dev.now = func() time.Time { return time.Now().Add(devLife - devRenew + time.Hour) }
	if serial() == first {
		t.Error("not made anew when due")
	}
	dev.now = time.Now
	second := serial()
	if err := dev.SetHosts("a.example"); err != nil || serial() != second {
		t.Errorf("made anew for the same hosts, %v", err)
	}
	if err := dev.SetHosts("not a host"); err == nil || serial() != second {
		t.Errorf("a bad host: %v", err)
	}
	if err := dev.SetHosts("b.example"); err != nil || !slices.Contains(dev.Describe()[0].Names, "b.example") {
		t.Errorf("%v, %v", dev.Describe(), err)
	}
}

func TestAnAuthorityThatCannotBeUsedSaysWhy(t *testing.T) {
	var wrong *AuthorityError
	if _, err := OpenAuthority(t.TempDir()); !errors.As(err, &wrong) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	dir := t.TempDir()
	a, _, err := MakeAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := a.IssueFiles(time.Hour, "leaf")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(f.CertFile, a.CertFile()), os.Rename(f.KeyFile, a.KeyFile())); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAuthority(dir); !errors.As(err, &wrong) {
		t.Errorf("a leaf for a CA: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := MakeAuthority(filepath.Join(dir, "file")); !errors.As(err, &wrong) {
		t.Errorf("a file for a folder: %v", err)
	}
}

func TestIssuedFilesAreForTheirNameAndNothingElseIsOverwritten(t *testing.T) {
	dir := t.TempDir()
	a, _, err := MakeAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"svc":         {"svc", "localhost", "127.0.0.1"},
		"Svc.Example": {"svc.example", "localhost", "127.0.0.1"},
		"192.0.2.1":   {"localhost", "192.0.2.1", "127.0.0.1"},
		"localhost":   {"localhost", "127.0.0.1"},
	} {
		f, err := a.IssueFiles(time.Hour, name)
		if err != nil || !slices.Equal(f.Names, want) {
			t.Errorf("%s: %v, %v", name, f.Names, err)
			continue
		}
		if info, err := os.Stat(f.KeyFile); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.KeyFile, info, err)
		}
		files := newFiles(t, FilesOptions{}, Pair{f.CertFile, f.KeyFile})
		if got := files.Describe()[0]; got.Issuer != a.Certificate().Subject.String() || got.Key != "ECDSA P-256" {
			t.Errorf("%+v", got)
		}
	}
	for _, name := range []string{"ca", "ca-key", "", "../x", "a/b", ".", "a b", "-a", "a..b"} {
		if f, err := a.IssueFiles(time.Hour, name); err == nil {
			t.Errorf("%q was issued: %+v", name, f)
		}
	}
	if _, err := OpenAuthority(dir); err != nil {
		t.Error(err)
	}
}

func TestOnlyAVerifiedPeerIsNamed(t *testing.T) {
	dir := t.TempDir()
	a, _, err := MakeAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Issue(time.Hour, "client.example")
	if err != nil {
		t.Fatal(err)
	}
	src, roots := selfSigned(t, "example.com")
	for _, auth := range []tls.ClientAuthType{tls.VerifyClientCertIfGiven, tls.RequireAndVerifyClientCert, tls.RequestClientCert, tls.NoClientCert} {
		srv := newServer(t, Settings{Sources: []Source{src}, ClientAuth: auth, ClientCAs: []*x509.Certificate{a.Certificate()}})
		client := session(roots)
		client.Certificates = []tls.Certificate{*cert}
		want := ""
		if auth >= tls.VerifyClientCertIfGiven {
			want = "client.example"
		}
		for _, resumed := range []bool{false, true} {
			o := shake(t, srv, client)
			mustBoth(t, o)
			if o.server.PeerName != want || o.server.ClientAuth != (want != "") || o.server.Resumed != resumed {
				t.Errorf("%v: %+v", auth, o.server)
			}
		}
	}
}
