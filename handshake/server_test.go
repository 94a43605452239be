package handshake

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"slices"
	"testing"
	"time"
)

// fixed is a source with one certificate, for the names in it.
type fixed struct {
	cert tls.Certificate
	err  error
}

func (f *fixed) Certificate(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if f.err != nil {
		return nil, f.err
	}
	if slices.Contains(namesOf(f.cert.Leaf), NormalName(h.ServerName)) {
		return &f.cert, nil
	}
	return nil, nil
}

func (f *fixed) Default(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &f.cert, f.err }
func (f *fixed) Describe() []CertInfo                                   { return nil }
func (f *fixed) Close() error                                           { return nil }

// selfSigned is a source with a certificate that vouches for itself.
func selfSigned(t testing.TB, names ...string) (*fixed, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &fixed{cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}}, pool
}

func newServer(t testing.TB, s Settings) *Server {
	t.Helper()
	srv, err := NewServer(s)
	if err != nil {
		t.Fatal(err)
	}
	return srv
}

// loopback is a pair of connected TCP connections with a deadline.
func loopback(t testing.TB) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{near, far} {
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	return near, far
}

// outcome is what both sides make of a handshake.
type outcome struct {
	server, client       Facts
	serverErr, clientErr error
}

// shake runs one handshake; the client reads one byte afterwards, so that a
// ticket or a late alert reaches it.
func shake(t testing.TB, srv *Server, client *tls.Config) (o outcome) {
	t.Helper()
	near, far := loopback(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer far.Close()
		conn := srv.Conn(far)
		if o.server, o.serverErr = srv.Handshake(context.Background(), conn); o.serverErr == nil {
			_, _ = conn.Write([]byte("!"))
			_ = conn.CloseWrite()
			_, _ = conn.Read(make([]byte, 1))
		}
	}()
	conn := tls.Client(near, client)
	if o.clientErr = conn.Handshake(); o.clientErr == nil {
		cs := conn.ConnectionState()
		o.client = FactsOf(&cs)
		_, o.clientErr = conn.Read(make([]byte, 1))
	}
	_ = conn.Close()
	<-done
	return o
}

func TestEachGroupOfEachPolicyIsNegotiatedAndNamed(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	for _, pq := range []PQ{Prefer, Require} {
		srv := newServer(t, Settings{Sources: []Source{src}, PQ: pq})
		for _, g := range pq.Groups() {
			o := shake(t, srv, &tls.Config{RootCAs: roots, ServerName: "example.com", CurvePreferences: []tls.CurveID{g}})
			if o.serverErr != nil || o.clientErr != nil {
				t.Fatalf("%v %s: %v, %v", pq, GroupName(g), o.serverErr, o.clientErr)
			}
			if o.server.Group != g || o.client.Group != g || o.server.PQ() != PQGroup(g) || o.server.HRR {
				t.Errorf("%v %s: server %+v client %+v", pq, GroupName(g), o.server, o.client)
			}
			if o.server.VersionName() != "1.3" || o.server.CipherName() == "" || o.server.SNI != "example.com" {
				t.Errorf("%v %s: facts %+v", pq, GroupName(g), o.server)
			}
		}
	}
}

func TestAClassicalClientAgainstRequireIsRefusedWithItsReason(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	srv := newServer(t, Settings{Sources: []Source{src}, PQ: Require})
	o := shake(t, srv, &tls.Config{RootCAs: roots, ServerName: "example.com", CurvePreferences: []tls.CurveID{tls.X25519}})
	var refused *RefusedError
	if !errors.As(o.serverErr, &refused) || refused.Reason != NoSharedPQGroup || refused.SNI != "example.com" || refused.Hint() == "" {
		t.Fatalf("server: %#v", o.serverErr)
	}
	if code, ok := remoteAlert(o.clientErr); !ok || code != alertHandshakeFailure {
		t.Errorf("client: %v", o.clientErr)
	}
}
