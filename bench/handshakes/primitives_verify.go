package handshakes

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"fmt"
)

func verifyMessage(key crypto.PublicKey, message, signature []byte) error {
	digest := sha256.Sum256(message)
	switch k := key.(type) {
	case ed25519.PublicKey:
		if ed25519.Verify(k, message, signature) {
			return nil
		}
	case *ecdsa.PublicKey:
		if ecdsa.VerifyASN1(k, digest[:], signature) {
			return nil
		}
	case *rsa.PublicKey:
		return rsa.VerifyPSS(k, crypto.SHA256, digest[:], signature, nil)
	default:
		return fmt.Errorf("no signatures by %T", key)
	}
	return errWrong
}
