package pqcert

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"

	"golang.org/x/crypto/cryptobyte"
	casn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// Template says what a certificate is to vouch for.
type Template struct {
	CommonName string
	DNSNames   []string
	IPs        []net.IP
	URIs       []*url.URL
	NotBefore  time.Time
	NotAfter   time.Time
	// CA makes an issuing certificate, under which MaxPathLen more may issue:
	// 0 for leaves only.
	CA         bool
	MaxPathLen int
}

var (
	oidSubjectKeyID     = asn1.ObjectIdentifier{2, 5, 29, 14}
	oidKeyUsage         = asn1.ObjectIdentifier{2, 5, 29, 15}
	oidSubjectAltName   = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidBasicConstraints = asn1.ObjectIdentifier{2, 5, 29, 19}
	oidAuthorityKeyID   = asn1.ObjectIdentifier{2, 5, 29, 35}
	oidExtKeyUsage      = asn1.ObjectIdentifier{2, 5, 29, 37}
	oidServerAuth       = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 1}
	oidClientAuth       = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 2}
)

// Create makes a certificate of pub, signed by signer, whose certificate is
// issuer; a nil issuer makes a self-signed one. The signer's public key must be
// a *PublicKey: a *PrivateKey here, or one that a key store holds.
func Create(t Template, pub *PublicKey, issuer *Certificate, signer crypto.Signer) (*Certificate, error) {
	issuerKey, ok := signer.Public().(*PublicKey)
	if !ok {
		return nil, fmt.Errorf("%w: the signer's key is %T", ErrAlgorithm, signer.Public())
	}
	if issuer != nil && !issuer.PublicKey.Equal(issuerKey) {
		return nil, errors.New("pqcert: the signer is not the issuer's key")
	}
	if !t.NotAfter.After(t.NotBefore) {
		return nil, errors.New("pqcert: the certificate would end before it begins")
	}
	tbs, err := t.build(pub, issuer, issuerKey)
	if err != nil {
		return nil, fmt.Errorf("pqcert: build certificate: %w", err)
	}
	signature, err := signer.Sign(rand.Reader, tbs, crypto.Hash(0))
	if err != nil {
		return nil, fmt.Errorf("pqcert: sign certificate: %w", err)
	}
	var b cryptobyte.Builder
	b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddBytes(tbs)
		addAlgorithm(b, issuerKey.algorithm)
		b.AddASN1BitString(signature)
	})
	der, err := b.Bytes()
	if err != nil {
		return nil, fmt.Errorf("pqcert: build certificate: %w", err)
	}
	return Parse(der)
}

// build is the TBSCertificate (RFC 5280, section 4.1).
func (t *Template) build(pub *PublicKey, issuer *Certificate, issuerKey *PublicKey) ([]byte, error) {
	subject, err := asn1.Marshal(pkix.Name{CommonName: t.CommonName}.ToRDNSequence())
	if err != nil {
		return nil, err
	}
	issuerName, issuerID := subject, keyID(issuerKey)
	if issuer != nil {
		issuerName, issuerID = issuer.RawSubject, issuer.SubjectKeyId
	}
	var b cryptobyte.Builder
	b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1(casn1.Tag(0).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) { b.AddASN1Int64(2) })
		b.AddASN1BigInt(newSerial())
		addAlgorithm(b, issuerKey.algorithm)
		b.AddBytes(issuerName)
		b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
			addTime(b, t.NotBefore)
			addTime(b, t.NotAfter)
		})
		b.AddBytes(subject)
		addPublicKey(b, pub)
		b.AddASN1(casn1.Tag(3).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) {
			b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) { t.addExtensions(b, keyID(pub), issuerID) })
		})
	})
	return b.Bytes()
}

// newSerial has 127 random bits: positive, and at most the 20 bytes of RFC
// 5280, section 4.1.2.2.
func newSerial() *big.Int {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw)
	raw[0] &= 0x7f
	raw[15] |= 1
	return new(big.Int).SetBytes(raw)
}

// addTime is UTCTime until 2049, GeneralizedTime after (RFC 5280, section
// 4.1.2.5).
func addTime(b *cryptobyte.Builder, t time.Time) {
	t = t.UTC().Truncate(time.Second)
	if t.Year() >= 2050 {
		b.AddASN1GeneralizedTime(t)
		return
	}
	b.AddASN1UTCTime(t)
}

// keyID is method (1) of RFC 7093, section 2: 160 bits of SHA-256.
func keyID(p *PublicKey) []byte {
	sum := sha256.Sum256(p.Bytes())
	return sum[:20]
}

func addExtension(b *cryptobyte.Builder, id asn1.ObjectIdentifier, critical bool, value cryptobyte.BuilderContinuation) {
	b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(id)
		if critical {
			b.AddASN1Boolean(true)
		}
		b.AddASN1(casn1.OCTET_STRING, value)
	})
}

func (t *Template) addExtensions(b *cryptobyte.Builder, subjectID, issuerID []byte) {
	addExtension(b, oidBasicConstraints, true, func(b *cryptobyte.Builder) {
		b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
			if t.CA {
				b.AddASN1Boolean(true)
				b.AddASN1Int64(int64(t.MaxPathLen))
			}
		})
	})
	addExtension(b, oidKeyUsage, true, func(b *cryptobyte.Builder) {
		if t.CA {
			b.AddBytes([]byte{3, 2, 1, 0x06}) // keyCertSign, cRLSign
		} else {
			b.AddBytes([]byte{3, 2, 7, 0x80}) // digitalSignature
		}
	})
	if !t.CA {
		addExtension(b, oidExtKeyUsage, false, func(b *cryptobyte.Builder) {
			b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1ObjectIdentifier(oidServerAuth)
				b.AddASN1ObjectIdentifier(oidClientAuth)
			})
		})
	}
	addExtension(b, oidSubjectKeyID, false, func(b *cryptobyte.Builder) { b.AddASN1OctetString(subjectID) })
	addExtension(b, oidAuthorityKeyID, false, func(b *cryptobyte.Builder) {
		b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(casn1.Tag(0).ContextSpecific(), func(b *cryptobyte.Builder) { b.AddBytes(issuerID) })
		})
	})
	if len(t.DNSNames)+len(t.IPs)+len(t.URIs) > 0 {
		addExtension(b, oidSubjectAltName, t.CommonName == "", t.addNames)
	}
}

// addNames adds GeneralNames (RFC 5280, section 4.2.1.6).
func (t *Template) addNames(b *cryptobyte.Builder) {
	add := func(b *cryptobyte.Builder, tag uint8, value []byte) {
		b.AddASN1(casn1.Tag(tag).ContextSpecific(), func(b *cryptobyte.Builder) { b.AddBytes(value) })
	}
	b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
		for _, name := range t.DNSNames {
			add(b, 2, []byte(name))
		}
		for _, uri := range t.URIs {
			add(b, 6, []byte(uri.String()))
		}
		for _, ip := range t.IPs {
			if v4 := ip.To4(); v4 != nil {
				ip = v4
			}
			add(b, 7, ip)
		}
	})
}
