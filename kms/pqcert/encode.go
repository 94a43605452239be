package pqcert

import (
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"

	"golang.org/x/crypto/cryptobyte"
	casn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// PEM types of what this package writes.
const (
	pemPrivateKey  = "PRIVATE KEY"
	pemPublicKey   = "PUBLIC KEY"
	pemCertificate = "CERTIFICATE"
)

// addAlgorithm adds an AlgorithmIdentifier: without parameters (RFC 9881,
// section 2).
func addAlgorithm(b *cryptobyte.Builder, a Algorithm) {
	b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(a.oid()) })
}

func readAlgorithm(s *cryptobyte.String) (Algorithm, error) {
	var id cryptobyte.String
	var oid asn1.ObjectIdentifier
	if !s.ReadASN1(&id, casn1.SEQUENCE) || !id.ReadASN1ObjectIdentifier(&oid) {
		return 0, errors.New("malformed algorithm identifier")
	}
	a, err := algorithmOf(oid)
	if err == nil && !id.Empty() {
		err = errors.New("ML-DSA has no parameters")
	}
	return a, err
}

// seedTag is [0] IMPLICIT OCTET STRING.
var seedTag = casn1.Tag(0).ContextSpecific()

// MarshalPKCS8 is the key as PKCS #8 in DER: its seed alone, which RFC 9881,
// section 6, recommends, or the expanded key where there is no seed.
func (k *PrivateKey) MarshalPKCS8() ([]byte, error) {
	var b cryptobyte.Builder
	b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1Int64(0)
		addAlgorithm(b, k.algorithm)
		b.AddASN1(casn1.OCTET_STRING, func(b *cryptobyte.Builder) {
			if k.seed != nil {
				b.AddASN1(seedTag, func(b *cryptobyte.Builder) { b.AddBytes(k.seed) })
			} else {
				b.AddASN1OctetString(k.expanded())
			}
		})
	})
	return b.Bytes()
}

// ParsePKCS8 reads a private key in any of the three forms of RFC 9881: seed,
// expanded key, or both, which must agree.
func ParsePKCS8(der []byte) (*PrivateKey, error) {
	k, err := parsePKCS8(der)
	if err != nil {
		return nil, fmt.Errorf("pqcert: private key: %w", err)
	}
	return k, nil
}

func parsePKCS8(der []byte) (*PrivateKey, error) {
	input := cryptobyte.String(der)
	var key, inner cryptobyte.String
	var version int
	if !input.ReadASN1(&key, casn1.SEQUENCE) || !input.Empty() || !key.ReadASN1Integer(&version) {
		return nil, errors.New("not PKCS #8")
	}
	if version != 0 && version != 1 {
		return nil, fmt.Errorf("version %d of PKCS #8 is unknown", version)
	}
	a, err := readAlgorithm(&key)
	if err != nil {
		return nil, err
	}
	// Attributes and a public key may follow (RFC 5958); they are not needed.
	if !key.ReadASN1(&inner, casn1.OCTET_STRING) {
		return nil, errors.New("no private key in it")
	}
	return parseInner(a, inner)
}

func parseInner(a Algorithm, inner cryptobyte.String) (*PrivateKey, error) {
	var seed, expanded, both cryptobyte.String
	switch {
	case inner.PeekASN1Tag(seedTag):
		if !inner.ReadASN1(&seed, seedTag) || !inner.Empty() {
			return nil, errors.New("malformed seed")
		}
		return NewKeyFromSeed(a, seed)
	case inner.PeekASN1Tag(casn1.OCTET_STRING):
		if !inner.ReadASN1(&expanded, casn1.OCTET_STRING) || !inner.Empty() {
			return nil, errors.New("malformed expanded key")
		}
		return newExpandedKey(a, expanded)
	}
	if !inner.ReadASN1(&both, casn1.SEQUENCE) || !inner.Empty() ||
		!both.ReadASN1(&seed, casn1.OCTET_STRING) || !both.ReadASN1(&expanded, casn1.OCTET_STRING) || !both.Empty() {
		return nil, errors.New("neither a seed nor an expanded key")
	}
	grown, err := NewKeyFromSeed(a, seed)
	if err != nil {
		return nil, err
	}
	given, err := newExpandedKey(a, expanded)
	if err == nil && !grown.Equal(given) {
		err = errors.New("the expanded key is not the seed's")
	}
	return grown, err
}

// addPublicKey adds a SubjectPublicKeyInfo (RFC 9881, section 4).
func addPublicKey(b *cryptobyte.Builder, p *PublicKey) {
	b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
		addAlgorithm(b, p.algorithm)
		b.AddASN1BitString(p.Bytes())
	})
}

// MarshalPKIX is the key as SubjectPublicKeyInfo in DER.
func (p *PublicKey) MarshalPKIX() ([]byte, error) {
	var b cryptobyte.Builder
	addPublicKey(&b, p)
	return b.Bytes()
}

// ParsePKIX reads a SubjectPublicKeyInfo in DER.
func ParsePKIX(der []byte) (*PublicKey, error) {
	input := cryptobyte.String(der)
	var info cryptobyte.String
	if !input.ReadASN1(&info, casn1.SEQUENCE) || !input.Empty() {
		return nil, errors.New("pqcert: public key: not a SubjectPublicKeyInfo")
	}
	a, err := readAlgorithm(&info)
	if err != nil {
		return nil, fmt.Errorf("pqcert: public key: %w", err)
	}
	var bits []byte
	if !info.ReadASN1BitStringAsBytes(&bits) || !info.Empty() {
		return nil, errors.New("pqcert: public key: malformed")
	}
	return NewPublicKey(a, bits)
}

// PEM is the key as PKCS #8 in PEM.
func (k *PrivateKey) PEM() ([]byte, error) {
	der, err := k.MarshalPKCS8()
	if err != nil {
		return nil, err
	}
	defer clear(der)
	return pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: der}), nil
}

// ParsePrivateKeyPEM reads the first private key in PEM.
func ParsePrivateKeyPEM(data []byte) (*PrivateKey, error) {
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			return nil, errors.New("pqcert: no PRIVATE KEY in PEM")
		}
		if block.Type == pemPrivateKey {
			return ParsePKCS8(block.Bytes)
		}
		data = rest
	}
}

// PEM is the key as SubjectPublicKeyInfo in PEM.
func (p *PublicKey) PEM() ([]byte, error) {
	der, err := p.MarshalPKIX()
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPublicKey, Bytes: der}), nil
}
