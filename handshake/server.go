package handshake

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// Settings are the TLS settings of a listener.
type Settings struct {
	// Sources have the certificates; at least one. They are asked in order.
	Sources []Source
	// PQ is the policy; Off is for upstreams and refused here.
	PQ PQ
	// Groups narrows the key exchange groups; empty means all that PQ allows.
	// Its order does not matter.
	Groups []tls.CurveID
	// MinVersion is tls.VersionTLS13 (zero means that) or tls.VersionTLS12.
	MinVersion uint16
	// NextProtos are the protocols of the listener by ALPN, ours first choice
	// first. A client without ALPN is let in.
	NextProtos []string
	// StrictSNI refuses clients that name no host or one that no source
	// knows. Otherwise they get the default certificate.
	StrictSNI bool
	// ClientAuth says whether clients need certificates; ClientCAs vouch for them.
	ClientAuth tls.ClientAuthType
	ClientCAs  []*x509.Certificate
	// Identity, where set, is proven to each client and asked of it, before
	// anything else is said; NextProtos are then offered as [WithIdentity] has them.
	Identity *Identity
	// Tickets are the session ticket keys; the zero value means keys of this
	// process alone, which survive a reload of the configuration.
	Tickets Tickets
	// Time is the clock; nil means time.Now.
	Time func() time.Time
}

// Server is the TLS side of a listener: one immutable configuration for all
// its connections. It is safe for concurrent use.
type Server struct {
	rules    rules
	sources  []Source
	strict   bool
	protos   []string
	config   *tls.Config
	identity *Identity   // nil where none is asked for
	refusing *tls.Config // has no certificate: answers unrecognized_name
	tickets  *rotation   // nil when tickets are off
	ech      atomic.Pointer[[]tls.EncryptedClientHelloKey]
}

// NewServer checks the settings and builds the configuration from them. Errors
// are *[SettingsError].
func NewServer(s Settings) (*Server, error) {
	if s.PQ == Off {
		return nil, settingsError("pq", "off is for upstreams; a listener that must not be post-quantum lists classical groups")
	}
	if len(s.Sources) == 0 {
		return nil, settingsError("certificates", "there are none")
	}
	if s.ClientAuth >= tls.VerifyClientCertIfGiven && len(s.ClientCAs) == 0 {
		return nil, settingsError("client_ca", "client certificates are verified, but no CA is given to verify them by")
	}
	r, err := resolve(s.PQ, s.Groups, s.MinVersion)
	if err != nil {
		return nil, err
	}
	srv := &Server{rules: r, sources: slices.Clone(s.Sources), strict: s.StrictSNI, protos: slices.Clone(s.NextProtos), identity: s.Identity}
	if s.Identity != nil {
		if r.min < tls.VersionTLS13 {
			return nil, settingsError("min_version", "identity needs TLS 1.3")
		}
		srv.protos = WithIdentity(s.NextProtos)
	}
	srv.config = srv.newConfig(s)
	if !s.Tickets.Off {
		// Said in so many words, so that clones of the configuration (QUIC
		// makes some) use the keys of this one, which are kept fresh.
		srv.config.WrapSession, srv.config.UnwrapSession = srv.config.EncryptTicket, srv.config.DecryptTicket
	}
	srv.refusing = srv.config.Clone()
	srv.refusing.GetCertificate, srv.refusing.SessionTicketsDisabled = nil, true
	if !s.Tickets.Off {
		if srv.tickets, err = newRotation(s.Tickets, binding(r, s), srv.config, s.Time); err != nil {
			return nil, err
		}
	}
	return srv, nil
}

func (s *Server) newConfig(set Settings) *tls.Config {
	c := &tls.Config{
		Time:               set.Time,
		NextProtos:         s.protos,
		MinVersion:         s.rules.min,
		CurvePreferences:   s.rules.groups,
		ClientAuth:         set.ClientAuth,
		GetCertificate:     s.certificate,
		GetConfigForClient: s.sawHello,
		VerifyConnection:   s.rules.verify(false),

		GetEncryptedClientHelloKeys: s.echKeys,
		SessionTicketsDisabled:      set.Tickets.Off,
	}
	if len(set.ClientCAs) > 0 {
		c.ClientCAs = Pool(set.ClientCAs)
	}
	return c
}

// Config is the configuration for every connection. It must not be changed;
// who needs another (QUIC) clones it once per listener, and its ticket keys
// are kept fresh all the same.
func (s *Server) Config() *tls.Config { return s.config }

