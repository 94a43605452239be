//go:build pkcs11

package pkcs11

import (
	"context"
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/handshake/remotesign"
)

// issue signs a certificate for public by the issuer, or for itself where that is nil.
func issue(t testing.TB, name string, public crypto.PublicKey, issuer *x509.Certificate, key crypto.Signer, age time.Duration) *x509.Certificate {
	t.Helper()
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-age), NotAfter: time.Now().Add(time.Hour),
		IsCA: issuer == nil || name == "intermediate", BasicConstraintsValid: true, DNSNames: []string{name},
	}
	if issuer == nil {
		issuer = tmpl
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, issuer, public, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestAListenerServesByKeyAndChainOfTheToken(t *testing.T) {
	h := newHSM(t)
	rootKey, middleKey := newECDSA(t, elliptic.P256()), newECDSA(t, elliptic.P256())
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	root := issue(t, "root", rootKey.Public(), nil, rootKey, time.Hour)
	middle := issue(t, "intermediate", middleKey.Public(), root, rootKey, time.Hour)
	h.put(t, "site", "01", key)
	k := h.open(t, nil)
	h.putCertificate(t, k, "site", []byte{1}, issue(t, "old.test", key.Public(), middle, middleKey, time.Hour).Raw)
	h.putCertificate(t, k, "site", []byte{1}, issue(t, "site.test", key.Public(), middle, middleKey, time.Minute).Raw)
	h.putCertificate(t, k, "middle", []byte{2}, middle.Raw)
	h.putCertificate(t, k, "root", []byte{3}, root.Raw)

	src, err := remotesign.NewSource(k, remotesign.SourceSettings{
		Key: "site", Chain: "token", Compared: true,
		ReadChain: func() ([]byte, error) { return k.Chain(context.Background(), "site") },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	srv, err := handshake.NewServer(handshake.Settings{Sources: []handshake.Source{src}, PQ: handshake.Require})
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() {
		_, err := srv.Handshake(context.Background(), srv.Conn(far))
		served <- err
	}()
	pool := x509.NewCertPool()
	pool.AddCert(root)
	conn := tls.Client(near, &tls.Config{RootCAs: pool, ServerName: "site.test"})
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	if err := errors.Join(conn.Handshake(), <-served); err != nil {
		t.Error(err)
	}
	if n := len(conn.ConnectionState().PeerCertificates); n != 2 {
		t.Errorf("%d certificates were sent, want the leaf and the intermediate", n)
	}
	_, _ = near.Close(), far.Close()
}
