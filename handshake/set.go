package handshake

import (
	"crypto/tls"
	"sync/atomic"
)

// Held is a certificate of a [Set], with what is told of it.
type Held struct {
	// Certificate has its Leaf parsed.
	Certificate *tls.Certificate
	// Location is the file or store entry it came from.
	Location string
}

// Set finds certificates that something else keeps fresh: the part that is the
// same for sources of every kind. The zero value is empty. It is safe for
// concurrent use.
type Set struct {
	// Kind is what Describe calls the source. It must not change any more once the set is in use.
	Kind string

	current atomic.Pointer[heldIndex]
}

type heldIndex struct {
	*index
	held []Held
}

// Put replaces all certificates. The first is the default.
func (s *Set) Put(held []Held) {
	certs := make([]*tls.Certificate, len(held))
	for i, h := range held {
		certs[i] = h.Certificate
	}
	s.current.Store(&heldIndex{index: newIndex(certs), held: held})
}

// Certificate is the certificate for the name in the hello, nil for none: an
// exact name before a wildcard, ECDSA before RSA where the client can.
func (s *Set) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if ix := s.current.Load(); ix != nil {
		return ix.find(hello), nil
	}
	return nil, nil
}

// Default is the first certificate, or one for the same name that suits the
// client better; nil for none.
func (s *Set) Default(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if ix := s.current.Load(); ix != nil {
		return ix.fallback(hello), nil
	}
	return nil, nil
}

// Describe lists the certificates.
func (s *Set) Describe() []CertInfo {
	ix := s.current.Load()
	if ix == nil {
		return nil
	}
	infos := make([]CertInfo, len(ix.held))
	for i, h := range ix.held {
		infos[i] = InfoOf(h.Certificate.Leaf, s.Kind, h.Location)
	}
	return infos
}