// SetTicketRoots puts other roots in force, as [Tickets] has them, without a
// new configuration: a fleet's roots change under a running listener. It does
// nothing where tickets are off.
func (s *Server) SetTicketRoots(roots [][]byte) error {
	if s.tickets == nil {
		return nil
	}
	return s.tickets.use(slices.Clone(roots))
}

// SetECHKeys puts other Encrypted Client Hello keys in force; none turns it
// off. Several overlap: clients use an old configuration until their copy of
// the DNS record expires.
func (s *Server) SetECHKeys(keys []tls.EncryptedClientHelloKey) {
	keys = slices.Clone(keys)
	s.ech.Store(&keys)
}

func (s *Server) echKeys(*tls.ClientHelloInfo) ([]tls.EncryptedClientHelloKey, error) {
	if keys := s.ech.Load(); keys != nil {
		return *keys, nil
	}
	return nil, nil
}

// PQ is the policy in force.
func (s *Server) PQ() PQ { return s.rules.pq }

// GroupsInForce are the names of the key exchange groups as crypto/tls will
// really use them, for the log at start and for status.
func (s *Server) GroupsInForce() []string { return GroupNames(s.rules.groups) }

// MinVersion is the lowest TLS version taken.
func (s *Server) MinVersion() uint16 { return s.rules.min }

// Warnings are what an operator should be told at start about these settings.
func (s *Server) Warnings() []string { return slices.Clone(s.rules.warnings) }

// Certificates describes the certificates of all sources.
func (s *Server) Certificates() []CertInfo {
	var all []CertInfo
	for _, src := range s.sources {
		all = append(all, src.Describe()...)
	}
	return all
}

// attempt is the context of one handshake: where the hello leaves what a
// refusal will want to know.
type attempt struct {
	context.Context
	stream   bool // TLS over a byte stream, not QUIC
	sni, ja4 string
	foreseen Reason
	alpn     []string // offered, where a refusal is foreseen
	groups   []tls.CurveID
}

type attemptKey struct{}

// Value answers for the attempt itself.
func (a *attempt) Value(key any) any {
	if _, ok := key.(attemptKey); ok {
		return a
	}
	return a.Context.Value(key)
}

// Watch is a context for handshakes that other code runs: given to crypto/tls
// it lets [Server.Refuse] say more about a failure. With quic-go it is made in
// Transport.ConnContext from the context that comes in, whose cause is the
// failure once it is done.
func Watch(ctx context.Context) context.Context { return &attempt{Context: ctx} }

// Handshake runs the handshake of a connection made by
// tls.Server(raw, s.Config()). Its time is bounded by the deadline that the
// caller has set on raw and by ctx; a ctx that cannot be cancelled is cheaper.
// The error is a *[RefusedError]; the alert has then been sent, the connection
// is the caller's to close.
func (s *Server) Handshake(ctx context.Context, conn *tls.Conn) (Facts, error) {
	a := &attempt{Context: ctx, stream: true}
	if err := conn.HandshakeContext(a); err != nil {
		return Facts{}, s.Refuse(a, err)
	}
	cs := conn.ConnectionState()
	f := a.facts(&cs)
	if s.identity == nil {
		return f, nil
	}
	return f, s.Identify(conn, &cs, &f)
}

// Identity is what is proven to clients and asked of them; nil for none.
func (s *Server) Identity() *Identity { return s.identity }

// Identify runs the proof of identities over a connection, or the first stream
// of one, whose handshake other code has run, and notes the client's in f. It does
// nothing where none is asked for. The error is a *[RefusedError].
func (s *Server) Identify(rw io.ReadWriter, cs *tls.ConnectionState, f *Facts) error {
	if s.identity == nil {
		return nil
	}
	peer, err := s.identity.Accept(rw, cs)
	if err != nil {
		var refused *RefusedError
		if errors.As(err, &refused) {
			refused.SNI, refused.PQ = f.SNI, s.rules.pq
		}
		return err
	}
	f.PeerName, f.PQIdentity = peer, true
	return nil
}

// Facts are [FactsOf] and what the hello told besides, for a handshake that
// other code ran with a context made by [Watch].
func (s *Server) Facts(ctx context.Context, cs *tls.ConnectionState) Facts {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return a.facts(cs)
	}
	return FactsOf(cs)
}

func (a *attempt) facts(cs *tls.ConnectionState) Facts {
	f := FactsOf(cs)
	f.JA4 = a.ja4
	return f
}

