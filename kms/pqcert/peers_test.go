package pqcert

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/internal/peers"
)

// openssl is OpenSSL 3.5 in its own file system.
type openssl struct {
	x       *peers.Trixie
	outside string
	inside  string
}

func newOpenSSL(t *testing.T) openssl {
	t.Helper()
	x := peers.NewTrixie(t)
	outside, inside := x.TempDir(t)
	return openssl{x, outside, inside}
}

func (o openssl) write(t *testing.T, name string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(o.outside, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(o.inside, name)
}

func (o openssl) read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(o.outside, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (o openssl) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := o.x.Command(t.Context(), "openssl", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("openssl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (o openssl) path(name string) string { return filepath.Join(o.inside, name) }

func TestOpenSSLVerifiesOurChainsAndReadsOurKeys(t *testing.T) {
	o := newOpenSSL(t)
	for _, a := range []Algorithm{MLDSA65, MLDSA87} {
		now := time.Now()
		dated := func(tmpl Template) Template {
			tmpl.NotBefore, tmpl.NotAfter = now.Add(-time.Hour), now.Add(time.Hour)
			return tmpl
		}
		root := issue(t, a, dated(ca("root", 1)), nil)
		middle := issue(t, a, dated(ca("middle", 0)), &root)
		leaf := issue(t, a, dated(leafOf("a.example.com")), &middle)
		rootFile := o.write(t, "root.pem", root.cert.PEM())
		middleFile := o.write(t, "middle.pem", middle.cert.PEM())
		leafFile := o.write(t, "leaf.pem", leaf.cert.PEM())
		out := o.run(t, "verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", "a.example.com", "-CAfile", rootFile, "-untrusted", middleFile, leafFile)
		if !strings.Contains(out, "OK") {
			t.Errorf("%v: %s", a, out)
		}
		keyPEM, err := leaf.key.PEM()
		if err != nil {
			t.Fatal(err)
		}
		publicPEM, err := leaf.key.PublicKey().PEM()
		if err != nil {
			t.Fatal(err)
		}
		keyFile := o.write(t, "key.pem", keyPEM)
		if got := o.run(t, "pkey", "-in", keyFile, "-pubout"); got != string(publicPEM) {
			t.Errorf("%v: OpenSSL reads another public key", a)
		}
		// And what it signs with our key, we verify; and the other way round.
		message := o.write(t, "message", []byte("message"))
		o.run(t, "pkeyutl", "-sign", "-rawin", "-inkey", keyFile, "-in", message, "-out", o.path("signature"))
		if !leaf.key.PublicKey().Verify([]byte("message"), o.read(t, "signature"), "") {
			t.Errorf("%v: OpenSSL's signature does not verify", a)
		}
		ours, err := leaf.key.Sign(nil, []byte("message"), nil)
		if err != nil {
			t.Fatal(err)
		}
		o.run(t, "pkeyutl", "-verify", "-rawin", "-inkey", keyFile, "-in", message, "-sigfile", o.write(t, "ours", ours))
	}
}

func TestWeVerifyOpenSSLsChainsAndReadItsKeys(t *testing.T) {
	o := newOpenSSL(t)
	for _, a := range []Algorithm{MLDSA65, MLDSA87} {
		name := strings.ToUpper(a.String())
		o.run(t, "req", "-x509", "-newkey", name, "-nodes", "-keyout", o.path("ca-key.pem"), "-out", o.path("ca.pem"), "-subj", "/CN=root", "-days", "2",
			"-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
		o.run(t, "req", "-newkey", name, "-nodes", "-keyout", o.path("leaf-key.pem"), "-out", o.path("leaf.csr"), "-subj", "/CN=leaf")
		ext := o.write(t, "ext", []byte("subjectAltName=DNS:leaf.example.com\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n"))
		o.run(t, "x509", "-req", "-in", o.path("leaf.csr"), "-CA", o.path("ca.pem"), "-CAkey", o.path("ca-key.pem"), "-extfile", ext, "-days", "1", "-out", o.path("leaf.pem"))
		roots, err := ParsePEM(o.read(t, "ca.pem"))
		if err != nil {
			t.Fatal(err)
		}
		chain, err := ParsePEM(o.read(t, "leaf.pem"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(chain, Expect{Roots: roots, Name: "leaf.example.com"}); err != nil {
			t.Errorf("%v: %v", a, err)
		}
		for _, form := range []string{"seed-priv", "seed-only", "priv-only"} {
			o.run(t, "pkey", "-in", o.path("leaf-key.pem"), "-provparam", "ml-dsa.output_formats="+form, "-out", o.path("form.pem"))
			key, err := ParsePrivateKeyPEM(o.read(t, "form.pem"))
			if err != nil || !key.PublicKey().Equal(chain[0].PublicKey) {
				t.Errorf("%v: form %s: %v", a, form, err)
			}
		}
	}
}

func TestNodeVerifiesOurCertificates(t *testing.T) {
	node := peers.Node(t)
	root := issue(t, MLDSA65, ca("root", 0), nil)
	leaf := issue(t, MLDSA65, leafOf("a.example.com"), &root)
	const script = `
const {X509Certificate} = require('crypto');
const [root, leaf] = process.env.CERTS.split(',').map(p => new X509Certificate(p));
console.log(leaf.verify(root.publicKey), root.verify(root.publicKey), root.verify(leaf.publicKey), leaf.checkHost('a.example.com'), leaf.publicKey.asymmetricKeyType);`
	cmd := exec.CommandContext(t.Context(), node, "-e", script)
	cmd.Env = append(os.Environ(), "CERTS="+string(root.cert.PEM())+","+string(leaf.cert.PEM()))
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "true true false a.example.com ml-dsa-65" {
		t.Errorf("node says %s, %v", out, err)
	}
}
