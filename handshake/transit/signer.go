package transit

import (
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// signer signs with one version of a key.
type signer struct {
	c       *Client
	name    string
	public  crypto.PublicKey
	version atomic.Int64 // 0 until it is known
}

func (s *signer) Public() crypto.PublicKey { return s.public }

// Close does nothing: the connections are the client's.
func (s *signer) Close() error { return nil }

// Sign implements crypto.Signer; the random source is the engine's own.
func (s *signer) Sign(_ io.Reader, input []byte, opts crypto.SignerOpts) ([]byte, error) {
	begun := time.Now()
	signature, err := s.sign(input, opts)
	if s.c.s.Observe != nil {
		s.c.s.Observe(time.Since(begun), err)
	}
	if err != nil {
		return nil, fmt.Errorf("transit key %s: %w", s.name, err)
	}
	return signature, nil
}

func (s *signer) sign(input []byte, opts crypto.SignerOpts) ([]byte, error) {
	ctx, cancel := context.WithTimeout(s.c.ctx, s.c.s.Timeout)
	defer cancel()
	version, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	r, err := newSignRequest(input, opts, version)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var a struct {
		Data struct {
			Signature string `json:"signature"`
		} `json:"data"`
	}
	if err := s.c.call(ctx, http.MethodPost, "/sign/"+url.PathEscape(s.name), body, &a); err != nil {
		return nil, err
	}
	// "vault:v1:BASE64"
	parts := strings.Split(a.Data.Signature, ":")
	return base64.StdEncoding.DecodeString(parts[len(parts)-1])
}

// find is the version whose public key the certificate has: keys are rotated in the
// engine before their certificates are.
func (s *signer) find(ctx context.Context) (int, error) {
	if v := s.version.Load(); v != 0 {
		return int(v), nil
	}
	versions, _, err := s.c.versions(ctx, s.name)
	if err != nil {
		return 0, err
	}
	for v, key := range versions {
		if k, ok := key.(interface{ Equal(x crypto.PublicKey) bool }); ok && k.Equal(s.public) {
			s.version.Store(int64(v))
			return v, nil
		}
	}
	return 0, errors.New("the certificate is for another key than the engine has")
}
