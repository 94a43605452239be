// Package transit signs with keys of HashiCorp Vault's Transit engine, or of what
// speaks its API (OpenBao): the keys never leave it.
//
// It follows the API as documented under "Transit secrets engine (API)": GET
// /v1/MOUNT/keys/NAME for the public key, POST /v1/MOUNT/sign/NAME for a signature.
package transit

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hanzoai/pqgw/kms"
)

// Limits and defaults.
const (
	maxAnswer      = 1 << 20
	defaultTimeout = 5 * time.Second
	defaultMount   = "transit"
	firstPause     = 20 * time.Millisecond
	longestPause   = 250 * time.Millisecond
)

// Settings say where the engine is, and who we are.
type Settings struct {
	// Address is its URL, "https://vault:8200".
	Address string
	// Mount is the path of the engine; "" stands for "transit".
	Mount string
	// TokenFile holds the token; it is read for each call, for an agent may renew it.
	TokenFile string
	// TLS is the configuration to ask by; nil stands for Go's defaults.
	TLS *tls.Config
	// Timeout bounds a signature, all tries in; 0 stands for 5 s.
	Timeout time.Duration
	// Observe, which may be nil, is told of each signature.
	Observe func(d time.Duration, err error)
}

// Client is a kms.Keys of the engine. It is safe for concurrent use.
type Client struct {
	s      Settings
	base   string
	http   *http.Client
	ctx    context.Context //nolint:containedctx // ends the calls at Close
	cancel context.CancelFunc
}

var _ kms.Keys = (*Client)(nil)

// New makes one; nobody is asked before a key is needed.
func New(s Settings) (*Client, error) {
	u, err := url.Parse(s.Address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("%q is not the URL of a Transit engine, as https://vault:8200 is", s.Address)
	}
	if s.Mount == "" {
		s.Mount = defaultMount
	}
	if s.Timeout <= 0 {
		s.Timeout = defaultTimeout
	}
	c := &Client{s: s, base: strings.TrimSuffix(s.Address, "/") + "/v1/" + strings.Trim(s.Mount, "/")}
	c.http = &http.Client{
		Transport: &http.Transport{TLSClientConfig: s.TLS, MaxIdleConnsPerHost: 64, IdleConnTimeout: 5 * time.Minute},
		// A redirect would carry the token to another place.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Close ends calls under way and the connections.
func (c *Client) Close() error {
	c.cancel()
	c.http.CloseIdleConnections()
	return nil
}

// Error is an answer of the engine that is no signature.
type Error struct {
	Status int
	Errors []string // as the engine words them
}

// Error says what the engine said.
func (e *Error) Error() string {
	return fmt.Sprintf("transit engine answers %d: %.300q", e.Status, strings.Join(e.Errors, "; "))
}

// passing tells whether another try may go better: sealed, standby, or rate limited.
func (e *Error) passing() bool {
	return e.Status >= 500 || e.Status == http.StatusTooManyRequests || e.Status == http.StatusPreconditionFailed
}

// Signer asks for the newest public key of name and gives a signer with that
// version. The purpose is not the engine's to know.
func (c *Client) Signer(ctx context.Context, name, purpose string) (kms.Signer, error) {
	public, err := c.Public(ctx, name)
	if err != nil {
		return nil, err
	}
	return c.SignerOf(name, purpose, public)
}

type keyAnswer struct {
	Data struct {
		Latest int `json:"latest_version"`
		Keys   map[string]struct {
			PublicKey string `json:"public_key"`
		} `json:"keys"`
	} `json:"data"`
}

// Public is the newest public key of name.
func (c *Client) Public(ctx context.Context, name string) (crypto.PublicKey, error) {
	versions, latest, err := c.versions(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("public key %s: %w", name, err)
	}
	if versions[latest] == nil {
		return nil, fmt.Errorf("public key %s: the engine shows none of version %d; is it a signing key?", name, latest)
	}
	return versions[latest], nil
}

func (c *Client) versions(ctx context.Context, name string) (map[int]crypto.PublicKey, int, error) {
	ctx, cancel := context.WithTimeout(ctx, c.s.Timeout)
	defer cancel()
	var a keyAnswer
	if err := c.call(ctx, http.MethodGet, "/keys/"+url.PathEscape(name), nil, &a); err != nil {
		return nil, 0, err
	}
	versions := map[int]crypto.PublicKey{}
	for v, k := range a.Data.Keys {
		n, err := strconv.Atoi(v)
		if err != nil {
			continue
		}
		if key, err := parsePublic(k.PublicKey); err == nil {
			versions[n] = key
		}
	}
	return versions, a.Data.Latest, nil
}

// parsePublic reads PEM, or the bare base64 that the engine shows Ed25519 keys in.
func parsePublic(text string) (crypto.PublicKey, error) {
	if block, _ := pem.Decode([]byte(text)); block != nil {
		return x509.ParsePKIXPublicKey(block.Bytes)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, errors.New("no public key")
	}
	return ed25519.PublicKey(raw), nil
}

// SignerOf is Signer for a public key that is known already. Which version of
// the key that is, is asked with the first signature.
func (c *Client) SignerOf(name, _ string, public crypto.PublicKey) (kms.Signer, error) {
	if name == "" {
		return nil, errors.New("a key needs a name")
	}
	return &signer{c: c, name: name, public: public}, nil
}

// call asks until an answer comes that is not passing, or ctx ends.
func (c *Client) call(ctx context.Context, method, path string, body []byte, into any) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := c.once(ctx, method, path, body, into)
		var answer *Error
		if err == nil || errors.As(err, &answer) && !answer.passing() {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-c.ctx.Done():
			timer.Stop()
			return err
		}
	}
}

