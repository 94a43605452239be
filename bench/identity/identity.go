// Package identity makes the certificates that benches are measured with:
// a root and a server's certificate, both with keys of the same kind.
package identity

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
	"os"
	"path/filepath"
	"time"

	"github.com/hanzoai/pqgw/handshake"
)

// ServerName is the name in every certificate.
const ServerName = "bench.test"

// Identity is a server's certificate and the root that vouches for it, both
// with keys of the same kind, as PEM.
type Identity struct {
	Certificate []byte `json:"certificate"`
	Key         []byte `json:"key"`
	Root        []byte `json:"root"`
}

// New makes the keys and certificates of an authentication.
func New(auth string) (Identity, error) {
	rootKey, err := NewKey(auth)
	if err != nil {
		return Identity{}, err
	}
	leafKey, err := NewKey(auth)
	if err != nil {
		return Identity{}, err
	}
	now := time.Now()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench root"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(30 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: ServerName}, DNSNames: []string{ServerName}, NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	if err != nil {
		return Identity{}, fmt.Errorf("%s root: %w", auth, err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, leafKey.Public(), rootKey)
	if err != nil {
		return Identity{}, fmt.Errorf("%s certificate: %w", auth, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		return Identity{}, fmt.Errorf("%s key: %w", auth, err)
	}
	return Identity{Certificate: block("CERTIFICATE", leafDER), Key: block("PRIVATE KEY", keyDER), Root: block("CERTIFICATE", rootDER)}, nil
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// NewKey makes a key of the kind that handshake.KeyName names.
func NewKey(auth string) (crypto.Signer, error) {
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

// Source serves the certificate.
func (id Identity) Source() (handshake.Source, error) {
	cert, err := tls.X509KeyPair(id.Certificate, id.Key)
	if err != nil {
		return nil, err
	}
	return fixed{&cert}, nil
}

// Roots vouch for the certificate.
func (id Identity) Roots() (*x509.CertPool, error) {
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

// Write stores certificate and key in a folder, and returns their paths.
func (id Identity) Write(dir string) (cert, key string, err error) {
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := os.WriteFile(cert, id.Certificate, 0o644); err != nil {
		return "", "", err
	}
	return cert, key, os.WriteFile(key, id.Key, 0o600)
}
