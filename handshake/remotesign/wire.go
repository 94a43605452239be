// Package remotesign keeps private keys on another machine: a [Server] signs
// with those of a kms.Keys for peers that a list allows it to, a [Client] is a
// kms.Keys whose signers ask one of several servers, and a [Source] gives listeners
// certificates whose keys the gateway never holds.
//
// The two speak ZAP RPC over TLS with mutual certificates and post-quantum key
// exchange: a call each for a public key and for a signature, many at a time on one
// kept connection.
package remotesign

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/cryptobyte"

	"github.com/hanzoai/pqgw/kms/pqcert"
	"github.com/hanzoai/pqgw/zapcodec"
)

// ALPN is the protocol id of ZAP RPC on TLS.
const ALPN = "zap/1"

// Methods of a signing server.
const (
	methodPublic = 1 // a key's public half, in PKIX DER
	methodSign   = 2 // a signature
)

// Purposes that a peer may be allowed a key for. A request says which it has, and
// a signature of another shape than the purpose needs is refused.
const (
	PurposeServer = "tls-server" // to serve TLS
	PurposeClient = "tls-client" // to be a client of a server that asks for certificates
)

// Purposes lists them.
func Purposes() []string { return []string{PurposeServer, PurposeClient} }

// Limits of the wire. What TLS has signed is a digest, or with Ed25519 some 150 bytes.
const (
	maxFrame  = 16 << 10
	maxInput  = 1 << 10
	maxName   = 255
	saltEqual = rsa.PSSSaltLengthEqualsHash
)

// request is a call's payload; a call for a public key has the name alone.
type request struct {
	name        string
	purpose     string
	fingerprint [sha256.Size]byte // of the public key that the caller's certificate has
	hash        crypto.Hash       // 0 where input is a message, not a digest
	pss         bool
	input       []byte
}

func (r *request) append() ([]byte, error) {
	var b cryptobyte.Builder
	b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(r.name)) })
	b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(r.purpose)) })
	b.AddBytes(r.fingerprint[:])
	b.AddUint16(uint16(r.hash)) //nolint:gosec // hashes are few
	scheme := uint8(0)
	if r.pss {
		scheme = 1
	}
	b.AddUint8(scheme)
	b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(r.input) })
	return b.Bytes()
}

var errMalformed = errors.New("malformed request")

func parseRequest(payload []byte, r *request) error {
	in := cryptobyte.String(payload)
	var name, purpose, input cryptobyte.String
	var hash uint16
	var scheme uint8
	if !in.ReadUint8LengthPrefixed(&name) || !in.ReadUint8LengthPrefixed(&purpose) || !in.CopyBytes(r.fingerprint[:]) ||
		!in.ReadUint16(&hash) || !in.ReadUint8(&scheme) || !in.ReadUint16LengthPrefixed(&input) || !in.Empty() ||
		scheme > 1 || len(input) > maxInput {
		return errMalformed
	}
	r.name, r.purpose, r.hash, r.pss, r.input = string(name), string(purpose), crypto.Hash(hash), scheme == 1, input
	return nil
}

// options are those of crypto.Signer that the request stands for.
func (r *request) options() crypto.SignerOpts {
	if r.pss {
		return &rsa.PSSOptions{SaltLength: saltEqual, Hash: r.hash}
	}
	return r.hash
}

// setOptions takes those that crypto/tls gives.
func (r *request) setOptions(opts crypto.SignerOpts) error {
	if opts == nil {
		opts = crypto.Hash(0)
	}
	r.hash = opts.HashFunc()
	if pss, ok := opts.(*rsa.PSSOptions); ok {
		if r.pss = true; pss.SaltLength != saltEqual && pss.SaltLength != r.hash.Size() {
			return fmt.Errorf("a salt of length %d is not one of TLS", pss.SaltLength)
		}
	}
	return nil
}

// Fingerprint is the SHA-256 of a public key in PKIX DER. It tells whether both
// sides mean the same version of a key.
func Fingerprint(key crypto.PublicKey) ([sha256.Size]byte, error) {
	der, err := marshalPublic(key)
	return sha256.Sum256(der), err
}

func marshalPublic(key crypto.PublicKey) ([]byte, error) {
	if pq, ok := key.(*pqcert.PublicKey); ok {
		return pq.MarshalPKIX()
	}
	return x509.MarshalPKIXPublicKey(key)
}

func parsePublic(der []byte) (crypto.PublicKey, error) {
	if key, err := x509.ParsePKIXPublicKey(der); err == nil {
		return key, nil
	}
	return pqcert.ParsePKIX(der)
}

// appendCall appends a framed call.
func appendCall(dst []byte, method, promise uint32, payload []byte) ([]byte, error) {
	r := zapcodec.RPCRequest{Method: method, Promise: promise, Payload: payload}
	dst, err := zapcodec.FramingRPC.AppendPrefix(dst, zapcodec.DirectionRequest, r.Size())
	if err != nil {
		return nil, err
	}
	return zapcodec.AppendRPCRequest(dst, &r)
}

// writeAnswer sends a framed answer in one write.
func writeAnswer(w io.Writer, promise, status uint32, body []byte) error {
	r := zapcodec.RPCResponse{Status: status, Promise: promise, Body: body}
	b, err := zapcodec.FramingRPC.AppendPrefix(make([]byte, 0, 64+len(body)), zapcodec.DirectionResponse, r.Size())
	if err == nil {
		b, err = zapcodec.AppendRPCResponse(b, &r)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}
