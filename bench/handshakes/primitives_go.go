package handshakes

import (
	"bytes"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/mlkem"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"

	"github.com/hanzoai/pqgw/bench/identity"
)

var errWrong = errors.New("a wrong result")

// goKEM is one of the two sizes of crypto/mlkem, which has no common type.
type goKEM struct {
	scheme      string
	generate    func() (key []byte, decapsulate func([]byte) ([]byte, error), err error) // key: the public one
	encapsulate func(key []byte) (secret, ciphertext []byte, err error)
}

var goKEMList = []goKEM{
	{"ML-KEM-768", func() ([]byte, func([]byte) ([]byte, error), error) {
		k, err := mlkem.GenerateKey768()
		if err != nil {
			return nil, nil, err
		}
		return k.EncapsulationKey().Bytes(), k.Decapsulate, nil
	}, func(key []byte) ([]byte, []byte, error) {
		k, err := mlkem.NewEncapsulationKey768(key)
		if err != nil {
			return nil, nil, err
		}
		secret, ciphertext := k.Encapsulate()
		return secret, ciphertext, nil
	}},
	{"ML-KEM-1024", func() ([]byte, func([]byte) ([]byte, error), error) {
		k, err := mlkem.GenerateKey1024()
		if err != nil {
			return nil, nil, err
		}
		return k.EncapsulationKey().Bytes(), k.Decapsulate, nil
	}, func(key []byte) ([]byte, []byte, error) {
		k, err := mlkem.NewEncapsulationKey1024(key)
		if err != nil {
			return nil, nil, err
		}
		secret, ciphertext := k.Encapsulate()
		return secret, ciphertext, nil
	}},
}

func goKEMs() []primitive {
	var out []primitive
	for _, k := range goKEMList {
		out = append(out,
			primitive{libGo, k.scheme, keygen, func() (func() error, error) {
				return func() error { _, _, err := k.generate(); return err }, nil
			}},
			primitive{libGo, k.scheme, encapsulate, func() (func() error, error) {
				key, _, err := k.generate()
				return func() error { _, _, err := k.encapsulate(key); return err }, err
			}},
			primitive{libGo, k.scheme, decapsulate, k.prepareDecapsulate},
		)
	}
	return out
}

func (k goKEM) prepareDecapsulate() (func() error, error) {
	key, open, err := k.generate()
	if err != nil {
		return nil, err
	}
	want, ciphertext, err := k.encapsulate(key)
	if err != nil {
		return nil, err
	}
	return func() error {
		got, err := open(ciphertext)
		if err == nil && !bytes.Equal(got, want) {
			err = errWrong
		}
		return err
	}, nil
}

func goCurves() []primitive {
	var out []primitive
	for _, c := range []struct {
		scheme string
		curve  ecdh.Curve
	}{{"X25519", ecdh.X25519()}, {"P-256", ecdh.P256()}, {"P-384", ecdh.P384()}} {
		out = append(out,
			primitive{libGo, c.scheme, keygen, func() (func() error, error) {
				return func() error {
					k, err := c.curve.GenerateKey(rand.Reader)
					if err == nil && len(k.PublicKey().Bytes()) == 0 {
						err = errWrong
					}
					return err
				}, nil
			}},
			primitive{libGo, c.scheme, agree, func() (func() error, error) { return prepareAgree(c.curve) }},
		)
	}
	return out
}

// prepareAgree makes both keys; parsing the peer's is part of the operation.
func prepareAgree(curve ecdh.Curve) (func() error, error) {
	ours, err := curve.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	theirs, err := curve.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	want, err := theirs.ECDH(ours.PublicKey())
	if err != nil {
		return nil, err
	}
	wire := theirs.PublicKey().Bytes()
	return func() error {
		peer, err := curve.NewPublicKey(wire)
		if err != nil {
			return err
		}
		got, err := ours.ECDH(peer)
		if err == nil && !bytes.Equal(got, want) {
			err = errWrong
		}
		return err
	}, nil
}

// goSignatures sign as CertificateVerify of TLS 1.3 does (RFC 8446, section
// 4.4.3): RSA with PSS, ECDSA over SHA-256, Ed25519 over the whole message.
func goSignatures() []primitive {
	var out []primitive
	for _, auth := range auths {
		if auth == authMLDSA {
			continue
		}
		out = append(out,
			primitive{libGo, auth, sign, func() (func() error, error) {
				key, err := identity.NewKey(auth)
				return func() error { _, err := signMessage(key, message130); return err }, err
			}},
			primitive{libGo, auth, verify, func() (func() error, error) {
				key, err := identity.NewKey(auth)
				if err != nil {
					return nil, err
				}
				signature, err := signMessage(key, message130)
				return func() error { return verifyMessage(key.Public(), message130, signature) }, err
			}},
		)
	}
	return out
}

func signMessage(key crypto.Signer, message []byte) ([]byte, error) {
	switch key.(type) {
	case ed25519.PrivateKey:
		return key.Sign(rand.Reader, message, crypto.Hash(0))
	case *rsa.PrivateKey:
		digest := sha256.Sum256(message)
		return key.Sign(rand.Reader, digest[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256})
	}
	digest := sha256.Sum256(message)
	return key.Sign(rand.Reader, digest[:], crypto.SHA256)
}

func goSymmetric() []primitive {
	return []primitive{
		{libGo, "SHA-256", derive, func() (func() error, error) {
			return func() error { return keySchedule(sha256.New) }, nil
		}},
		{libGo, "SHA-384", derive, func() (func() error, error) {
			return func() error { return keySchedule(sha512.New384) }, nil
		}},
		{libGo, "AES-128-GCM", seal, prepareSeal},
	}
}

// keySchedule derives as many secrets, keys and IVs as a TLS 1.3 handshake
// does (RFC 8446, section 7.1): three extractions; eight secrets, two finished
// keys, one ticket's, four keys and four IVs.
func keySchedule(h func() hash.Hash) error {
	size := h().Size()
	secret := make([]byte, size)
	for range 3 {
		var err error
		if secret, err = hkdf.Extract(h, secret, secret); err != nil {
			return err
		}
	}
	info := string(make([]byte, 20+size)) // a label and a transcript's hash
	for i := range 19 {
		length := size
		if i >= 11 {
			length = 16
		}
		if _, err := hkdf.Expand(h, secret, info, length); err != nil {
			return err
		}
	}
	return nil
}

func prepareSeal() (func() error, error) {
	key, nonce, plain := make([]byte, 16), make([]byte, 12), make([]byte, 1<<10)
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(b)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(plain)+aead.Overhead())
	return func() error {
		if n := len(aead.Seal(out, nonce, plain, nil)); n != len(plain)+aead.Overhead() {
			return fmt.Errorf("sealed %d bytes", n)
		}
		return nil
	}, nil
}
