// Package byhand is a TLS 1.3 client (RFC 8446) of the least that a handshake
// takes, for the one that crypto/tls does not make: it offers X25519MLKEM768
// and sends a share of X25519 alone, as clients do that do not count on
// post-quantum servers, so that a server that wants the hybrid has to ask
// again. It knows one cipher suite, resumes nothing and is for benches alone.
package byhand

import (
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/mlkem"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"hash"
	"net"
	"slices"

	"golang.org/x/crypto/cryptobyte"
)

// Settings of a client.
type Settings struct {
	ServerName string
	Roots      *x509.CertPool
	ALPN       string // that the server must agree to
}

// Conn is a connection after its handshake.
type Conn struct {
	net.Conn
	state   tls.ConnectionState
	in, out *keys  // of records, nil in the clear
	rest    []byte // of application data
	records
}

// handshake is one under way.
type handshake struct {
	*Conn
	settings   Settings
	transcript hash.Hash
	x25519     *ecdh.PrivateKey
	kem        *mlkem.DecapsulationKey768
	secret     schedule
	hello      [32]byte // random of the hello
}

// Client shakes hands over raw, whose deadline bounds it. It fails where the server
// does not ask for another share.
func Client(raw net.Conn, s Settings) (*Conn, error) {
	h := &handshake{Conn: &Conn{Conn: raw}, settings: s, transcript: sha256.New()}
	h.records.from = raw
	for _, step := range []func() error{
		h.makeKeys, h.sendFirstHello, h.readRetry, h.sendSecondHello, h.readServerHello,
		h.readExtensions, h.readCertificate, h.readFinished, h.sendFinished,
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("handshake by hand: %w", err)
		}
	}
	return h.Conn, nil
}

// ConnectionState tells what was agreed on.
func (c *Conn) ConnectionState() tls.ConnectionState { return c.state }

func (h *handshake) makeKeys() (err error) {
	if _, err := rand.Read(h.hello[:]); err != nil {
		return err
	}
	h.x25519, err = ecdh.X25519().GenerateKey(rand.Reader)
	return err
}

func (h *handshake) sendFirstHello() error {
	first, err := h.clientHello(tls.X25519, h.x25519.PublicKey().Bytes())
	if err != nil {
		return err
	}
	if err := h.send(typeHandshake, first); err != nil {
		return err
	}
	// Once it was answered by a retry, the hash of the first hello stands for it
	// (section 4.4.1).
	sum := sha256.Sum256(first)
	h.transcript.Write(append([]byte{messageHash, 0, 0, sha256.Size}, sum[:]...))
	return nil
}

func (h *handshake) readRetry() error {
	hello, err := h.readHello()
	if err != nil {
		return err
	}
	if !hello.retry || hello.group != tls.X25519MLKEM768 {
		return fmt.Errorf("the server asks for no other share (group %v)", hello.group)
	}
	return nil
}

// sendSecondHello is the first with a share of what was asked for.
func (h *handshake) sendSecondHello() (err error) {
	if h.kem, err = mlkem.GenerateKey768(); err != nil {
		return err
	}
	if h.x25519, err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
		return err
	}
	second, err := h.clientHello(tls.X25519MLKEM768, append(h.kem.EncapsulationKey().Bytes(), h.x25519.PublicKey().Bytes()...))
	if err != nil {
		return err
	}
	h.transcript.Write(second)
	return h.send(typeHandshake, second)
}

// readServerHello agrees on the shared secret: that of ML-KEM stands first
// (draft-ietf-tls-ecdhe-mlkem, section 4.3).
func (h *handshake) readServerHello() error {
	hello, err := h.readHello()
	if err != nil {
		return err
	}
	if hello.retry || hello.group != tls.X25519MLKEM768 || len(hello.share) != mlkem.CiphertextSize768+32 {
		return fmt.Errorf("the second answer has group %v and a share of %d bytes", hello.group, len(hello.share))
	}
	shared, err := h.kem.Decapsulate(hello.share[:mlkem.CiphertextSize768])
	if err != nil {
		return err
	}
	peer, err := ecdh.X25519().NewPublicKey(hello.share[mlkem.CiphertextSize768:])
	if err != nil {
		return err
	}
	classical, err := h.x25519.ECDH(peer)
	if err != nil {
		return err
	}
	if err := h.secret.agree(append(shared, classical...), h.transcript.Sum(nil)); err != nil {
		return err
	}
	if h.in, err = newKeys(h.secret.server); err != nil {
		return err
	}
	h.out, err = newKeys(h.secret.client)
	return err
}