// Refuse explains a handshake that failed with err. ctx is what [Watch] made
// for it, or any context, and then the explanation knows less.
func (s *Server) Refuse(ctx context.Context, err error) *RefusedError {
	var known *RefusedError
	if errors.As(err, &known) {
		return known
	}
	e := &RefusedError{PQ: s.rules.pq, Err: err}
	var foreseen Reason
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		e.SNI, e.JA4, foreseen = a.sni, a.ja4, a.foreseen
		e.ALPN, e.Groups = a.alpn, a.groups
	}
	e.Reason = classify(err, false, foreseen).sharpen(s.rules.pq)
	return e
}

// sawHello is called by crypto/tls for every ClientHello, before anything is
// decided. It keeps the ticket keys fresh and notes what a refusal would want
// to know; crypto/tls itself does the refusing, with the right alert.
func (s *Server) sawHello(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if s.tickets != nil {
		s.tickets.freshen()
	}
	reason := s.foresee(hello)
	if ctx := hello.Context(); ctx != nil {
		if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
			if c := s.challengeConfig(hello, a); c != nil {
				return c, nil
			}
			a.sni, a.foreseen = hello.ServerName, reason
			if reason != "" {
				a.alpn, a.groups = hello.SupportedProtos, hello.SupportedCurves
			}
			if reason != "" || !s.canBePQ(hello) {
				a.ja4 = JA4(hello)
			}
		}
	}
	if reason == NoSNIMatch {
		return s.refusing, nil
	}
	return nil, nil
}

// foresee is the reason for which crypto/tls will refuse the hello, "" if none is seen.
func (s *Server) foresee(hello *tls.ClientHelloInfo) Reason {
	modern := slices.Contains(hello.SupportedVersions, tls.VersionTLS13)
	switch {
	case !modern && (s.rules.min == tls.VersionTLS13 || !slices.Contains(hello.SupportedVersions, tls.VersionTLS12)):
		return NoSharedVersion
	case modern && !overlap(s.rules.groups, hello.SupportedCurves):
		return NoSharedGroup
	case len(s.protos) > 0 && len(hello.SupportedProtos) > 0 && !overlap(s.protos, hello.SupportedProtos):
		if s.identity != nil && overlap(s.protos, WithIdentity(hello.SupportedProtos)) {
			return IdentityMissing
		}
		return NoSharedALPN
	case s.strict && !s.knows(hello):
		return NoSNIMatch
	}
	return ""
}

// canBePQ reports whether the connection will be post-quantum: crypto/tls
// takes any hybrid group that both sides have.
func (s *Server) canBePQ(hello *tls.ClientHelloInfo) bool {
	for _, g := range s.rules.groups {
		if PQGroup(g) && slices.Contains(hello.SupportedCurves, g) {
			return slices.Contains(hello.SupportedVersions, tls.VersionTLS13)
		}
	}
	return false
}

func overlap[T comparable](a, b []T) bool {
	for _, x := range a {
		if slices.Contains(b, x) {
			return true
		}
	}
	return false
}

// knows reports whether a source has a certificate for the name in the hello.
// It is asked here as well because a resumed session never asks for one.
func (s *Server) knows(hello *tls.ClientHelloInfo) bool {
	cert, err := s.match(hello)
	return cert != nil || err != nil // an error will be met again, and told as what it is
}

// match is the certificate that the first source has for the name in the hello.
func (s *Server) match(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello.ServerName == "" {
		return nil, nil
	}
	for _, src := range s.sources {
		if cert, err := src.Certificate(hello); cert != nil || err != nil {
			return cert, err
		}
	}
	return nil, nil
}

// certificate is the one for the hello, or the default one.
func (s *Server) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, err := s.match(hello)
	if err == nil && cert == nil && !s.strict {
		for _, src := range s.sources {
			if cert, err = src.Default(hello); cert != nil || err != nil {
				break
			}
		}
	}
	if err == nil {
		err = s.rules.ownCertificate(cert)
	}
	if err != nil {
		return nil, &RefusedError{Reason: NoCertificate, SNI: hello.ServerName, PQ: s.rules.pq, Err: err}
	}
	return cert, nil // nil: crypto/tls answers unrecognized_name
}

// Conn is shorthand for tls.Server with the server's configuration.
func (s *Server) Conn(raw net.Conn) *tls.Conn { return tls.Server(raw, s.config) }
