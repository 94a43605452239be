package handshakes

import (
	"bytes"
	"crypto/rand"

	"github.com/cloudflare/circl/dh/x25519"
	"github.com/cloudflare/circl/kem"
	"github.com/cloudflare/circl/kem/mlkem/mlkem1024"
	"github.com/cloudflare/circl/kem/mlkem/mlkem768"
	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
)

func circlPrimitives() []primitive {
	out := []primitive{
		{libCircl, "X25519", keygen, func() (func() error, error) {
			return func() error { _, _, err := circlPair(); return err }, nil
		}},
		{libCircl, "X25519", agree, circlAgree},
	}
	for _, s := range []kem.Scheme{mlkem768.Scheme(), mlkem1024.Scheme()} {
		out = append(out,
			primitive{libCircl, s.Name(), keygen, func() (func() error, error) {
				return func() error {
					key, _, err := s.GenerateKeyPair()
					if err == nil {
						_, err = key.MarshalBinary()
					}
					return err
				}, nil
			}},
			primitive{libCircl, s.Name(), encapsulate, func() (func() error, error) { return circlEncapsulate(s) }},
			primitive{libCircl, s.Name(), decapsulate, func() (func() error, error) { return circlDecapsulate(s) }},
		)
	}
	return append(out,
		primitive{libCircl, "ML-DSA-65", sign, func() (func() error, error) {
			_, key, err := mldsa65.GenerateKey(rand.Reader)
			signature := make([]byte, mldsa65.SignatureSize)
			return func() error { return mldsa65.SignTo(key, message130, nil, true, signature) }, err
		}},
		primitive{libCircl, "ML-DSA-65", verify, circlVerify},
	)
}

// message130 is as long as what CertificateVerify of TLS 1.3 signs.
var message130 = bytes.Repeat([]byte{0x20}, 130)

func circlPair() (public, secret x25519.Key, err error) {
	if _, err = rand.Read(secret[:]); err == nil {
		x25519.KeyGen(&public, &secret)
	}
	return public, secret, err
}

func circlAgree() (func() error, error) {
	public, secret, err := circlPair()
	if err != nil {
		return nil, err
	}
	return func() error {
		var shared x25519.Key
		if !x25519.Shared(&shared, &secret, &public) {
			return errWrong
		}
		return nil
	}, nil
}

func circlEncapsulate(s kem.Scheme) (func() error, error) {
	key, _, err := s.GenerateKeyPair()
	if err != nil {
		return nil, err
	}
	wire, err := key.MarshalBinary()
	return func() error {
		peer, err := s.UnmarshalBinaryPublicKey(wire)
		if err == nil {
			_, _, err = s.Encapsulate(peer)
		}
		return err
	}, err
}

func circlDecapsulate(s kem.Scheme) (func() error, error) {
	public, key, err := s.GenerateKeyPair()
	if err != nil {
		return nil, err
	}
	ciphertext, want, err := s.Encapsulate(public)
	return func() error {
		got, err := s.Decapsulate(key, ciphertext)
		if err == nil && !bytes.Equal(got, want) {
			err = errWrong
		}
		return err
	}, err
}

func circlVerify() (func() error, error) {
	public, key, err := mldsa65.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	signature := make([]byte, mldsa65.SignatureSize)
	err = mldsa65.SignTo(key, message130, nil, true, signature)
	return func() error {
		if !mldsa65.Verify(public, message130, nil, signature) {
			return errWrong
		}
		return nil
	}, err
}
