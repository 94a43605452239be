package handshake

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// writePair writes a new self-signed pair for the names into dir.
func writePair(t testing.TB, dir, base string, useRSA bool, notAfter time.Time, names ...string) Pair {
	t.Helper()
	p := Pair{Cert: filepath.Join(dir, base+".pem"), Key: filepath.Join(dir, base+"-key.pem")}
	key := rsaOrECDSA(t, useRSA)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: names[0]},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: notAfter,
	}
	if err := addNames(tmpl, names); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(p.Key, keyPEM, 0o600), os.WriteFile(p.Cert, encodeCert(der), 0o600)); err != nil {
		t.Fatal(err)
	}
	return p
}

var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func goodPair(t testing.TB, dir, base string, names ...string) Pair {
	t.Helper()
	return writePair(t, dir, base, false, time.Now().Add(time.Hour), names...)
}

// news collects what a source reports.
type news struct{ ch chan Reload }

func newNews() *news                  { return &news{ch: make(chan Reload, 100)} }
func (n *news) add(r Reload)          { n.ch <- r }
func (n *news) options() FilesOptions { return FilesOptions{OnReload: n.add} }

// next is the next report that ok wants.
func (n *news) next(t *testing.T, what string, ok func(Reload) bool) Reload {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		select {
		case r := <-n.ch:
			if ok(r) {
				return r
			}
		case <-late:
			t.Fatalf("no report of %s", what)
		}
	}
}

func good(r Reload) bool { return r.Err == nil }
func bad(r Reload) bool  { return r.Err != nil }