func (c *Client) once(ctx context.Context, method, path string, body []byte, into any) error {
	token, err := os.ReadFile(c.s.TokenFile)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("X-Vault-Token", strings.TrimSpace(string(token)))
	r.Header.Set("X-Vault-Request", "true")
	resp, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		e := &Error{Status: resp.StatusCode}
		_ = json.Unmarshal(text, &struct { // what is no JSON has no reason for us
			Errors *[]string `json:"errors"`
		}{&e.Errors})
		return e
	}
	return json.Unmarshal(text, into)
}

var hashNames = map[crypto.Hash]string{crypto.SHA256: "sha2-256", crypto.SHA384: "sha2-384", crypto.SHA512: "sha2-512"}

// signRequest is what POST sign takes.
type signRequest struct {
	Input     string `json:"input"`
	Version   int    `json:"key_version,omitempty"`
	Prehashed bool   `json:"prehashed,omitempty"`
	Hash      string `json:"hash_algorithm,omitempty"`
	Scheme    string `json:"signature_algorithm,omitempty"`
	Salt      string `json:"salt_length,omitempty"`
	Marshal   string `json:"marshaling_algorithm,omitempty"`
}

func newSignRequest(input []byte, opts crypto.SignerOpts, version int) (*signRequest, error) {
	r := &signRequest{Input: base64.StdEncoding.EncodeToString(input), Version: version, Marshal: "asn1"}
	hash := crypto.Hash(0)
	if opts != nil {
		hash = opts.HashFunc()
	}
	if hash == 0 {
		return r, nil // Ed25519 signs the message itself
	}
	if r.Hash = hashNames[hash]; r.Hash == "" {
		return nil, fmt.Errorf("the hash %v is not one of TLS", hash)
	}
	r.Prehashed = true
	if pss, ok := opts.(*rsa.PSSOptions); ok {
		if pss.SaltLength != rsa.PSSSaltLengthEqualsHash && pss.SaltLength != hash.Size() {
			return nil, fmt.Errorf("a salt of length %d is not one of TLS", pss.SaltLength)
		}
		r.Scheme, r.Salt = "pss", "hash"
	} else {
		r.Scheme = "pkcs1v15" // heeded for RSA keys alone
	}
	return r, nil
}
