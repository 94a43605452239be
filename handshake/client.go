package handshake

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
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
	// Identity, where set, is proven to the server and asked of it; NextProtos
	// are then offered as [WithIdentity] has them.
	Identity *Identity
	Time     func() time.Time // nil means time.Now
}

// defaultSessions is enough for every endpoint of a usual upstream: one
// session for each is kept.
const defaultSessions = 256

// Client is the TLS side of an upstream. It is safe for concurrent use.
type Client struct {
	rules    rules
	identity *Identity
	name     string
	base     *tls.Config
	cache    tls.ClientSessionCache // nil for none
	configs  sync.Map               // endpoint → *tls.Config
}

// NewClient checks the settings. Errors are *[SettingsError].
func NewClient(s ClientSettings) (*Client, error) {
	r, err := resolve(s.PQ, s.Groups, s.MinVersion)
	if err != nil {
		return nil, err
	}
	if s.Identity != nil {
		if r.min < tls.VersionTLS13 {
			return nil, settingsError("min_version", "identity needs TLS 1.3")
		}
		s.NextProtos = WithIdentity(s.NextProtos)
	}
	c := &Client{rules: r, identity: s.Identity, name: s.ServerName, base: &tls.Config{
		Time:               s.Time,
		RootCAs:            s.Roots,
		MinVersion:         r.min,
		NextProtos:         slices.Clone(s.NextProtos),
		CurvePreferences:   r.groups,
		InsecureSkipVerify: s.Insecure, // #nosec G402 -- asked for by name
	}}
	c.base.VerifyConnection = c.rules.verify(true)
	if src := s.Certificate; src != nil {
		c.base.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := src.Default(nil)
			if cert == nil && err == nil {
				cert = &tls.Certificate{}
			}
			if err == nil {
				err = c.rules.ownCertificate(cert)
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
	cfg.ServerName = c.nameOf(endpoint)
	if c.cache != nil {
		cfg.ClientSessionCache = endpointSessions{cache: c.cache, prefix: endpoint + " "}
	}
	kept, _ := c.configs.LoadOrStore(endpoint, cfg)
	return kept.(*tls.Config) //nolint:forcetypeassert // nothing else is stored
}

// nameOf is the name that the server at the endpoint must bear.
func (c *Client) nameOf(endpoint string) string {
	if c.name != "" {
		return c.name
	}
	if host, _, err := net.SplitHostPort(endpoint); err == nil {
		return host
	}
	return endpoint
}

// Offer is [Client.Config] for an endpoint that is spoken to by other protocols
// than those of the settings; what says that identities are proven is added.
func (c *Client) Offer(endpoint string, protos ...string) *tls.Config {
	cfg := c.Config(endpoint).Clone()
	cfg.NextProtos = protos
	if c.identity != nil {
		cfg.NextProtos = WithIdentity(protos)
	}
	return cfg
}

// Conn is shorthand for tls.Client with the configuration for the endpoint.
func (c *Client) Conn(raw net.Conn, endpoint string) *tls.Conn {
	return tls.Client(raw, c.Config(endpoint))
}

// Handshake runs the handshake of a connection made by [Client.Conn] or with
// a configuration for the same endpoint, and the proof of identities where the settings
// have one. The error is a *[RefusedError]; the connection is then the caller's to close.
func (c *Client) Handshake(ctx context.Context, conn *tls.Conn, endpoint string) (Facts, error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		return Facts{}, c.Refuse(err)
	}
	cs := conn.ConnectionState()
	f := FactsOf(&cs)
	return f, c.Identify(ctx, conn, &cs, endpoint, &f)
}

// Identity is what is proven to servers and asked of them; nil for none.
func (c *Client) Identity() *Identity { return c.identity }

// Identify runs the proof of identities over a connection, or the first stream
// of one, whose handshake is complete, and notes the server's in f. It does nothing where
// none is asked for. The error is a *[RefusedError].
func (c *Client) Identify(ctx context.Context, rw io.ReadWriter, cs *tls.ConnectionState, endpoint string, f *Facts) error {
	if c.identity == nil {
		return nil
	}
	peer, err := c.identity.Present(ctx, rw, cs, c.nameOf(endpoint))
	if err != nil {
		var refused *RefusedError
		if errors.As(err, &refused) {
			refused.PQ = c.rules.pq
		}
		return err
	}
	f.PeerName, f.PQIdentity = peer, true
	return nil
}

// Refuse explains a connection or handshake that failed with err. It serves
// for the first read as well: in TLS 1.3 a server refuses our certificate only
// after we think the handshake done.
func (c *Client) Refuse(err error) *RefusedError {
	var known *RefusedError
	if errors.As(err, &known) {
		return known
	}
	reason := classify(err, true, "").sharpen(c.rules.pq)
	if c.identity != nil && reason == NoSharedALPN {
		reason = IdentityMissing
	}
	return &RefusedError{Reason: reason, Upstream: true, PQ: c.rules.pq, Err: err}
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
