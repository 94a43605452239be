package handshake

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/kms/pqcert"
)

// identitySuffix on a protocol id says that both sides prove a post-quantum
// identity before the protocol begins.
const identitySuffix = "+id"

// WithIdentity are the protocol ids as they are offered on a hop with an
// identity: "zap-http/1+id" for "zap-http/1".
func WithIdentity(protos []string) []string {
	ids := make([]string, len(protos))
	for i, p := range protos {
		ids[i] = p + identitySuffix
	}
	return ids
}

// BaseProtocol is the protocol id without what says that identities are proven.
func BaseProtocol(alpn string) string { return strings.TrimSuffix(alpn, identitySuffix) }

// identityLabel is the label of the exported value that a proof signs (RFC 8446,
// section 7.5): like the channel binding of RFC 9266, but no protocol's else.
const identityLabel = "EXPORTER-pqgw-identity-1"

// exportedSize is the length of that value, as RFC 9266 has it.
const exportedSize = 32

// IdentitySettings are what an [Identity] is made of.
type IdentitySettings struct {
	// Chain is our certificate and what leads from it to an authority that peers trust.
	Chain []*pqcert.Certificate
	// Key signs messages with the leaf's ML-DSA key: a *pqcert.PrivateKey or
	// one that a key store holds.
	Key crypto.Signer
	// Roots vouch for peers.
	Roots []*pqcert.Certificate
}

// Identity proves who we are on a hop by an ML-DSA certificate, and asks the
// same of the peer: X25519MLKEM768 keeps secret what was said, and says nothing
// of who said it. It is safe for concurrent use.
type Identity struct {
	current atomic.Pointer[IdentitySettings]
	now     func() time.Time
}

// NewIdentity makes one; now is the clock, time.Now where nil.
func NewIdentity(s IdentitySettings, now func() time.Time) (*Identity, error) {
	if now == nil {
		now = time.Now
	}
	i := &Identity{now: now}
	return i, i.Replace(s)
}

// Replace puts another certificate, key and roots in force for handshakes to come.
func (i *Identity) Replace(s IdentitySettings) error {
	if len(s.Chain) == 0 || len(s.Chain) > pqcert.MaxChain {
		return settingsError("identity", "the chain must have 1 to %d certificates", pqcert.MaxChain)
	}
	if s.Key == nil || !s.Chain[0].PublicKey.Equal(s.Key.Public()) {
		return settingsError("identity", "the key is not that of the certificate of %s", s.Chain[0].Subject)
	}
	if len(s.Roots) == 0 {
		return settingsError("identity", "no authority is given to verify peers by")
	}
	if n := len(appendChain(nil, s.Chain)) + maxSignature; n > maxProof {
		return settingsError("identity", "the chain is too long for one message: %d bytes, at most %d", n, maxProof)
	}
	s.Chain, s.Roots = slices.Clone(s.Chain), slices.Clone(s.Roots)
	i.current.Store(&s)
	return nil
}

// Describe tells of our own certificate.
func (i *Identity) Describe() CertInfo {
	leaf := i.current.Load().Chain[0]
	return CertInfo{
		Source: "identity", Names: namesOf(leaf.Certificate), Issuer: leaf.Issuer.String(),
		Key: strings.ToUpper(leaf.PublicKey.Algorithm().String()), NotAfter: leaf.NotAfter,
	}
}

// role is a side of the connection. It is signed, so that a proof cannot be
// turned back on who made it.
type role byte

const (
	roleClient role = 1
	roleServer role = 2
)

func (r role) usage() x509.ExtKeyUsage {
	if r == roleClient {
		return x509.ExtKeyUsageClientAuth
	}
	return x509.ExtKeyUsageServerAuth
}

func (r role) other() role { return roleClient + roleServer - r }

// errPeerRefused is in the chain of an error when the peer did not take our proof.
var errPeerRefused = errors.New("the peer refused our identity")

