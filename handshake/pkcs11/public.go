//go:build pkcs11

package pkcs11

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"

	p11 "github.com/miekg/pkcs11"
)

// Of version 3.0 of the standard.
const (
	ckmEDDSA = 0x1057
)

// maxChain bounds the certificates that are taken for one chain.
const maxChain = 8

// public reads the public half of a private key: off the key itself, where it is RSA's,
// else off the public key or the certificate with the same id.
func (s session) public(key p11.ObjectHandle, id []byte) crypto.PublicKey {
	if public := s.rsaPublic(key); public != nil {
		return public
	}
	if len(id) == 0 {
		return nil
	}
	beside, err := s.all(p11.NewAttribute(p11.CKA_CLASS, p11.CKO_PUBLIC_KEY), p11.NewAttribute(p11.CKA_ID, id))
	if err == nil && len(beside) > 0 {
		if public := s.rsaPublic(beside[0]); public != nil {
			return public
		}
		if public := ecPublic(s.value(beside[0], p11.CKA_EC_PARAMS), s.value(beside[0], p11.CKA_EC_POINT)); public != nil {
			return public
		}
	}
	certs, err := s.certificates(p11.NewAttribute(p11.CKA_ID, id))
	if err == nil && len(certs) > 0 {
		return certs[0].PublicKey
	}
	return nil
}

func (s session) rsaPublic(o p11.ObjectHandle) crypto.PublicKey {
	n, e := new(big.Int).SetBytes(s.value(o, p11.CKA_MODULUS)), new(big.Int).SetBytes(s.value(o, p11.CKA_PUBLIC_EXPONENT))
	if n.Sign() == 0 || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 {
		return nil
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}
}

var (
	oidP256    = asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7}
	oidP384    = asn1.ObjectIdentifier{1, 3, 132, 0, 34}
	oidEd25519 = asn1.ObjectIdentifier{1, 3, 101, 112}
)

// ecPublic makes a key of CKA_EC_PARAMS and CKA_EC_POINT, nil where it is of
// another curve. The point is an OCTET STRING in DER; some tokens give its content alone.
func ecPublic(params, point []byte) crypto.PublicKey {
	var inner []byte
	if rest, err := asn1.Unmarshal(point, &inner); err == nil && len(rest) == 0 {
		point = inner
	}
	var oid asn1.ObjectIdentifier
	var name string // "edwards25519" is another way to name that curve
	if _, err := asn1.Unmarshal(params, &oid); err != nil {
		if _, err := asn1.Unmarshal(params, &name); err != nil {
			return nil
		}
	}
	var curve elliptic.Curve
	switch {
	case oid.Equal(oidP256):
		curve = elliptic.P256()
	case oid.Equal(oidP384):
		curve = elliptic.P384()
	case (oid.Equal(oidEd25519) || name == "edwards25519") && len(point) == ed25519.PublicKeySize:
		return ed25519.PublicKey(point)
	default:
		return nil
	}
	key, err := ecdsa.ParseUncompressedPublicKey(curve, point)
	if err != nil {
		return nil
	}
	return key
}

// certificates are those of the token with these attributes. What cannot be parsed is
// left out: it belongs to somebody else.
func (s session) certificates(want ...*p11.Attribute) ([]*x509.Certificate, error) {
	objects, err := s.all(append(want, p11.NewAttribute(p11.CKA_CLASS, p11.CKO_CERTIFICATE))...)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for _, o := range objects {
		if cert, err := x509.ParseCertificate(s.value(o, p11.CKA_VALUE)); err == nil {
			certs = append(certs, cert)
		}
	}
	return certs, nil
}

// Chain looks by the key's id first, then by its label. Of several certificates for a
// key of that name the youngest counts.
func (k *keys) Chain(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := k.bounded(ctx)
	defer cancel()
	return call(ctx, k.t, func(s session) ([]byte, error) {
		found, err := k.find(s, name)
		if err != nil {
			return nil, err
		}
		var leaves []*x509.Certificate
		for _, key := range found {
			if len(key.id) > 0 {
				certs, err := s.certificates(p11.NewAttribute(p11.CKA_ID, key.id))
				if err != nil {
					return nil, err
				}
				leaves = append(leaves, certs...)
			}
		}
		if len(leaves) == 0 && name != "" {
			if leaves, err = s.certificates(p11.NewAttribute(p11.CKA_LABEL, name)); err != nil {
				return nil, err
			}
		}
		if len(leaves) == 0 {
			return nil, k.fail(ErrChain, errors.New(k.named(name)), "name its PEM file by cert, or store the certificate with the key's id")
		}
		others, err := s.certificates()
		if err != nil {
			return nil, err
		}
		leaf := slices.MaxFunc(leaves, func(a, b *x509.Certificate) int { return a.NotBefore.Compare(b.NotBefore) })
		return chainOf(leaf, others), nil
	})
}

// chainOf is the leaf and what leads from it towards a root, which is left out, in PEM.
func chainOf(leaf *x509.Certificate, others []*x509.Certificate) []byte {
	var text bytes.Buffer
	for range maxChain {
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}) // to memory
		at := slices.IndexFunc(others, func(c *x509.Certificate) bool {
			return bytes.Equal(c.RawSubject, leaf.RawIssuer) && !bytes.Equal(c.RawSubject, c.RawIssuer) && leaf.CheckSignatureFrom(c) == nil
		})
		if at < 0 {
			break
		}
		leaf = others[at]
	}
	return text.Bytes()
}
