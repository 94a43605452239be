package handshakes

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	"github.com/hanzoai/pqgw/handshake"
)

// serverName is in every certificate.
const serverName = "bench.test"

// identity is a server's certificate and the root that vouches for it, both
// with keys of the same kind, as PEM.
type identity struct {
	Certificate []byte `json:"certificate"`
	Key         []byte `json:"key"`
	Root        []byte `json:"root"`
}

// newIdentity makes the keys and certificates of an authentication.
func newIdentity(auth string) (identity, error) {
	rootKey, err := newKey(auth)
	if err != nil {
		return identity{}, err
	}
	leafKey, err := newKey(auth)
	if err != nil {
		return identity{}, err
	}
	now := time.Now()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench root"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(30 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: serverName}, DNSNames: []string{serverName}, NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	if err != nil {
		return identity{}, fmt.Errorf("%s root: %w", auth, err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, leafKey.Public(), rootKey)
	if err != nil {
		return identity{}, fmt.Errorf("%s certificate: %w", auth, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		return identity{}, fmt.Errorf("%s key: %w", auth, err)
	}
	return identity{Certificate: block("CERTIFICATE", leafDER), Key: block("PRIVATE KEY", keyDER), Root: block("CERTIFICATE", rootDER)}, nil
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func newKey(auth string) (crypto.Signer, error) {
	switch auth {
	case "ECDSA P-256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "RSA 2048":
		return rsa.GenerateKey(rand.Reader, 2048)
	case "Ed25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("no keys of kind %q", auth)
}

// fixed is a certificate that never changes.
type fixed struct{ cert *tls.Certificate }

var _ handshake.Source = fixed{}

func (id identity) source() (fixed, error) {
	cert, err := tls.X509KeyPair(id.Certificate, id.Key)
	return fixed{&cert}, err
}

func (id identity) roots() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(id.Root) {
		return nil, fmt.Errorf("no root certificate in %d bytes", len(id.Root))
	}
	return pool, nil
}

// Certificate is the one there is.
func (f fixed) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.cert, nil }

// Default is the one there is.
func (f fixed) Default(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.cert, nil }

// Describe lists it.
func (f fixed) Describe() []handshake.CertInfo {
	return []handshake.CertInfo{handshake.InfoOf(f.cert.Leaf, "bench", "")}
}

// Close has nothing to end.
func (f fixed) Close() error { return nil }
