package handshake

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
)

// index finds certificates by name. It is built aside, never changed, and
// swapped by one pointer.
type index struct {
	all     []*tls.Certificate
	byName  map[string][]*tls.Certificate // exact and wildcard names, as certificates have them
	primary []*tls.Certificate            // for clients that name no host
}

// newIndex indexes certificates with their leaves parsed. The first is the
// default; another of the same first name stands in for it where the client
// cannot take its kind of key.
func newIndex(certs []*tls.Certificate) *index {
	ix := &index{all: certs, byName: make(map[string][]*tls.Certificate)}
	for _, c := range certs {
		for _, n := range namesOf(c.Leaf) {
			ix.byName[n] = append(ix.byName[n], c)
		}
	}
	for _, list := range ix.byName {
		slices.SortStableFunc(list, func(a, b *tls.Certificate) int { return keyRank(a) - keyRank(b) })
	}
	if len(certs) > 0 {
		ix.primary = certs[:1]
		if names := namesOf(certs[0].Leaf); len(names) > 0 {
			ix.primary = ix.byName[names[0]]
		}
	}
	return ix
}

// keyRank orders certificates for one name: signing with RSA costs forty times
// what ECDSA P-256 does, and Ed25519 is known to few clients.
func keyRank(c *tls.Certificate) int {
	switch c.Leaf.PublicKeyAlgorithm {
	case x509.ECDSA:
		return 0
	case x509.Ed25519:
		return 1
	}
	return 2
}

// find is the certificate for the name in the hello: an exact match before a
// wildcard, nil for none.
func (ix *index) find(hello *tls.ClientHelloInfo) *tls.Certificate {
	name := NormalName(hello.ServerName)
	if name == "" {
		return nil
	}
	list := ix.byName[name]
	if list == nil {
		if w := wildcardOf(name); w != "" {
			list = ix.byName[w]
		}
	}
	return pick(list, hello)
}

// fallback is the default certificate, nil if there is none at all.
func (ix *index) fallback(hello *tls.ClientHelloInfo) *tls.Certificate {
	return pick(ix.primary, hello)
}

// pick is the first certificate of the list whose key the client can verify,
// or else the first.
func pick(list []*tls.Certificate, hello *tls.ClientHelloInfo) *tls.Certificate {
	if len(list) == 0 {
		return nil
	}
	if len(list) > 1 && hello != nil {
		h := *hello
		h.ServerName = "" // the name has been looked up already, or is not the certificate's
		for _, c := range list {
			if h.SupportsCertificate(c) == nil {
				return c
			}
		}
	}
	return list[0]
}

// KeyName names the kind and size of a public key: "ECDSA P-256", "RSA 2048", "Ed25519".
func KeyName(pub any) string {
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		return "ECDSA " + k.Curve.Params().Name
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", k.N.BitLen())
	case ed25519.PublicKey:
		return "Ed25519"
	}
	return fmt.Sprintf("%T", pub)
}

// InfoOf describes a certificate that a source of the given kind has.
func InfoOf(c *x509.Certificate, source, location string) CertInfo {
	return CertInfo{
		Source: source, Location: location, Names: namesOf(c),
		Issuer: c.Issuer.String(), Key: KeyName(c.PublicKey), NotBefore: c.NotBefore, NotAfter: c.NotAfter,
	}
}
