package scenario

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The promise: a certificate that is renewed on disk is served without a
// restart, also where it is swapped by a symlink as Kubernetes does it; a bad
// one never replaces a good one; and no client notices.

// certFront is a front whose certificate files lie behind the given paths.
func certFront(t *testing.T, ca *CA, certFile, keyFile string) *Front {
	t.Helper()
	f := &Front{CA: ca, Leaf: Leaf{CertFile: certFile, KeyFile: keyFile}, Addr: FreeAddr(t), Plain: FreeAddr(t)}
	f.URL, f.PlainURL = "https://"+f.Addr, "http://"+f.Plain
	f.Gateway = Run(t, f.Config(FrontOptions{}))
	return f
}

// servedSerial is the serial number of the certificate that a new connection gets.
func servedSerial(t *testing.T, f *Front) string {
	t.Helper()
	conn, err := tls.Dial("tcp", f.Addr, &tls.Config{RootCAs: f.CA.Pool(), ServerName: "localhost"})
	if err != nil {
		t.Fatalf("a handshake failed: %v", err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func awaitServed(t *testing.T, f *Front, leaf Leaf) {
	t.Helper()
	Await(t, "the new certificate to be served", func() bool { return servedSerial(t, f) == leaf.Serial.String() })
}

// replaceFile puts a copy of from in the place of to, in one step.
func replaceFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to+".next", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(to+".next", to); err != nil {
		t.Fatal(err)
	}
}

// swapLink makes link point to target, in one step.
func swapLink(t *testing.T, target, link string) {
	t.Helper()
	if err := os.Symlink(target, link+".next"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".next", link); err != nil {
		t.Fatal(err)
	}
}

func TestCertificateRenewedInPlaceIsServed(t *testing.T) {
	ca := NewCA(t)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	first, second := ca.Leaf(t, "localhost"), ca.Leaf(t, "localhost")
	replaceFile(t, first.CertFile, cert)
	replaceFile(t, first.KeyFile, key)
	f := certFront(t, ca, cert, key)
	awaitServed(t, f, first)

	load := handshakeLoad(t, f)
	load.AwaitProgress(t, 5)
	replaceFile(t, second.KeyFile, key) // for a moment key and certificate do not match
	replaceFile(t, second.CertFile, cert)
	awaitServed(t, f, second)
	load.AwaitProgress(t, 5)
	load.Stop(t)
}

func TestCertificateSwappedBySymlinkIsServed(t *testing.T) {
	ca := NewCA(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "..data")
	first, second := ca.Leaf(t, "localhost"), ca.Leaf(t, "localhost")
	swapLink(t, filepath.Dir(first.CertFile), data)
	for _, name := range []string{"cert.pem", "key.pem"} {
		swapLink(t, filepath.Join("..data", name), filepath.Join(dir, name))
	}
	f := certFront(t, ca, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	awaitServed(t, f, first)

	load := handshakeLoad(t, f)
	swapLink(t, filepath.Dir(second.CertFile), data)
	awaitServed(t, f, second)
	load.Stop(t)
}

func TestBadCertificateDoesNotReplaceAGoodOne(t *testing.T) {
	ca := NewCA(t)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	first, other, third := ca.Leaf(t, "localhost"), ca.Leaf(t, "localhost"), ca.Leaf(t, "localhost")
	replaceFile(t, first.CertFile, cert)
	replaceFile(t, first.KeyFile, key)
	f := certFront(t, ca, cert, key)
	awaitServed(t, f, first)

	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("-----BEGIN CERTIFICATE-----\nnot one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	replaceFile(t, garbage, cert)
	f.Stderr.AwaitText(t, cert) // it has been seen, and is told with its path
	if got := servedSerial(t, f); got != first.Serial.String() {
		t.Errorf("after a bad certificate, %s is served, want the old one", got)
	}
	replaceFile(t, other.CertFile, cert) // well formed, but of another key
	if got := servedSerial(t, f); got != first.Serial.String() {
		t.Errorf("with a certificate of another key, %s is served, want the old one", got)
	}
	replaceFile(t, third.KeyFile, key)
	replaceFile(t, third.CertFile, cert)
	awaitServed(t, f, third)
}

func TestCertificateIsChosenByName(t *testing.T) {
	ca := NewCA(t)
	a, b := ca.Leaf(t, "a.example.com"), ca.Leaf(t, "*.b.example.com")
	addr := FreeAddr(t)
	Run(t, fmt.Sprintf(`version: 1
tls: {public: {certificates: {files: [{cert: %q, key: %q}, {cert: %q, key: %q}]}}}
listeners: [{name: edge, address: %q, tls: public}]
routes: [{to: trace}]`, a.CertFile, a.KeyFile, b.CertFile, b.KeyFile, addr))
	for name, want := range map[string]Leaf{"a.example.com": a, "A.Example.COM": a, "x.b.example.com": b} {
		t.Run(name, func(t *testing.T) {
			conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool(), ServerName: name})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if got := conn.ConnectionState().PeerCertificates[0].SerialNumber; got.Cmp(want.Serial) != 0 {
				t.Errorf("served %v, want %v", got, want.Serial)
			}
		})
	}
}

// handshakeLoad makes new connections over and over, one request each.
func handshakeLoad(t *testing.T, f *Front) *Load {
	t.Helper()
	return StartLoad(t, 2, func() (bool, error) {
		client := f.CA.Client(t, false)
		defer client.CloseIdleConnections()
		_, _, err := Get(client, "https://localhost:"+Port(t, f.Addr)+"/")
		return false, err
	})
}
