package remotesign

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hanzoai/pqgw/kms"
)

var _ kms.Keys = (*Client)(nil)

// Signer asks for the public key of name and gives a signer with it. Its Sign
// is bounded by the client's timeout.
func (c *Client) Signer(ctx context.Context, name, purpose string) (kms.Signer, error) {
	public, err := c.Public(ctx, name)
	if err != nil {
		return nil, err
	}
	return c.SignerOf(name, purpose, public)
}

// Public is the public half of a key.
func (c *Client) Public(ctx context.Context, name string) (crypto.PublicKey, error) {
	if len(name) > maxName {
		return nil, fmt.Errorf("key name of %d characters", len(name))
	}
	ctx, cancel := context.WithTimeout(ctx, c.s.Timeout)
	defer cancel()
	der, err := c.call(ctx, methodPublic, &request{name: name})
	if err != nil {
		return nil, fmt.Errorf("public key %s: %w", name, err)
	}
	return parsePublic(der)
}

// SignerOf is Signer for a public key that is known already, as it is from a
// certificate: it asks nobody before it signs.
func (c *Client) SignerOf(name, purpose string, public crypto.PublicKey) (kms.Signer, error) {
	if len(name) > maxName {
		return nil, fmt.Errorf("key name of %d characters", len(name))
	}
	s := &signer{c: c, public: public, request: request{name: name, purpose: purpose}}
	var err error
	s.request.fingerprint, err = Fingerprint(public)
	return s, err
}

type signer struct {
	c       *Client
	public  crypto.PublicKey
	request request
}

func (s *signer) Public() crypto.PublicKey { return s.public }

// Sign implements crypto.Signer; the random source is the server's own.
func (s *signer) Sign(_ io.Reader, input []byte, opts crypto.SignerOpts) ([]byte, error) {
	begun := time.Now()
	signature, err := s.sign(input, opts)
	if s.c.s.Observe != nil {
		s.c.s.Observe(time.Since(begun), err)
	}
	if err != nil {
		return nil, fmt.Errorf("remote key %s: %w", s.request.name, err)
	}
	return signature, nil
}

func (s *signer) sign(input []byte, opts crypto.SignerOpts) ([]byte, error) {
	r := s.request
	if err := r.setOptions(opts); err != nil {
		return nil, err
	}
	if r.input = input; len(input) > maxInput {
		return nil, errors.New("a message too long to be one of TLS")
	}
	ctx, cancel := context.WithTimeout(s.c.ctx, s.c.s.Timeout)
	defer cancel()
	return s.c.call(ctx, methodSign, &r)
}

// Close does nothing: the connections are the client's.
func (s *signer) Close() error { return nil }