// Accept is the server's part: it reads the client's proof, verifies it, and
// sends ours. It returns the client's verified name. rw is the connection, or with
// QUIC the first stream that the client opens; cs is its completed handshake. The
// time is the caller's to bound. Errors are *[RefusedError].
func (i *Identity) Accept(rw io.ReadWriter, cs *tls.ConnectionState) (peer string, err error) {
	bound, err := bindingOf(cs)
	if err != nil {
		return "", identityRefused(err, false)
	}
	if peer, err = i.readProof(rw, roleClient, bound, ""); err != nil {
		refused := identityRefused(err, false)
		_ = writeRefusal(rw, refused.Reason) // the peer may be gone
		return "", refused
	}
	if err = i.writeProof(rw, roleServer, bound); err != nil {
		return "", identityRefused(err, false)
	}
	return peer, nil
}

// Present is the client's part: it sends our proof, then verifies the server's,
// which must bear name, a DNS name or an IP address.
func (i *Identity) Present(ctx context.Context, rw io.ReadWriter, cs *tls.ConnectionState, name string) (peer string, err error) {
	stop := func() bool { return true }
	if d, ok := rw.(interface{ SetDeadline(time.Time) error }); ok {
		stop = context.AfterFunc(ctx, func() { _ = d.SetDeadline(time.Unix(1, 0)) })
	}
	peer, err = i.present(rw, cs, name)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return "", identityRefused(err, true)
	}
	return peer, nil
}

func (i *Identity) present(rw io.ReadWriter, cs *tls.ConnectionState, name string) (string, error) {
	bound, err := bindingOf(cs)
	if err != nil {
		return "", err
	}
	if err := i.writeProof(rw, roleClient, bound); err != nil {
		return "", err
	}
	return i.readProof(rw, roleServer, bound, name)
}

// bindingOf is the value that only the two ends of this very connection know
// (RFC 9266). A TLS 1.2 connection has one that an attacker can make equal on two
// connections, and is refused; so is a peer that agreed to no proof.
func bindingOf(cs *tls.ConnectionState) ([]byte, error) {
	if !strings.HasSuffix(cs.NegotiatedProtocol, identitySuffix) {
		return nil, &proofError{IdentityMissing, errString("the peer offered no protocol with " + identitySuffix)}
	}
	if cs.Version < tls.VersionTLS13 {
		return nil, &proofError{IdentityMissing, errString("identities need TLS 1.3")}
	}
	return cs.ExportKeyingMaterial(identityLabel, nil, exportedSize)
}

// signed is what a proof signs: label, role, the connection, and the chain that
// came with it, so that the same key's other certificates cannot be put in.
func signed(r role, bound, chain []byte) []byte {
	digest := sha256.Sum256(chain)
	m := make([]byte, 0, len(identityLabel)+2+len(bound)+len(digest))
	m = append(m, identityLabel...)
	m = append(m, 0, byte(r))
	m = append(m, bound...)
	return append(m, digest[:]...)
}

func (i *Identity) writeProof(w io.Writer, r role, bound []byte) error {
	s := i.current.Load()
	chain := appendChain(nil, s.Chain)
	signature, err := s.Key.Sign(rand.Reader, signed(r, bound, chain), crypto.Hash(0))
	if err != nil {
		return &proofError{NoCertificate, err}
	}
	return writeMessage(w, byte(r), chain, signature)
}

func (i *Identity) readProof(rd io.Reader, from role, bound []byte, name string) (string, error) {
	p, err := readProof(rd)
	if err != nil {
		return "", err
	}
	switch {
	case p.refusal != "":
		return "", &proofError{IdentityRejected, &refusedByPeer{p.refusal}}
	case p.role == from.other():
		return "", &proofError{IdentityRole, errString("the proof is one of our own side")}
	}
	expect := pqcert.Expect{Roots: i.current.Load().Roots, Time: i.now(), Name: name, Usage: from.usage()}
	if _, err := pqcert.Verify(p.chain, expect); err != nil {
		return "", &proofError{reasonOfChain(err), err}
	}
	leaf := p.chain[0]
	if !leaf.PublicKey.Verify(signed(from, bound, p.rawChain), p.signature, "") {
		return "", &proofError{IdentitySignature, errString("the proof is not for this connection: replayed, relayed or forged")}
	}
	peer := PeerName(leaf.Certificate)
	if peer == "" {
		return "", &proofError{IdentityUsage, errString("the certificate gives no name")}
	}
	return peer, nil
}
