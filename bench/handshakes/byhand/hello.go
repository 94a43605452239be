package byhand

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/cryptobyte"
)

// Kinds of handshake messages (RFC 8446, section 4).
const (
	clientHello         = 1
	serverHello         = 2
	newSessionTicket    = 4
	encryptedExtensions = 8
	certificate         = 11
	certificateVerify   = 15
	finished            = 20
	messageHash         = 254
)

// Kinds of extensions (section 4.2).
const (
	extensionServerName = 0
	extensionGroups     = 10
	extensionSignatures = 13
	extensionALPN       = 16
	extensionVersions   = 43
	extensionShare      = 51
)

// retryRandom is in a ServerHello that is a HelloRetryRequest: SHA-256 of that
// name (section 4.1.3).
var retryRandom = sha256.Sum256([]byte("HelloRetryRequest"))

// signatureContext is signed before the transcript (section 4.4.3).
var signatureContext = []byte(strings.Repeat(" ", 64) + "TLS 1.3, server CertificateVerify\x00")

var schemes = []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256, tls.Ed25519, tls.PSSWithSHA256, tls.PKCS1WithSHA256}

// clientHello offers X25519MLKEM768 and X25519, with a share of one of them.
func (h *handshake) clientHello(group tls.CurveID, share []byte) ([]byte, error) {
	var b cryptobyte.Builder
	b.AddUint8(clientHello)
	b.AddUint24LengthPrefixed(func(b *cryptobyte.Builder) {
		b.AddUint16(tls.VersionTLS12)
		b.AddBytes(h.hello[:])
		b.AddUint8(0) // no session ID
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddUint16(tls.TLS_AES_128_GCM_SHA256) })
		b.AddBytes([]byte{1, 0}) // no compression
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { h.extensions(b, group, share) })
	})
	return b.Bytes()
}

func (h *handshake) extensions(b *cryptobyte.Builder, group tls.CurveID, share []byte) {
	extension := func(kind uint16, value func(*cryptobyte.Builder)) {
		b.AddUint16(kind)
		b.AddUint16LengthPrefixed(value)
	}
	// list is a value that is one vector.
	list := func(kind uint16, content func(*cryptobyte.Builder)) {
		extension(kind, func(b *cryptobyte.Builder) { b.AddUint16LengthPrefixed(content) })
	}
	list(extensionServerName, func(b *cryptobyte.Builder) {
		b.AddUint8(0) // a host's
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(h.settings.ServerName)) })
	})
	list(extensionGroups, func(b *cryptobyte.Builder) {
		b.AddUint16(uint16(tls.X25519MLKEM768))
		b.AddUint16(uint16(tls.X25519))
	})
	list(extensionSignatures, func(b *cryptobyte.Builder) {
		for _, s := range schemes {
			b.AddUint16(uint16(s))
		}
	})
	list(extensionALPN, func(b *cryptobyte.Builder) {
		b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(h.settings.ALPN)) })
	})
	extension(extensionVersions, func(b *cryptobyte.Builder) {
		b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddUint16(tls.VersionTLS13) })
	})
	list(extensionShare, func(b *cryptobyte.Builder) {
		b.AddUint16(uint16(group))
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(share) })
	})
}

// answer is a ServerHello.
type answer struct {
	retry bool
	group tls.CurveID
	share cryptobyte.String
}

// readHello reads a ServerHello, or the HelloRetryRequest that looks like one.
func (h *handshake) readHello() (a answer, err error) {
	body, err := h.message(serverHello)
	if err != nil {
		return a, err
	}
	var random []byte
	var session cryptobyte.String
	var suite uint16
	if !body.Skip(2) || !body.ReadBytes(&random, len(retryRandom)) || !body.ReadUint8LengthPrefixed(&session) || !body.ReadUint16(&suite) || !body.Skip(1) {
		return a, errShort
	}
	if suite != tls.TLS_AES_128_GCM_SHA256 {
		return a, fmt.Errorf("cipher suite %#x, which was not offered", suite)
	}
	a.retry = bytes.Equal(random, retryRandom[:])
	return a, eachExtension(body, func(kind uint16, value cryptobyte.String) bool {
		if kind != extensionShare {
			return true
		}
		return value.ReadUint16((*uint16)(&a.group)) && (a.retry || value.ReadUint16LengthPrefixed(&a.share))
	})
}

// eachExtension calls f for each extension of a list; f returns false for one that
// ends too early.
func eachExtension(body cryptobyte.String, f func(kind uint16, value cryptobyte.String) bool) error {
	var list cryptobyte.String
	if !body.ReadUint16LengthPrefixed(&list) {
		return errShort
	}
	for !list.Empty() {
		var kind uint16
		var value cryptobyte.String
		if !list.ReadUint16(&kind) || !list.ReadUint16LengthPrefixed(&value) || !f(kind, value) {
			return errShort
		}
	}
	return nil
}

var (
	errShort  = errors.New("a message ends too early")
	errScheme = errors.New("a signature of a kind that was not offered, or not the key's")
	errProof  = errors.New("the server's signature is wrong")
)

// verify holds a signature against the certificate's key.
func verify(key crypto.PublicKey, scheme tls.SignatureScheme, signed, signature []byte) error {
	sum := sha256.Sum256(signed)
	ok := false
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if scheme != tls.ECDSAWithP256AndSHA256 {
			return errScheme
		}
		ok = ecdsa.VerifyASN1(key, sum[:], signature)
	case ed25519.PublicKey:
		if scheme != tls.Ed25519 {
			return errScheme
		}
		ok = ed25519.Verify(key, signed, signature)
	case *rsa.PublicKey:
		if scheme != tls.PSSWithSHA256 {
			return errScheme
		}
		ok = rsa.VerifyPSS(key, crypto.SHA256, sum[:], signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
	}
	if !ok {
		return errProof
	}
	return nil
}
