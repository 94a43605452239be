package pqcert

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
	"github.com/cloudflare/circl/sign/mldsa/mldsa87"
)

// Algorithm is a parameter set of ML-DSA (FIPS 204).
type Algorithm int

// The parameter sets that are taken. ML-DSA-44 is below what its key exchange,
// ML-KEM-768, gives.
const (
	MLDSA65 Algorithm = 65
	MLDSA87 Algorithm = 87
)

// ErrAlgorithm means a key or signature that is not of ML-DSA-65 or ML-DSA-87.
var ErrAlgorithm = errors.New("pqcert: algorithm is not ML-DSA-65 or ML-DSA-87")

// ParseAlgorithm reads what String writes: "ml-dsa-65" or "ml-dsa-87".
func ParseAlgorithm(name string) (Algorithm, error) {
	for _, a := range []Algorithm{MLDSA65, MLDSA87} {
		if strings.EqualFold(name, a.String()) {
			return a, nil
		}
	}
	return 0, fmt.Errorf("%w: %q", ErrAlgorithm, name)
}

// String is the name that commands and configuration use.
func (a Algorithm) String() string { return fmt.Sprintf("ml-dsa-%d", int(a)) }

// oid is RFC 9881, section 2.
func (a Algorithm) oid() asn1.ObjectIdentifier {
	if a == MLDSA87 {
		return asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 3, 19}
	}
	return asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 3, 18}
}

func algorithmOf(oid asn1.ObjectIdentifier) (Algorithm, error) {
	for _, a := range []Algorithm{MLDSA65, MLDSA87} {
		if oid.Equal(a.oid()) {
			return a, nil
		}
	}
	return 0, fmt.Errorf("%w: %v", ErrAlgorithm, oid)
}

func (a Algorithm) publicSize() int {
	if a == MLDSA87 {
		return mldsa87.PublicKeySize
	}
	return mldsa65.PublicKeySize
}

func (a Algorithm) signatureSize() int {
	if a == MLDSA87 {
		return mldsa87.SignatureSize
	}
	return mldsa65.SignatureSize
}

// SeedSize is the length of the seed that a private key grows from.
const SeedSize = 32

// Options of a signature; crypto.Hash(0) does for none.
type Options struct {
	// Context separates domains: at most 255 bytes. Certificates use none.
	Context string
}

// HashFunc implements crypto.SignerOpts: ML-DSA hashes by itself.
func (*Options) HashFunc() crypto.Hash { return 0 }

// PrivateKey is an ML-DSA private key and a crypto.Signer of messages, not of
// digests. Signatures are hedged (FIPS 204, section 3.4).
type PrivateKey struct {
	algorithm Algorithm
	seed      []byte // nil where only the expanded key is known
	k65       *mldsa65.PrivateKey
	k87       *mldsa87.PrivateKey
}

// GenerateKey makes a fresh key.
func GenerateKey(a Algorithm) (*PrivateKey, error) {
	seed := make([]byte, SeedSize)
	_, _ = rand.Read(seed)
	defer clear(seed)
	return NewKeyFromSeed(a, seed)
}

// NewKeyFromSeed grows the key of a seed of SeedSize bytes.
func NewKeyFromSeed(a Algorithm, seed []byte) (*PrivateKey, error) {
	if len(seed) != SeedSize {
		return nil, fmt.Errorf("pqcert: a seed has %d bytes, not %d", SeedSize, len(seed))
	}
	k := &PrivateKey{algorithm: a, seed: bytes.Clone(seed)}
	switch a {
	case MLDSA65:
		_, k.k65 = mldsa65.NewKeyFromSeed((*[SeedSize]byte)(seed))
	case MLDSA87:
		_, k.k87 = mldsa87.NewKeyFromSeed((*[SeedSize]byte)(seed))
	default:
		return nil, ErrAlgorithm
	}
	return k, nil
}

func newExpandedKey(a Algorithm, expanded []byte) (*PrivateKey, error) {
	k := &PrivateKey{algorithm: a}
	if a == MLDSA87 {
		k.k87 = new(mldsa87.PrivateKey)
		return k, k.k87.UnmarshalBinary(expanded)
	}
	k.k65 = new(mldsa65.PrivateKey)
	return k, k.k65.UnmarshalBinary(expanded)
}