var errALPN = errors.New("the server does not agree to the protocol")

func (h *handshake) readExtensions() error {
	body, err := h.message(encryptedExtensions)
	if err != nil {
		return err
	}
	var list, agreed cryptobyte.String
	err = eachExtension(body, func(kind uint16, value cryptobyte.String) bool {
		return kind != extensionALPN || value.ReadUint16LengthPrefixed(&list) && list.ReadUint8LengthPrefixed(&agreed)
	})
	if err == nil && string(agreed) != h.settings.ALPN {
		err = errALPN
	}
	return err
}

// readCertificate reads the chain and the proof of its key.
func (h *handshake) readCertificate() error {
	body, err := h.message(certificate)
	if err != nil {
		return err
	}
	chain, err := certificates(body)
	if err != nil {
		return err
	}
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	verified, err := chain[0].Verify(x509.VerifyOptions{DNSName: h.settings.ServerName, Roots: h.settings.Roots, Intermediates: intermediates})
	if err != nil {
		return err
	}
	h.state = tls.ConnectionState{
		Version: tls.VersionTLS13, HandshakeComplete: true, CipherSuite: tls.TLS_AES_128_GCM_SHA256, CurveID: tls.X25519MLKEM768, HelloRetryRequest: true,
		NegotiatedProtocol: h.settings.ALPN, ServerName: h.settings.ServerName, PeerCertificates: chain, VerifiedChains: verified,
	}
	return h.readProof(chain[0])
}

func certificates(body cryptobyte.String) (chain []*x509.Certificate, err error) {
	var context, list cryptobyte.String
	if !body.ReadUint8LengthPrefixed(&context) || !body.ReadUint24LengthPrefixed(&list) || list.Empty() {
		return nil, errShort
	}
	for !list.Empty() {
		var der, extensions cryptobyte.String
		if !list.ReadUint24LengthPrefixed(&der) || !list.ReadUint16LengthPrefixed(&extensions) {
			return nil, errShort
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		chain = append(chain, cert)
	}
	return chain, nil
}

// readProof reads CertificateVerify.
func (h *handshake) readProof(leaf *x509.Certificate) error {
	signed := append(slices.Clone(signatureContext), h.transcript.Sum(nil)...)
	body, err := h.message(certificateVerify)
	if err != nil {
		return err
	}
	var scheme uint16
	var signature cryptobyte.String
	if !body.ReadUint16(&scheme) || !body.ReadUint16LengthPrefixed(&signature) {
		return errShort
	}
	return verify(leaf.PublicKey, tls.SignatureScheme(scheme), signed, signature)
}

func (h *handshake) readFinished() error {
	want := finishedMAC(h.secret.server, h.transcript.Sum(nil))
	body, err := h.message(finished)
	if err != nil {
		return err
	}
	if !hmac.Equal(body, want) {
		return errors.New("the server's Finished is wrong")
	}
	return h.secret.application(h.transcript.Sum(nil))
}

// sendFinished ends the handshake; records are application data's from here on.
func (h *handshake) sendFinished() error {
	mac := finishedMAC(h.secret.client, h.secret.atFinished)
	if err := h.send(typeHandshake, append([]byte{finished, 0, 0, byte(len(mac))}, mac...)); err != nil {
		return err
	}
	var err error
	if h.in, err = newKeys(h.secret.serverTraffic); err != nil {
		return err
	}
	h.out, err = newKeys(h.secret.clientTraffic)
	return err
}
