// Package acme gets certificates from an issuer by itself (RFC 8555), through
// certmagic, and renews them. What it has lies in a storage that several
// gateways may share: one of them asks the issuer, all serve what it got.
//
// Handshakes never wait for the issuer: certificates are served from memory,
// the old one until there is a new one. Only a host that is served on demand
// is waited for, and only for as long as a client would wait.
package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	macme "github.com/mholt/acmez/v3/acme"
	"go.uber.org/zap"

	"github.com/hanzoai/pqgw/handshake"
)

// Settings of a Source.
type Settings struct {
	// Directory is the issuer's URL; Roots vouch for its TLS certificate, nil for the system's.
	Directory string
	Roots     *x509.CertPool
	// Email is where the issuer writes to; may be empty.
	Email string
	// EABKeyID and EABMACKey (base64url) bind the account to one that the
	// issuer knows; empty for none.
	EABKeyID, EABMACKey string
	// PreferredChain is the common name of an issuer in the chain to choose; may be empty.
	PreferredChain string
	// Hosts are DNS names to have a certificate for each, in normal form. Wildcards need DNS.
	Hosts []string
	// HTTP01 and TLSALPN01 allow these challenges; DNS allows dns-01 where not nil.
	HTTP01, TLSALPN01 bool
	DNS               *DNS
	// OnDemand gets certificates for other hosts when clients ask for them; nil does not.
	OnDemand *OnDemand
	// CheckEvery is how often certificates are looked at; 0 means 10 minutes.
	CheckEvery time.Duration
	// Storage holds accounts, keys and certificates. It stays the caller's. Required.
	Storage certmagic.Storage
	// Logger is told what happens; nil is silent.
	Logger *slog.Logger
}

// Source is a [handshake.Source] and [handshake.Challenger]. It is made by New,
// begins its work with Start, and is ended by Close.
type Source struct {
	handshake.Set
	set    Settings
	store  *gate // the storage until Close
	log    *slog.Logger
	cache  *certmagic.Cache
	exact  *certmagic.Config
	wild   *certmagic.Config // for wildcards
	answer *certmagic.Config // for challenges: silent, as anyone can ask
	issuer string            // key of the issuer in the storage
	taken  *takenPort

	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // all goroutines of ours
	once   sync.Once
	news   chan struct{} // a certificate was obtained

	refreshing sync.Mutex      // one at a time, so that the last to look has the last word
	before     func() []string // issuers of certificates that a refresh may fall back on

	mu     sync.Mutex // of what follows
	loaded map[string]*loaded
	busy   map[string]bool // names that a goroutine is getting

	demand demand
}

// defaultCheck is how often certificates are looked at by default; they are
// renewed weeks ahead.
const defaultCheck = 10 * time.Minute

// errClosed is why what runs at Close ends.
var errClosed = errors.New("the source of certificates was closed")

// New loads what the storage has for the hosts, so that it is served from the
// first handshake on; it asks nobody. Call Start once challenges can arrive.
func New(s Settings) (*Source, error) {
	if s.Storage == nil {
		return nil, errors.New("acme: a storage is needed")
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	if s.CheckEvery <= 0 {
		s.CheckEvery = defaultCheck
	}
	src := &Source{set: s, log: s.Logger, news: make(chan struct{}, 1), loaded: map[string]*loaded{}, busy: map[string]bool{}}
	src.store = newGate(s.Storage)
	src.Kind = "acme"
	src.demand.init(s.OnDemand)
	src.ctx, src.cancel = context.WithCancelCause(context.Background())
	var err error
	if src.taken, err = takePort(); err != nil {
		return nil, err
	}
	src.configure()
	src.refresh()
	return src, nil
}

// configure builds certmagic's side.
func (s *Source) configure() {
	log := newZap(s.log)
	s.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(c certmagic.Certificate) (*certmagic.Config, error) {
			if len(c.Names) == 0 {
				return s.exact, nil
			}
			return s.config(c.Names[0]), nil
		},
		RenewCheckInterval: s.set.CheckEvery,
		OCSPCheckInterval:  min(time.Hour, max(s.set.CheckEvery, time.Minute)),
		Logger:             log,
	})
	make1 := func(dns ...bool) *certmagic.Config {
		c := certmagic.New(s.cache, certmagic.Config{Storage: s.store, Logger: log, OnEvent: s.event, OCSP: certmagic.OCSPConfig{HTTPProxy: s.proxyOnce}})
		c.Issuers = nil
		for _, d := range dns {
			c.Issuers = append(c.Issuers, s.newIssuer(c, d))
		}
		return c
	}
	var ways []bool
	if s.set.HTTP01 || s.set.TLSALPN01 {
		ways = append(ways, false)
	}
	if s.set.DNS != nil {
		ways = append(ways, true)
	}
	s.exact = make1(ways...)
	s.wild = make1(s.set.DNS != nil)
	s.answer = certmagic.New(s.cache, certmagic.Config{Storage: s.store, Logger: zap.NewNop(), Issuers: s.exact.Issuers})
	s.issuer = s.exact.Issuers[0].IssuerKey()
}