func (k *PrivateKey) expanded() []byte {
	if k.algorithm == MLDSA87 {
		return k.k87.Bytes()
	}
	return k.k65.Bytes()
}

// Algorithm is the key's parameter set.
func (k *PrivateKey) Algorithm() Algorithm { return k.algorithm }

// Public returns the *PublicKey.
func (k *PrivateKey) Public() crypto.PublicKey { return k.PublicKey() }

// PublicKey is Public with its type.
func (k *PrivateKey) PublicKey() *PublicKey {
	p := &PublicKey{algorithm: k.algorithm}
	if k.algorithm == MLDSA87 {
		p.k87 = k.k87.Public().(*mldsa87.PublicKey)
	} else {
		p.k65 = k.k65.Public().(*mldsa65.PublicKey)
	}
	return p
}

// Sign implements crypto.Signer over the message itself. Options may be nil,
// crypto.Hash(0) or *Options.
func (k *PrivateKey) Sign(_ io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts != nil && opts.HashFunc() != 0 {
		return nil, errors.New("pqcert: ML-DSA signs messages, not digests")
	}
	var context []byte
	if o, ok := opts.(*Options); ok && o != nil {
		context = []byte(o.Context)
	}
	signature := make([]byte, k.algorithm.signatureSize())
	var err error
	if k.algorithm == MLDSA87 {
		err = mldsa87.SignTo(k.k87, message, context, true, signature)
	} else {
		err = mldsa65.SignTo(k.k65, message, context, true, signature)
	}
	if err != nil {
		return nil, fmt.Errorf("pqcert: sign: %w", err)
	}
	return signature, nil
}

// Equal reports whether x is the same key.
func (k *PrivateKey) Equal(x crypto.PrivateKey) bool {
	other, ok := x.(*PrivateKey)
	return ok && other.algorithm == k.algorithm && bytes.Equal(k.expanded(), other.expanded())
}

// String names the key without showing it.
func (k *PrivateKey) String() string { return k.algorithm.String() + " private key" }

// GoString names the key without showing it.
func (k *PrivateKey) GoString() string { return k.String() }

// Format names the key without showing it, whatever the verb.
func (k *PrivateKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// PublicKey is an ML-DSA public key.
type PublicKey struct {
	algorithm Algorithm
	k65       *mldsa65.PublicKey
	k87       *mldsa87.PublicKey
}

// NewPublicKey reads the bytes of a public key (FIPS 204, pkEncode).
func NewPublicKey(a Algorithm, raw []byte) (*PublicKey, error) {
	if len(raw) != a.publicSize() {
		return nil, fmt.Errorf("pqcert: a public key of %v has %d bytes, not %d", a, a.publicSize(), len(raw))
	}
	p := &PublicKey{algorithm: a}
	if a == MLDSA87 {
		p.k87 = new(mldsa87.PublicKey)
		return p, p.k87.UnmarshalBinary(raw)
	}
	p.k65 = new(mldsa65.PublicKey)
	return p, p.k65.UnmarshalBinary(raw)
}

// Algorithm is the key's parameter set.
func (p *PublicKey) Algorithm() Algorithm { return p.algorithm }

// Bytes is the key's encoding (FIPS 204, pkEncode).
func (p *PublicKey) Bytes() []byte {
	if p.algorithm == MLDSA87 {
		return p.k87.Bytes()
	}
	return p.k65.Bytes()
}

// Verify reports whether the signature is the key's over the message, with the
// given context.
func (p *PublicKey) Verify(message, signature []byte, context string) bool {
	if p.algorithm == MLDSA87 {
		return mldsa87.Verify(p.k87, message, []byte(context), signature)
	}
	return mldsa65.Verify(p.k65, message, []byte(context), signature)
}

// Equal reports whether x is the same key.
func (p *PublicKey) Equal(x crypto.PublicKey) bool {
	other, ok := x.(*PublicKey)
	return ok && other.algorithm == p.algorithm && bytes.Equal(p.Bytes(), other.Bytes())
}
