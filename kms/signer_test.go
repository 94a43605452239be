package kms

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/kms/pqcert"
)

func generateInto(t testing.TB, s *Store, name, algorithm string, kind Kind) {
	t.Helper()
	value, public, err := Generate(algorithm)
	if err != nil {
		t.Fatal(err)
	}
	defer value.Close()
	if _, err := s.Put(t.Context(), Entry{Name: name, Kind: kind, Value: value, Public: public}); err != nil {
		t.Fatal(err)
	}
}

func verifies(public crypto.PublicKey, message, signature []byte) bool {
	digest := sha256.Sum256(message)
	switch p := public.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(p, digest[:], signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(p, crypto.SHA256, digest[:], signature) == nil
	case ed25519.PublicKey:
		return ed25519.Verify(p, message, signature)
	case *pqcert.PublicKey:
		return p.Verify(message, signature, "")
	}
	return false
}

func TestKeysOfAllAlgorithmsSignAndAreAudited(t *testing.T) {
	s, _ := newStore(t)
	for _, algorithm := range Algorithms() {
		generateInto(t, s, algorithm, algorithm, KindSecret)
		if algorithm == AlgorithmRandom {
			if _, err := s.Signer(t.Context(), algorithm, "test"); err == nil {
				t.Error("a random secret signs")
			}
			continue
		}
		signer, err := s.Signer(t.Context(), algorithm, "test")
		if err != nil {
			t.Fatal(err)
		}
		message := []byte("message")
		digest := sha256.Sum256(message)
		signed, opts := digest[:], crypto.SignerOpts(crypto.SHA256)
		if algorithm == AlgorithmEd25519 || strings.HasPrefix(algorithm, "ml-dsa") {
			signed, opts = message, crypto.Hash(0)
		}
		signature, err := signer.Sign(rand.Reader, signed, opts)
		if err != nil || !verifies(signer.Public(), message, signature) {
			t.Errorf("%s: signature does not verify: %v", algorithm, err)
		}
		if got := fmt.Sprintf("%v %+v %#v", signer, signer, signer); got != strings.TrimSpace(strings.Repeat("key "+algorithm+" ", 3)) {
			t.Errorf("%s prints %s", algorithm, got)
		}
		wantPublic(t, s, algorithm, signer.Public())
		if err := signer.Close(); err != nil {
			t.Error(err)
		}
	}
	report := wantCleanAudit(t, s)
	if want := uint64(7*2 + 7 + 6); report.Lines != want {
		t.Errorf("the audit has %d lines, want %d", report.Lines, want)
	}
	if _, _, err := Generate("dsa"); err == nil {
		t.Error("an unknown algorithm was generated")
	}
}

// wantPublic checks that the public part is the PKIX of the key.
func wantPublic(t *testing.T, s *Store, name string, key crypto.PublicKey) {
	t.Helper()
	info, err := s.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(info.Public)
	if block == nil {
		t.Fatalf("%s has no public part", name)
	}
	var public crypto.PublicKey
	if public, err = x509.ParsePKIXPublicKey(block.Bytes); err != nil {
		public, err = pqcert.ParsePKIX(block.Bytes)
	}
	equal, ok := key.(interface{ Equal(crypto.PublicKey) bool })
	if err != nil || !ok || !equal.Equal(public) {
		t.Errorf("%s: the public part is another key: %v", name, err)
	}
}

func TestAStoresKeyServesTLS(t *testing.T) {
	s, _ := newStore(t)
	generateInto(t, s, "edge", AlgorithmECDSAP256, KindCertificate)
	signer, err := s.Signer(t.Context(), "edge", "tls")
	if err != nil {
		t.Fatal(err)
	}
	defer signer.Close()
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"edge.example.com"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	server := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: signer}}}
	state := tlsHandshake(t, server, &tls.Config{RootCAs: roots, ServerName: "edge.example.com"})
	if state.CurveID != tls.X25519MLKEM768 {
		t.Errorf("group is %v", state.CurveID)
	}
}

// tlsHandshake connects the two and returns what the client saw.
func tlsHandshake(t *testing.T, server, client *tls.Config) tls.ConnectionState {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	done := make(chan error, 1)
	go func() { done <- tls.Server(a, server).HandshakeContext(t.Context()) }()
	conn := tls.Client(b, client)
	if err := conn.HandshakeContext(t.Context()); err != nil {
		t.Fatalf("client: %v", err)
	}
	// The server ends once its tickets are read.
	go func() { _, _ = conn.Read(make([]byte, 1)) }()
	if err := <-done; err != nil {
		t.Fatalf("server: %v", err)
	}
	return conn.ConnectionState()
}

func TestTheConfigurationReadsSecretsAndNothingElse(t *testing.T) {
	s, _ := newStore(t)
	put(t, s, "api/token", "s3cret\r\n")
	generateInto(t, s, "edge", AlgorithmECDSAP256, KindCertificate)
	resolve := s.Resolver(t.Context())
	if got, err := resolve("api/token"); err != nil || got != "s3cret" {
		t.Errorf("%q, %v", got, err)
	}
	_, err := resolve("edge")
	wantErr(t, err, ErrKind)
	_, err = resolve("missing")
	wantErr(t, err, ErrNotFound)
}

func TestKeyErrorsDoNotShowTheKey(t *testing.T) {
	for _, kind := range []string{"PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY"} {
		_, err := ParsePrivateKey(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("top secret bytes")}))
		wantErr(t, err, ErrCorrupt)
		if strings.Contains(fmt.Sprint(err), "top secret") {
			t.Error(err)
		}
	}
	_, err := ParsePrivateKey([]byte("top secret"))
	wantErr(t, err, ErrCorrupt)
}
