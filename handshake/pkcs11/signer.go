//go:build pkcs11

package pkcs11

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"math/big"
	"sync/atomic"
	"time"

	p11 "github.com/miekg/pkcs11"
	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// signer signs by one key of the token.
type signer struct {
	k      *keys
	name   string
	public crypto.PublicKey
	at     atomic.Pointer[place]
}

// place is where the key was found.
type place struct {
	generation int // of the module
	object     p11.ObjectHandle
}

// Public is the public half.
func (s *signer) Public() crypto.PublicKey { return s.public }

// Close does nothing: the sessions are the token's.
func (s *signer) Close() error { return nil }

// Sign implements crypto.Signer; the random source is the token's own.
func (s *signer) Sign(_ io.Reader, input []byte, opts crypto.SignerOpts) ([]byte, error) {
	begun := time.Now()
	signature, err := s.sign(input, opts)
	if s.k.s.Observe != nil {
		s.k.s.Observe(time.Since(begun), err)
	}
	if err != nil {
		return nil, fmt.Errorf("key with %s: %w", s.k.named(s.name), err)
	}
	return signature, nil
}

func (s *signer) sign(input []byte, opts crypto.SignerOpts) ([]byte, error) {
	mechanism, err := mechanismOf(s.public, input, opts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.k.bounded(s.k.ctx)
	defer cancel()
	signature, err := call(ctx, s.k.t, func(in session) ([]byte, error) {
		key, err := s.object(in)
		if err != nil {
			return nil, err
		}
		// A mechanism's parameters are freed with its first use.
		if err := in.SignInit(in.handle, []*p11.Mechanism{mechanism()}, key); err != nil {
			return nil, err
		}
		return in.Sign(in.handle, input)
	})
	if _, ec := s.public.(*ecdsa.PublicKey); ec && err == nil {
		return derOf(signature)
	}
	return signature, err
}

// object is the key's handle; it is looked for again after a new beginning of the module.
func (s *signer) object(in session) (p11.ObjectHandle, error) {
	if at := s.at.Load(); at != nil && at.generation == in.generation {
		return at.object, nil
	}
	found, err := s.k.find(in, s.name)
	if err != nil {
		return 0, err
	}
	shown := false
	for _, key := range found {
		shown = shown || key.public != nil
		if public, ok := key.public.(interface{ Equal(x crypto.PublicKey) bool }); ok && public.Equal(s.public) {
			s.at.Store(&place{in.generation, key.object})
			return key.object, nil
		}
	}
	if !shown {
		return 0, s.k.hidden(s.name)
	}
	return 0, s.k.fail(ErrKey, errors.New("the certificate is for another than the one with "+s.k.named(s.name)), "")
}

var pssParams = map[crypto.Hash]struct{ hash, mgf uint }{
	crypto.SHA256: {p11.CKM_SHA256, p11.CKG_MGF1_SHA256},
	crypto.SHA384: {p11.CKM_SHA384, p11.CKG_MGF1_SHA384},
	crypto.SHA512: {p11.CKM_SHA512, p11.CKG_MGF1_SHA512},
}

// mechanismOf is how the token is to sign. RSA keys sign by PSS alone, as TLS 1.3
// has it; TLS 1.2 has it, too.
func mechanismOf(public crypto.PublicKey, input []byte, opts crypto.SignerOpts) (func() *p11.Mechanism, error) {
	hash := crypto.Hash(0)
	if opts != nil {
		hash = opts.HashFunc()
	}
	params, digest := pssParams[hash]
	digest = digest && len(input) == hash.Size()
	pss, isPSS := opts.(*rsa.PSSOptions)
	switch public.(type) {
	case *ecdsa.PublicKey:
		if digest && !isPSS {
			return func() *p11.Mechanism { return p11.NewMechanism(p11.CKM_ECDSA, nil) }, nil
		}
	case *rsa.PublicKey:
		if digest && isPSS && (pss.SaltLength == rsa.PSSSaltLengthEqualsHash || pss.SaltLength == hash.Size()) {
			salt := uint(hash.Size()) //nolint:gosec // sizes are small
			return func() *p11.Mechanism {
				return p11.NewMechanism(p11.CKM_RSA_PKCS_PSS, p11.NewPSSParams(params.hash, params.mgf, salt))
			}, nil
		}
	case ed25519.PublicKey:
		if hash == 0 {
			return func() *p11.Mechanism { return p11.NewMechanism(ckmEDDSA, nil) }, nil
		}
	}
	return nil, fmt.Errorf("a key of type %T does not sign this in TLS 1.3", public)
}

// derOf turns the token's r and s, one behind the other, into what TLS has.
func derOf(signature []byte) ([]byte, error) {
	half := len(signature) / 2
	if half == 0 || len(signature)%2 != 0 {
		return nil, fmt.Errorf("the token gives an ECDSA signature of %d bytes", len(signature))
	}
	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1BigInt(new(big.Int).SetBytes(signature[:half]))
		b.AddASN1BigInt(new(big.Int).SetBytes(signature[half:]))
	})
	return b.Bytes()
}
