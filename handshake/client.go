package handshake

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// ClientSettings are the TLS settings towards an upstream.
type ClientSettings struct {
	PQ         PQ
	Groups     []tls.CurveID // narrows the key exchange groups; empty means all that PQ allows
	MinVersion uint16        // tls.VersionTLS13 (zero means that) or tls.VersionTLS12
	NextProtos []string      // protocols offered by ALPN
	// Roots vouch for the upstream; nil means the system's.
	Roots *x509.CertPool
	// ServerName is the name to ask for and to verify; "" means the host of each endpoint.
	ServerName string
	// Certificate is our own, where the upstream wants one; its default is sent.
	Certificate Source
	// Insecure skips the verification of the upstream's certificate.
	Insecure bool
	// Sessions is how many sessions to remember for resumption, in all
	// endpoints; 0 means 256, negative none.
	Sessions int
	Time     func() time.Time // nil means time.Now
}

// defaultSessions is enough for every endpoint of a usual upstream: one
// session for each is kept.
const defaultSessions = 256

// Client is the TLS side of an upstream. It is safe for concurrent use.
type Client struct {
	rules   rules
	name    string
	base    *tls.Config
	cache   tls.ClientSessionCache // nil for none
	configs sync.Map               // endpoint → *tls.Config
}

// NewClient checks the settings. Errors are *[SettingsError].
func NewClient(s ClientSettings) (*Client, error) {
	r, err := resolve(s.PQ, s.Groups, s.MinVersion)
	if err != nil {
		return nil, err
	}
	c := &Client{rules: r, name: s.ServerName, base: &tls.Config{
		Time:               s.Time,
		RootCAs:            s.Roots,
		MinVersion:         r.min,
		NextProtos:         slices.Clone(s.NextProtos),
		CurvePreferences:   r.groups,
		InsecureSkipVerify: s.Insecure, // #nosec G402 -- asked for by name
	}}
	if src := s.Certificate; src != nil {
		c.base.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := src.Default(nil)
			if cert == nil && err == nil {
				cert = &tls.Certificate{}
			}
			return cert, err
		}
	}
	if s.Sessions >= 0 {
		if s.Sessions == 0 {
			s.Sessions = defaultSessions
		}
		c.cache = tls.NewLRUClientSessionCache(s.Sessions)
	}
	return c, nil
}

// PQ is the policy in force.
func (c *Client) PQ() PQ { return c.rules.pq }

// GroupsInForce are the names of the key exchange groups that are really offered.
func (c *Client) GroupsInForce() []string { return GroupNames(c.rules.groups) }

// Warnings are what an operator should be told at start about these settings.
func (c *Client) Warnings() []string { return slices.Clone(c.rules.warnings) }

// Config is the configuration for connections to an endpoint, "host:port". It
// is built once for each endpoint and must not be changed. Sessions are
// remembered for each endpoint apart: two that share a name need not share
// ticket keys.
func (c *Client) Config(endpoint string) *tls.Config {
	if cfg, ok := c.configs.Load(endpoint); ok {
		return cfg.(*tls.Config) //nolint:forcetypeassert // nothing else is stored
	}
	cfg := c.base.Clone()
	cfg.ServerName = c.name
	if cfg.ServerName == "" {
		cfg.ServerName = endpoint
		if host, _, err := net.SplitHostPort(endpoint); err == nil {
			cfg.ServerName = host
		}
	}
	if c.cache != nil {
		cfg.ClientSessionCache = endpointSessions{cache: c.cache, prefix: endpoint + " "}
	}
	kept, _ := c.configs.LoadOrStore(endpoint, cfg)
	return kept.(*tls.Config) //nolint:forcetypeassert // nothing else is stored
}

// Conn is shorthand for tls.Client with the configuration for the endpoint.
func (c *Client) Conn(raw net.Conn, endpoint string) *tls.Conn {
	return tls.Client(raw, c.Config(endpoint))
}

// Handshake runs the handshake of a connection made by [Client.Conn]. The
// error is a *[RefusedError]; the connection is then the caller's to close.
func (c *Client) Handshake(ctx context.Context, conn *tls.Conn) (Facts, error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		return Facts{}, c.Refuse(err)
	}
	cs := conn.ConnectionState()
	return FactsOf(&cs), nil
}

// Refuse explains a connection or handshake that failed with err. It serves
// for the first read as well: in TLS 1.3 a server refuses our certificate only
// after we think the handshake done.
func (c *Client) Refuse(err error) *RefusedError {
	var known *RefusedError
	if errors.As(err, &known) {
		return known
	}
	return &RefusedError{Reason: classify(err, true, "").sharpen(c.rules.pq), Upstream: true, PQ: c.rules.pq, Err: err}
}

// endpointSessions keeps the sessions of one endpoint apart from the others'
// in one LRU cache.
type endpointSessions struct {
	cache  tls.ClientSessionCache
	prefix string
}

func (e endpointSessions) Get(key string) (*tls.ClientSessionState, bool) {
	return e.cache.Get(e.prefix + key)
}

func (e endpointSessions) Put(key string, cs *tls.ClientSessionState) {
	e.cache.Put(e.prefix+key, cs)
}
