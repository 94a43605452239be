package kms

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hanzoai/pqgw/kms/pqcert"
)

// Signer is a key to sign with, wherever it is. Close gives it back.
type Signer interface {
	crypto.Signer
	io.Closer
}

// Keys opens keys to sign with: those of a Store, of a signing service, of a
// token. The purpose goes into the audit where there is one.
type Keys interface {
	Signer(ctx context.Context, name, purpose string) (Signer, error)
}

var _ Keys = (*Store)(nil)

// Signer opens the private key of name: PKCS #8, SEC 1 or PKCS #1 in PEM,
// ECDSA, Ed25519, RSA or ML-DSA. It stays that of the version it was opened
// with. Each signature leaves a line in the audit, without which it is not
// made. The key lies on the ordinary heap, as Go's crypto packages want it.
func (s *Store) Signer(ctx context.Context, name, purpose string) (Signer, error) {
	value, info, err := s.Get(ctx, name, purpose)
	if err != nil {
		return nil, err
	}
	defer value.Close()
	var key crypto.Signer
	err = value.Use(func(b []byte) (err error) {
		key, err = ParsePrivateKey(b)
		return err
	})
	if err != nil {
		return nil, fail("open key", name, err, "")
	}
	line := Line{Op: opSign, Name: name, Kind: info.Kind, Version: info.Version, Purpose: purpose}
	return &storeSigner{store: s, key: key, line: line}, nil
}

type storeSigner struct {
	store *Store
	key   crypto.Signer
	line  Line
}

func (k *storeSigner) Public() crypto.PublicKey { return k.key.Public() }

func (k *storeSigner) Sign(random io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	if err := k.store.audit.append(k.line); err != nil {
		return nil, err
	}
	return k.key.Sign(random, digest, opts)
}

func (k *storeSigner) Close() error { return nil }

// String names the key without showing it.
func (k *storeSigner) String() string { return "key " + k.line.Name }

// GoString names the key without showing it.
func (k *storeSigner) GoString() string { return k.String() }

// Format names the key without showing it, whatever the verb.
func (k *storeSigner) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// ParsePrivateKey reads the first private key in PEM. Its errors show nothing
// of it.
func ParsePrivateKey(data []byte) (crypto.Signer, error) {
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			return nil, fmt.Errorf("%w: no private key in PEM", ErrCorrupt)
		}
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			defer clear(block.Bytes)
			key, err := parseKeyBlock(block)
			if err != nil {
				return nil, fmt.Errorf("%w: malformed or unknown %s", ErrCorrupt, block.Type)
			}
			return key, nil
		}
		data = rest
	}
}

func parseKeyBlock(block *pem.Block) (crypto.Signer, error) {
	switch block.Type {
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
		return nil, errors.New("it does not sign")
	}
	return pqcert.ParsePKCS8(block.Bytes)
}

// Algorithms that Generate makes keys of.
const (
	AlgorithmECDSAP256 = "ecdsa-p256"
	AlgorithmECDSAP384 = "ecdsa-p384"
	AlgorithmEd25519   = "ed25519"
	AlgorithmRSA       = "rsa-3072"
	AlgorithmMLDSA65   = "ml-dsa-65"
	AlgorithmMLDSA87   = "ml-dsa-87"
	AlgorithmRandom    = "random" // a secret of 256 random bits, as text
)

// Algorithms lists what Generate knows.
func Algorithms() []string {
	return []string{AlgorithmECDSAP256, AlgorithmECDSAP384, AlgorithmEd25519, AlgorithmRSA, AlgorithmMLDSA65, AlgorithmMLDSA87, AlgorithmRandom}
}

// Generate makes a value that has been nowhere before: a private key in PKCS #8
// PEM with its public key in PKIX PEM beside it, or a random secret.
func Generate(algorithm string) (value *Secret, public []byte, err error) {
	if algorithm == AlgorithmRandom {
		raw := make([]byte, 32)
		_, _ = rand.Read(raw)
		defer clear(raw)
		return NewSecret(base64.RawURLEncoding.AppendEncode(nil, raw)), nil, nil
	}
	private, pkix, err := generateKey(algorithm)
	if err != nil {
		return nil, nil, fail("generate", "", err, "there are "+strings.Join(Algorithms(), ", "))
	}
	defer clear(private)
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	return NewSecret(text), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pkix}), nil
}

func generateKey(algorithm string) (private, public []byte, err error) {
	if a, err := pqcert.ParseAlgorithm(algorithm); err == nil {
		key, err := pqcert.GenerateKey(a)
		if err != nil {
			return nil, nil, err
		}
		private, err1 := key.MarshalPKCS8()
		public, err2 := key.PublicKey().MarshalPKIX()
		return private, public, errors.Join(err1, err2)
	}
	key, err := generateClassical(algorithm)
	if err != nil {
		return nil, nil, err
	}
	private, err1 := x509.MarshalPKCS8PrivateKey(key)
	public, err2 := x509.MarshalPKIXPublicKey(key.Public())
	return private, public, errors.Join(err1, err2)
}

func generateClassical(algorithm string) (crypto.Signer, error) {
	switch algorithm {
	case AlgorithmECDSAP256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case AlgorithmECDSAP384:
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case AlgorithmEd25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	case AlgorithmRSA:
		return rsa.GenerateKey(rand.Reader, 3072)
	}
	return nil, fmt.Errorf("algorithm %q is unknown", algorithm)
}

// Resolver answers ${kms:NAME} of the configuration: the text of secrets of
// KindSecret, without the line end that a shell puts behind it.
func (s *Store) Resolver(ctx context.Context) func(name string) (string, error) {
	return func(name string) (string, error) {
		value, info, err := s.Get(ctx, name, "configuration")
		if err != nil {
			return "", err
		}
		defer value.Close()
		if info.Kind != KindSecret {
			return "", fail("resolve", name, ErrKind, "it is "+string(info.Kind)+"; the configuration reads secrets only")
		}
		var text string
		err = value.Use(func(b []byte) error { text = string(b); return nil })
		return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"), err
	}
}