// newIssuer is the issuer by dns-01, or by the other challenges.
func (s *Source) newIssuer(c *certmagic.Config, dns bool) *certmagic.ACMEIssuer {
	template := certmagic.ACMEIssuer{
		CA: s.set.Directory, Email: s.set.Email, Agreed: true, TrustedRoots: s.set.Roots,
		DisableHTTPChallenge: !s.set.HTTP01, DisableTLSALPNChallenge: !s.set.TLSALPN01,
		ListenHost: s.taken.host, AltHTTPPort: s.taken.port, AltTLSALPNPort: s.taken.port,
		HTTPProxy: s.proxy, Logger: newZap(s.log),
	}
	if s.set.PreferredChain != "" {
		template.PreferredChains.AnyCommonName = []string{s.set.PreferredChain}
	}
	if s.set.EABKeyID != "" {
		template.ExternalAccount = &macme.EAB{KeyID: s.set.EABKeyID, MACKey: s.set.EABMACKey}
	}
	if dns {
		template.DNS01Solver = s.set.DNS.solver(newZap(s.log))
	}
	return certmagic.NewACMEIssuer(c, template)
}

// config is the one by which a certificate for the name is got.
func (s *Source) config(name string) *certmagic.Config {
	if strings.HasPrefix(name, "*.") {
		return s.wild
	}
	return s.exact
}

// Start begins to get what is missing and to renew what is due, in goroutines
// that Close ends. Called again it does nothing.
func (s *Source) Start() {
	s.once.Do(func() {
		var have []string
		for _, h := range s.set.Hosts {
			if l := s.held(h); l != nil && l.issuer == s.issuer {
				have = append(have, h)
			} else {
				s.manage(h)
			}
		}
		s.wg.Go(func() { s.adopt(have) })
		s.wg.Go(s.watch)
	})
}

// adopt hands what the storage has to certmagic, which may ask OCSP responders,
// and renews what is due.
func (s *Source) adopt(names []string) {
	for _, name := range names {
		c, err := s.config(name).CacheManagedCertificate(s.ctx, name)
		switch l := s.held(name); {
		case s.ctx.Err() != nil:
			return
		case err != nil:
			s.log.Warn("a certificate is not looked after; another is got", "host", name, "error", err)
			s.manage(name)
		case l != nil:
			if k, late := l.cert.PrivateKey.(*lateKey); late {
				k.give(c.PrivateKey)
			}
		}
	}
	s.tell()
	if err := s.cache.RenewManagedCertificates(s.ctx); err != nil {
		s.log.Warn("certificates could not be looked at; it is tried again", "error", err, "pause", s.set.CheckEvery)
	}
}

// watch follows the storage until Close.
func (s *Source) watch() {
	tick := time.NewTicker(s.set.CheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.news:
		case <-tick.C:
		}
		for _, name := range s.refresh() {
			s.manage(name)
		}
	}
}

// manageAgain is the pause after which a host whose certificate could not be got
// at all is tried anew. Within it certmagic tries by a schedule of its own.
const manageAgain = 10 * time.Minute

// manage gets the certificate of a host unless the storage has it, and hands it
// to certmagic, which renews it.
func (s *Source) manage(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[name] {
		return
	}
	s.busy[name] = true
	s.wg.Go(func() {
		defer func() {
			s.mu.Lock()
			delete(s.busy, name)
			s.mu.Unlock()
		}()
		for s.ctx.Err() == nil {
			err := s.obtain(s.ctx, name)
			if err == nil || s.ctx.Err() != nil {
				return
			}
			s.log.Error("no certificate could be got; it is tried again", "host", name, "error", err, "pause", manageAgain)
			select {
			case <-s.ctx.Done():
			case <-time.After(manageAgain):
			}
		}
	})
}

