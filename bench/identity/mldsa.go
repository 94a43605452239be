package identity

import (
	"fmt"
	"time"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/kms/pqcert"
)

// Proof is what a hop needs to prove an ML-DSA-65 identity and to ask one of
// its peer: certificates and a key in DER.
type Proof struct {
	Root []byte `json:"root"`
	Leaf []byte `json:"leaf"`
	Key  []byte `json:"key"` // PKCS #8
}

// NewProofs makes an authority and an identity of each name under it.
func NewProofs(names ...string) ([]Proof, error) {
	key, err := pqcert.GenerateKey(pqcert.MLDSA65)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	valid := pqcert.Template{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(30 * 24 * time.Hour)}
	authority := valid
	authority.CommonName, authority.CA = "bench identities", true
	root, err := pqcert.Create(authority, key.PublicKey(), nil, key)
	if err != nil {
		return nil, fmt.Errorf("identities' root: %w", err)
	}
	var out []Proof
	for _, name := range names {
		own, err := pqcert.GenerateKey(pqcert.MLDSA65)
		if err != nil {
			return nil, err
		}
		of := valid
		of.CommonName, of.DNSNames = name, []string{name}
		leaf, err := pqcert.Create(of, own.PublicKey(), root, key)
		if err != nil {
			return nil, fmt.Errorf("identity of %s: %w", name, err)
		}
		der, err := own.MarshalPKCS8()
		if err != nil {
			return nil, err
		}
		out = append(out, Proof{Root: root.Raw, Leaf: leaf.Raw, Key: der})
	}
	return out, nil
}

// Identity is the identity that the proof is of.
func (p Proof) Identity() (*handshake.Identity, error) {
	root, err := pqcert.Parse(p.Root)
	if err != nil {
		return nil, err
	}
	leaf, err := pqcert.Parse(p.Leaf)
	if err != nil {
		return nil, err
	}
	key, err := pqcert.ParsePKCS8(p.Key)
	if err != nil {
		return nil, err
	}
	return handshake.NewIdentity(handshake.IdentitySettings{
		Chain: []*pqcert.Certificate{leaf}, Key: key, Roots: []*pqcert.Certificate{root},
	}, nil)
}
