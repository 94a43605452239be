//go:build go1.27

package handshake

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/kms/pqcert"
)

// mldsaFiles makes a pair by `pqgw cert`'s own code, for TLS itself to use.
func mldsaFiles(t *testing.T, algorithm pqcert.Algorithm) (*Files, *x509.CertPool, []*x509.Certificate) {
	t.Helper()
	ca, _, err := MakeIdentityAuthority(t.TempDir(), algorithm)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := ca.IssueFiles(algorithm, time.Hour, "back.test")
	if err != nil {
		t.Fatal(err)
	}
	f, err := NewFiles([]Pair{{Cert: issued.CertFile, Key: issued.KeyFile}}, FilesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	roots, err := ReadCertificates(ca.CertFile())
	if err != nil {
		t.Fatal(err)
	}
	return f, Pool(roots), roots
}

// meetCNSA2 connects a client to a server by their settings.
func meetCNSA2(t *testing.T, s Settings, c ClientSettings) outcome {
	t.Helper()
	h := hopPair{server: newServer(t, s)}
	var err error
	if h.client, err = NewClient(c); err != nil {
		t.Fatal(err)
	}
	return h.meet(t)
}

func TestCNSA2IsMLKEM1024WithMLDSA87(t *testing.T) {
	files, pool, roots := mldsaFiles(t, pqcert.MLDSA87)
	weaker, weakerPool, weakerRoots := mldsaFiles(t, pqcert.MLDSA65)
	classical, classicalPool := selfSigned(t, "back.test")
	server := Settings{Sources: []Source{files}, PQ: CNSA2, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots}
	client := ClientSettings{PQ: CNSA2, Roots: pool, ServerName: "back.test", Certificate: files}

	for _, groups := range [][]tls.CurveID{{tls.MLKEM1024}, {tls.SecP384r1MLKEM1024}, nil} {
		c := client
		c.Groups = groups
		for range 2 { // the second resumes
			o := meetCNSA2(t, server, c)
			if o.serverErr != nil || o.clientErr != nil {
				t.Fatalf("%v: server %v, client %v", GroupNames(groups), o.serverErr, o.clientErr)
			}
			if len(groups) == 1 && o.server.Group != groups[0] || !o.server.PQ() || o.server.PeerName != "back.test" {
				t.Errorf("%v: %+v", GroupNames(groups), o.server)
			}
		}
	}
	refused := func(name string, s Settings, c ClientSettings, byServer, byClient Reason) {
		t.Helper()
		o := meetCNSA2(t, s, c)
		if byServer != "" && whyRefused(o.serverErr) != byServer || byClient != "" && whyRefused(o.clientErr) != byClient {
			t.Errorf("%s: server %v, client %v", name, o.serverErr, o.clientErr)
		}
	}
	other := server
	other.PQ, other.Sources = Require, []Source{weaker}
	other.Groups = nil
	c := client
	c.Roots = weakerPool
	refused("a server with ML-DSA-65", other, c, "", ServerCertificate)
	other.Sources = []Source{classical}
	c.Roots = classicalPool
	refused("a server with ECDSA", other, c, "", ServerCertificate)
	both := server
	both.ClientCAs = weakerRoots
	c = client
	c.PQ, c.Certificate = Require, weaker
	refused("a client with ML-DSA-65", both, c, ClientCertificate, "")
	c = client
	c.PQ, c.Groups = Require, []tls.CurveID{tls.X25519MLKEM768}
	refused("a client with a smaller group", server, c, NoSharedPQGroup, "")
	own := server
	own.Sources = []Source{weaker}
	refused("a certificate of our own that is ML-DSA-65", own, client, NoCertificate, "")
	if _, err := NewServer(Settings{Sources: []Source{files}, PQ: CNSA2, Groups: []tls.CurveID{tls.X25519MLKEM768}}); err == nil {
		t.Error("cnsa2 takes X25519MLKEM768")
	}
}

func TestMLDSACertificatesWorkInTLSItself(t *testing.T) {
	for _, algorithm := range []pqcert.Algorithm{pqcert.MLDSA65, pqcert.MLDSA87} {
		files, pool, _ := mldsaFiles(t, algorithm)
		o := meetCNSA2(t, Settings{Sources: []Source{files}, PQ: Require}, ClientSettings{PQ: Require, Roots: pool, ServerName: "back.test"})
		if o.serverErr != nil || o.clientErr != nil {
			t.Errorf("%v: server %v, client %v", algorithm, o.serverErr, o.clientErr)
		}
	}
}

func TestMLKEM1024IsOfferedOnlyWhereAskedFor(t *testing.T) {
	src, roots := selfSigned(t, "back.test")
	srv := newServer(t, Settings{Sources: []Source{src}, PQ: Require, Groups: []tls.CurveID{tls.MLKEM1024}})
	o := shake(t, srv, &tls.Config{RootCAs: roots, ServerName: "back.test", CurvePreferences: []tls.CurveID{tls.MLKEM1024}})
	if o.serverErr != nil || o.server.GroupName() != "MLKEM1024" || !o.server.PQ() {
		t.Errorf("%+v, %v", o.server, o.serverErr)
	}
	plain := newServer(t, Settings{Sources: []Source{src}, PQ: Require})
	if names := plain.GroupsInForce(); len(names) != 3 {
		t.Errorf("%v in force", names)
	}
}
