package handshake

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/crypto/cryptobyte"

	"github.com/hanzoai/pqgw/kms/pqcert"
)

// Limits of a proof's message. A usual one, of one certificate and ML-DSA-65, has 9 KB.
const (
	maxProof     = 64 << 10
	maxSignature = 8 << 10
)

// kindRefusal is what a message has in the place of the role when it tells why
// the other's proof was not taken.
const kindRefusal = 255

// maxRefusal bounds its text.
const maxRefusal = 64

// proof is a message as it came: a proof, or a refusal.
type proof struct {
	role      role
	rawChain  []byte
	chain     []*pqcert.Certificate
	signature []byte
	refusal   Reason // set where the peer refuses
}

// proofError is why a proof is not taken.
type proofError struct {
	reason Reason
	err    error
}

func (e *proofError) Error() string { return e.err.Error() }
func (e *proofError) Unwrap() error { return e.err }

// refusedByPeer is what the peer said about our proof.
type refusedByPeer struct{ reason Reason }

func (e *refusedByPeer) Error() string { return errPeerRefused.Error() + ": " + string(e.reason) }
func (e *refusedByPeer) Unwrap() error { return errPeerRefused }

// appendChain appends the certificates, each with its length in 24 bits, the
// leaf first.
func appendChain(b []byte, chain []*pqcert.Certificate) []byte {
	for _, c := range chain {
		n := len(c.Raw)
		b = append(append(b, byte(n>>16), byte(n>>8), byte(n)), c.Raw...)
	}
	return b
}

// writeMessage sends a message in one write:
//
//	length of the rest  32 bits, big-endian
//	role                 8 bits
//	chain               24 bits of length, then the certificates
//	signature           16 bits of length, then its bytes
func writeMessage(w io.Writer, kind byte, chain, signature []byte) error {
	var b cryptobyte.Builder
	b.AddUint32LengthPrefixed(func(b *cryptobyte.Builder) {
		b.AddUint8(kind)
		b.AddUint24LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(chain) })
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(signature) })
	})
	message, err := b.Bytes()
	if err != nil {
		return err
	}
	_, err = w.Write(message)
	return err
}

// writeRefusal tells the peer why its proof is not taken: a message of this kind
// with the reason in place of the signature.
func writeRefusal(w io.Writer, reason Reason) error {
	return writeMessage(w, kindRefusal, nil, []byte(reason))
}

func malformedProof(format string, args ...any) error {
	return &proofError{IdentityMalformed, fmt.Errorf(format, args...)}
}

// readProof reads exactly one message. Errors are a *proofError, or what the
// connection said.
func readProof(r io.Reader) (*proof, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxProof {
		return nil, malformedProof("a message of %d bytes, at most %d are taken", n, maxProof)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	return parseProof(body)
}

func parseProof(body []byte) (*proof, error) {
	in := cryptobyte.String(body)
	var kind uint8
	var chain, signature cryptobyte.String
	if !in.ReadUint8(&kind) || !in.ReadUint24LengthPrefixed(&chain) || !in.ReadUint16LengthPrefixed(&signature) || !in.Empty() {
		return nil, malformedProof("a message that is not whole, or longer than its parts")
	}
	p := &proof{role: role(kind), rawChain: chain, signature: signature}
	switch {
	case kind == kindRefusal:
		return p, p.setRefusal()
	case p.role != roleClient && p.role != roleServer:
		return nil, malformedProof("role %d is unknown", kind)
	case len(signature) > maxSignature:
		return nil, malformedProof("a signature of %d bytes", len(signature))
	}
	for !chain.Empty() {
		if len(p.chain) == pqcert.MaxChain {
			return nil, malformedProof("more than %d certificates", pqcert.MaxChain)
		}
		var der cryptobyte.String
		if !chain.ReadUint24LengthPrefixed(&der) {
			return nil, malformedProof("a certificate that is not whole")
		}
		c, err := pqcert.Parse(der)
		if err != nil {
			return nil, &proofError{IdentityMalformed, err}
		}
		p.chain = append(p.chain, c)
	}
	return p, nil
}

// setRefusal keeps only reasons that we know: a peer writes nothing of its own
// into our log.
func (p *proof) setRefusal() error {
	if len(p.signature) > maxRefusal || !slices.Contains(Reasons(), Reason(p.signature)) {
		p.refusal = PeerAlert
		return nil
	}
	p.refusal = Reason(p.signature)
	return nil
}

// reasonOfChain is the reason for what pqcert says.
func reasonOfChain(err error) Reason {
	for _, r := range [...]struct {
		err    error
		reason Reason
	}{
		{pqcert.ErrExpired, IdentityExpired},
		{pqcert.ErrUnknown, IdentityUnknown},
		{pqcert.ErrUsage, IdentityUsage},
		{pqcert.ErrName, IdentityName},
		{pqcert.ErrSignature, IdentityUnknown}, // no authority of ours made it
	} {
		if errors.Is(err, r.err) {
			return r.reason
		}
	}
	return IdentityMalformed
}

// identityRefused explains a proof that came to nothing.
func identityRefused(err error, client bool) *RefusedError {
	e := &RefusedError{Upstream: client, Err: err, Identity: true}
	var p *proofError
	if errors.As(err, &p) {
		e.Reason = p.reason
	} else {
		e.Reason = classify(err, client, Internal)
	}
	return e
}