// obtain makes certmagic have the certificate of name, from the storage or the
// issuer.
func (s *Source) obtain(ctx context.Context, name string) error {
	c := s.config(name)
	if err := s.mend(ctx, name); err != nil {
		return err
	}
	if err := c.ObtainCertAsync(ctx, name); err != nil {
		return err
	}
	if _, err := c.CacheManagedCertificate(ctx, name); err != nil {
		return err
	}
	s.tell()
	return nil
}

// tell makes watch look.
func (s *Source) tell() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// event is called by certmagic. An error of cert_obtaining ends the attempt.
func (s *Source) event(ctx context.Context, event string, data map[string]any) error {
	host, _ := data["identifier"].(string)
	switch event {
	case "cert_obtaining":
		return s.allowed(ctx, host)
	case "cert_obtained":
		s.log.Info("certificate obtained", "host", host, "renewal", data["renewal"], "issuer", data["issuer"])
		s.tell()
	case "cert_failed":
		s.log.Error("certificate not obtained", "host", host, "renewal", data["renewal"], "error", data["error"], "hint", s.hint(host))
	}
	return nil
}

func (s *Source) hint(host string) string {
	if l := s.held(host); l != nil {
		return fmt.Sprintf("the old one serves on until %s", l.cert.Leaf.NotAfter.Format(time.RFC3339))
	}
	return "does the name lead to this gateway, and can the issuer reach it?"
}

// proxy is that of the environment; since Close nothing new is asked of anyone.
func (s *Source) proxy(r *http.Request) (*url.URL, error) {
	if s.ctx.Err() != nil {
		return nil, errClosed
	}
	return http.ProxyFromEnvironment(r)
}

// proxyOnce is proxy for OCSP responders: certmagic makes a transport for each
// question and closes none. With a proxy to ask for it also sets a time limit.
func (s *Source) proxyOnce(r *http.Request) (*url.URL, error) {
	r.Close = true
	return s.proxy(r)
}

// closePatience is how long Close waits for questions that certmagic asks without a
// context: for renewal information, and of OCSP responders. They end by its own time
// limit of 30 s and find the storage closed.
const closePatience = 2 * time.Second

// Close ends what runs, orders under way among it. When it returns, nothing uses the
// storage any more. What was handed out stays usable.
func (s *Source) Close() error {
	s.cancel(errClosed)
	s.store.close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.wg.Wait()
		s.cache.Stop()
	}()
	select {
	case <-ended:
	case <-time.After(closePatience):
		s.log.Info("an answer of the issuer is not waited for any longer")
	}
	return s.taken.close()
}

// takenPort is a port that certmagic finds taken: it would otherwise listen for
// challenges itself, where ours come by the gateway's own listeners.
type takenPort struct {
	ln   net.Listener
	host string
	port int
	done sync.WaitGroup
}

func takePort() (*takenPort, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("acme: %w", err)
	}
	at, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return nil, errors.Join(fmt.Errorf("acme: %v is not a TCP address", ln.Addr()), ln.Close())
	}
	t := &takenPort{ln: ln, host: at.IP.String(), port: at.Port}
	t.done.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	})
	return t, nil
}

func (t *takenPort) close() error {
	err := t.ln.Close()
	t.done.Wait()
	return err
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// named reports whether a route's host is or covers the name.
func (s *Source) named(name string) bool {
	_, parent, _ := strings.Cut(name, ".")
	return slices.Contains(s.set.Hosts, name) || slices.Contains(s.set.Hosts, "*."+parent)
}

// manages reports whether a certificate for the name is ours to get.
func (s *Source) manages(name string) bool {
	return slices.Contains(s.set.Hosts, name) || s.set.OnDemand != nil
}

// Certificate is the certificate for the name in the hello. A host that is served
// on demand is waited for.
func (s *Source) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, err := s.Set.Certificate(hello)
	if cert != nil || err != nil || s.set.OnDemand == nil {
		return cert, err
	}
	return s.onDemand(hello)
}