func newFiles(t testing.TB, o FilesOptions, pairs ...Pair) *Files {
	t.Helper()
	f, err := NewFiles(pairs, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	<-f.watch.begun // from now on only events and polls lead to a reading
	return f
}

// nameServed is the first name of the default certificate.
func nameServed(t *testing.T, f *Files) string {
	t.Helper()
	c, err := f.Default(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf.DNSNames[0]
}

func TestFilesAreReloadedHoweverTheyAreReplaced(t *testing.T) {
	tests := map[string]func(t *testing.T) (Pair, func()){
		"written over": func(t *testing.T) (Pair, func()) {
			dir := t.TempDir()
			return goodPair(t, dir, "a", "old.example"), func() { goodPair(t, dir, "a", "new.example") }
		},
		"renamed over": func(t *testing.T) (Pair, func()) {
			dir := t.TempDir()
			p := goodPair(t, dir, "a", "old.example")
			return p, func() {
				n := goodPair(t, dir, "tmp", "new.example")
				rename(t, n.Key, p.Key)
				rename(t, n.Cert, p.Cert)
			}
		},
		"a folder of links swapped, as Kubernetes does": func(t *testing.T) (Pair, func()) {
			dir := t.TempDir()
			mkdirs(t, filepath.Join(dir, "..1"), filepath.Join(dir, "..2"))
			goodPair(t, filepath.Join(dir, "..1"), "a", "old.example")
			goodPair(t, filepath.Join(dir, "..2"), "a", "new.example")
			link(t, "..1", filepath.Join(dir, "..data"))
			link(t, "..data/a.pem", filepath.Join(dir, "a.pem"))
			link(t, "..data/a-key.pem", filepath.Join(dir, "a-key.pem"))
			return Pair{filepath.Join(dir, "a.pem"), filepath.Join(dir, "a-key.pem")}, func() {
				link(t, "..2", filepath.Join(dir, "..tmp"))
				rename(t, filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data"))
			}
		},
		"a link above the folder swapped": func(t *testing.T) (Pair, func()) {
			top := t.TempDir()
			mkdirs(t, filepath.Join(top, "r1", "tls"), filepath.Join(top, "r2", "tls"))
			goodPair(t, filepath.Join(top, "r1", "tls"), "a", "old.example")
			goodPair(t, filepath.Join(top, "r2", "tls"), "a", "new.example")
			link(t, filepath.Join(top, "r1"), filepath.Join(top, "current"))
			return Pair{filepath.Join(top, "current", "tls", "a.pem"), filepath.Join(top, "current", "tls", "a-key.pem")}, func() {
				link(t, filepath.Join(top, "r2"), filepath.Join(top, "tmp"))
				rename(t, filepath.Join(top, "tmp"), filepath.Join(top, "current"))
			}
		},
		"links to files swapped one by one, as certbot does": func(t *testing.T) (Pair, func()) {
			dir := t.TempDir()
			mkdirs(t, filepath.Join(dir, "archive"), filepath.Join(dir, "live"))
			goodPair(t, filepath.Join(dir, "archive"), "a1", "old.example")
			goodPair(t, filepath.Join(dir, "archive"), "a2", "new.example")
			for _, s := range []string{".pem", "-key.pem"} {
				link(t, "../archive/a1"+s, filepath.Join(dir, "live", "a"+s))
			}
			return Pair{filepath.Join(dir, "live", "a.pem"), filepath.Join(dir, "live", "a-key.pem")}, func() {
				for _, s := range []string{".pem", "-key.pem"} {
					link(t, "../archive/a2"+s, filepath.Join(dir, "live", "tmp"))
					rename(t, filepath.Join(dir, "live", "tmp"), filepath.Join(dir, "live", "a"+s))
				}
			}
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			pair, replace := prepare(t)
			n := newNews()
			f := newFiles(t, n.options(), pair)
			replace()
			if r := n.next(t, "the new pair", good); r.Info.Names[0] != "new.example" || nameServed(t, f) != "new.example" {
				t.Errorf("%+v, served %s", r, nameServed(t, f))
			}
		})
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func mkdirs(t *testing.T, dirs ...string) {
	t.Helper()
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheOldPairStaysWhenTheNewOneIsBad breaks the files in several ways; each
// is reported, and a good pair afterwards is taken.
func TestTheOldPairStaysWhenTheNewOneIsBad(t *testing.T) {
	write := func(path string) func(*testing.T, Pair) {
		return func(t *testing.T, p Pair) {
			to := map[string]string{"cert": p.Cert, "key": p.Key}[path]
			if err := os.WriteFile(to, []byte("torn"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := map[string]func(*testing.T, Pair){
		"torn certificate": write("cert"),
		"torn key":         write("key"),
		"a key of another certificate": func(t *testing.T, p Pair) {
			rename(t, goodPair(t, t.TempDir(), "b", "b.example").Key, p.Key)
		},
		"files gone": func(t *testing.T, p Pair) {
			if err := errors.Join(os.Remove(p.Cert), os.Remove(p.Key)); err != nil {
				t.Fatal(err)
			}
		},
		"an expired one": func(t *testing.T, p Pair) {
			writePair(t, filepath.Dir(p.Cert), "a", false, time.Now().Add(-time.Hour), "expired.example")
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			pair := goodPair(t, dir, "a", "old.example")
			n := newNews()
			f := newFiles(t, n.options(), pair)
			spoil(t, pair)
			r := n.next(t, "the bad pair", bad)
			var wrong *FileError
			if !errors.As(r.Err, &wrong) || wrong.Pair != pair || nameServed(t, f) != "old.example" {
				t.Errorf("%v, served %s", r.Err, nameServed(t, f))
			}
			if err := f.Reload(); !errors.As(err, &wrong) {
				t.Errorf("asked for: %v", err)
			}
			goodPair(t, dir, "a", "new.example")
			n.next(t, "the good pair", good)
			if got := nameServed(t, f); got != "new.example" {
				t.Errorf("served %s", got)
			}
		})
	}
}

// TestThePollSeesWhatTheSystemDoesNotTell looks at files whose folders nobody watches.
func TestThePollSeesWhatTheSystemDoesNotTell(t *testing.T) {
	dir := t.TempDir()
	n := newNews()
	o := n.options()
	o.Poll = 20 * time.Millisecond
	f := newFiles(t, o, goodPair(t, dir, "a", "old.example"))
	if err := f.watch.notify.Close(); err != nil { // as on a file system without notification
		t.Fatal(err)
	}
	goodPair(t, dir, "a", "new.example")
	n.next(t, "the new pair", good)
	if got := nameServed(t, f); got != "new.example" {
		t.Errorf("served %s", got)
	}
}

func TestABadPairIsRefusedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	pair := goodPair(t, dir, "a", "a.example")
	_, err := NewFiles([]Pair{pair, {Cert: pair.Cert, Key: filepath.Join(dir, "none.pem")}}, FilesOptions{})
	var wrong *FileError
	if !errors.As(err, &wrong) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := NewFiles(nil, FilesOptions{}); err == nil {
		t.Error("no pairs at all were taken")
	}
}

func TestFoldersAreThoseThatCanMakeAPathAnotherFile(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(p string) string { return filepath.Join(top, p) }
	mkdirs(t, at("real/in"), at("etc"))
	link(t, "../real", at("etc/alias"))
	link(t, at("etc/alias/in/file"), at("etc/cert"))
	link(t, "round", at("etc/round"))
	for path, want := range map[string][]string{
		"real/in/file":   {at("real/in")},
		"etc/alias/in/x": {at("etc"), at("real/in")},
		"etc/cert":       {at("etc"), at("etc"), at("real/in")},
	} {
		if got := foldersOf(at(path)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if got := foldersOf(at("etc/round")); len(got) != maxLinks {
		t.Errorf("a circle: %d folders", len(got))
	}
}

// TestTheChainSentIsRightForTheName asks one listener with several pairs and
// sources for many names.
func TestTheChainSentIsRightForTheName(t *testing.T) {
	dir := t.TempDir()
	later := time.Now().Add(time.Hour)
	files := newFiles(t, FilesOptions{},
		goodPair(t, dir, "main", "main.example", "192.0.2.1", "2001:db8::1"),
		goodPair(t, dir, "exact", "api.wild.example"),
		goodPair(t, dir, "wild", "*.wild.example"),
		writePair(t, dir, "both-rsa", true, later, "both.example"),
		writePair(t, dir, "both-ec", false, later, "both.example"),
		writePair(t, dir, "rsa", true, later, "rsa.example"),
	)
	dev, _, err := NewDev(t.TempDir(), "dev.example")
	if err != nil {
		t.Fatal(err)
	}
	srv := newServer(t, Settings{Sources: []Source{files, dev}, MinVersion: tls.VersionTLS12})
	rsaOnly := func(c *tls.Config) {
		c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
	}
	tests := []struct {
		sni    string
		client func(*tls.Config)
		want   string
		key    x509.PublicKeyAlgorithm
	}{
		{"main.example", nil, "main.example", x509.ECDSA},
		{"MAIN.Example", nil, "main.example", x509.ECDSA},
		{"", nil, "main.example", x509.ECDSA},
		{"unknown.example", nil, "main.example", x509.ECDSA},
		{"api.wild.example", nil, "api.wild.example", x509.ECDSA},
		{"www.wild.example", nil, "*.wild.example", x509.ECDSA},
		{"WWW.WILD.EXAMPLE", nil, "*.wild.example", x509.ECDSA},
		{"a.b.wild.example", nil, "main.example", x509.ECDSA},
		{"wild.example", nil, "main.example", x509.ECDSA},
		{"both.example", nil, "both.example", x509.ECDSA},
		{"both.example", rsaOnly, "both.example", x509.RSA},
		{"rsa.example", nil, "rsa.example", x509.RSA},
		{"dev.example", nil, "dev.example", x509.ECDSA},
		{"localhost", nil, "dev.example", x509.ECDSA},
	}
	for _, tt := range tests {
		got := leafFor(t, srv, tt.sni, tt.client)
		if got.DNSNames[0] != tt.want || got.PublicKeyAlgorithm != tt.key {
			t.Errorf("%q: %s with %s, want %s with %s", tt.sni, got.DNSNames[0], got.PublicKeyAlgorithm, tt.want, tt.key)
		}
	}
	for name, want := range map[string]string{"192.0.2.1": "main.example", "2001:db8::1": "main.example", "[2001:DB8::1]": "main.example", "Both.Example.": "both.example"} {
		c, err := files.Certificate(&tls.ClientHelloInfo{ServerName: name, SupportedVersions: []uint16{tls.VersionTLS13}})
		if err != nil || c == nil || c.Leaf.DNSNames[0] != want {
			t.Errorf("look-up of %q: %v, %v", name, c, err)
		}
	}
	if n := len(srv.Certificates()); n != 7 {
		t.Errorf("%d certificates described", n)
	}
}

// leafFor is the certificate that a client gets.
func leafFor(t *testing.T, srv *Server, sni string, change func(*tls.Config)) *x509.Certificate {
	t.Helper()
	near, far := loopback(t)
	c := &tls.Config{ServerName: sni, InsecureSkipVerify: true}
	if change != nil {
		change(c)
	}
	go func(c net.Conn) { _, _ = srv.Handshake(context.Background(), srv.Conn(c)) }(far)
	conn := tls.Client(near, c)
	if err := conn.Handshake(); err != nil {
		t.Fatalf("%q: %v", sni, err)
	}
	return conn.ConnectionState().PeerCertificates[0]
}

func rsaOrECDSA(t testing.TB, useRSA bool) crypto.Signer {
	t.Helper()
	if useRSA {
		key, err := rsaKey()
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
