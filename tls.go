package pqgw

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/handshake/stored"
	"github.com/hanzoai/pqgw/transports"
	"github.com/hanzoai/pqgw/transports/zaprpc"
)

// sources are the certificates of a configuration: of each TLS settings the
// sources that have them. Those that a reload leaves alone go on.
type sources struct {
	of map[*config.TLS][]handshake.Source
	by map[handshake.Source]any // what a source was made of

	identities identities
	identityOf map[*config.TLS]*handshake.Identity // what the settings prove and demand
}

// close ends all sources.
func (s *sources) close() { s.closeBut(nil) }

// closeBut ends those that the other configuration does not use.
func (s *sources) closeBut(other *sources) {
	for src := range s.by {
		if other == nil || other.by[src] == nil {
			_ = src.Close()
		}
	}
	var theirs identities
	if other != nil {
		theirs = other.identities
	}
	s.identities.closeBut(theirs)
}

func (s *Server) loadSources(t *config.Tree, old *sources) (*sources, error) {
	all := &sources{of: map[*config.TLS][]handshake.Source{}, by: map[handshake.Source]any{}, identities: identities{}, identityOf: map[*config.TLS]*handshake.Identity{}}
	var problems []error
	for name, cfg := range t.TLS {
		if err := s.loadSource(t, name, cfg, all, old); err != nil {
			problems = append(problems, fmt.Errorf("tls %s: %w", name, err))
		}
	}
	for name, u := range t.Upstreams {
		if u.TLS.Settings == nil {
			continue
		}
		if err := s.loadSource(t, "", u.TLS.Settings, all, old); err != nil {
			problems = append(problems, fmt.Errorf("upstream %s: %w", name, err))
		}
	}
	if len(problems) == 0 { // remote keys are asked for by what is loaded now
		for name, cfg := range t.TLS {
			if err := s.loadRemote(t, cfg, all, old); err != nil {
				problems = append(problems, fmt.Errorf("tls %s: %w", name, err))
			}
		}
		for name, u := range t.Upstreams {
			if u.TLS.Settings == nil {
				continue
			}
			if err := s.loadRemote(t, u.TLS.Settings, all, old); err != nil {
				problems = append(problems, fmt.Errorf("upstream %s: %w", name, err))
			}
		}
	}
	if len(problems) > 0 {
		all.closeBut(old)
		return nil, errors.Join(problems...)
	}
	return all, nil
}

// loadSource makes the sources of settings, or takes over those that the old
// configuration has. Their order is that in which they are asked.
func (s *Server) loadSource(t *config.Tree, name string, cfg *config.TLS, all, old *sources) error {
	if err := s.loadIdentity(t, cfg, all, old.known()); err != nil {
		return err
	}
	if len(cfg.Certificates.Files) > 0 {
		src := old.like(cfg.Certificates.Files)
		if src == nil {
			var err error
			if src, err = s.filesSource(cfg.Certificates.Files); err != nil {
				return err
			}
		}
		all.add(cfg, src, cfg.Certificates.Files)
	}
	if dev := cfg.Certificates.Dev; dev != nil {
		made := devKey{DataDir(t), dev.Hosts}
		src := old.like(made)
		if src == nil {
			d, created, err := handshake.NewDev(filepath.Join(made.Dir, "ca"), dev.Hosts...)
			if err != nil {
				return err
			}
			if created {
				s.logger.Info("made a local certificate authority", "file", d.Authority().CertFile())
			}
			src = d
		}
		all.add(cfg, src, made)
	}
	if k := cfg.Certificates.KMS; k != nil && len(k.Store) > 0 {
		made := storedKey{*t.KMS, k.Store}
		src := old.like(made)
		if src == nil {
			var err error
			if src, err = s.storedSource(t, k.Store); err != nil {
				return err
			}
		}
		all.add(cfg, src, made)
	}
	// The last to be asked: on demand it would get what another source has.
	if a := cfg.Certificates.ACME; a != nil {
		made := newACMEKey(t, name, a)
		src := old.like(made)
		if src == nil {
			made, err := made.source(s.stores, s.logger)
			if err != nil {
				return err
			}
			src = made
		}
		all.add(cfg, src, made)
	}
	return nil
}

type storedKey struct {
	Store   config.KMS
	Entries []string
}

func (s *Server) storedSource(t *config.Tree, entries []string) (handshake.Source, error) {
	store, err := s.stores.store(t.KMS, false)
	if err != nil {
		return nil, err
	}
	return stored.New(store, entries, stored.Options{OnReload: func(r stored.Reload) {
		if r.Err != nil {
			s.logger.Error("the new certificate was not taken; the old one serves on", "error", r.Err)
			return
		}
		s.logger.Info("certificate replaced", "entry", r.Entry, "names", r.Info.Names, "not_after", r.Info.NotAfter)
	}})
}

// known are the identities of a configuration before, if there was one.
func (s *sources) known() identities {
	if s == nil {
		return nil
	}
	return s.identities
}

type devKey struct {
	Dir   string
	Hosts []string
}

func (s *sources) add(cfg *config.TLS, src handshake.Source, made any) {
	s.of[cfg] = append(s.of[cfg], src)
	s.by[src] = made
}

// like is the source that was made of the same settings, nil when there is none.
func (s *sources) like(made any) handshake.Source {
	if s == nil {
		return nil
	}
	for src, m := range s.by {
		if reflect.DeepEqual(m, made) {
			return src
		}
	}
	return nil
}

func (s *Server) filesSource(files []config.CertFiles) (handshake.Source, error) {
	pairs := make([]handshake.Pair, len(files))
	for i, f := range files {
		pairs[i] = handshake.Pair{Cert: string(f.Cert), Key: string(f.Key)}
	}
	return handshake.NewFiles(pairs, handshake.FilesOptions{OnReload: func(r handshake.Reload) {
		if r.Err != nil {
			s.logger.Error("the new certificate was not taken; the old one serves on", "error", r.Err)
			return
		}
		s.logger.Info("certificate replaced", "file", r.Pair.Cert, "names", r.Info.Names, "not_after", r.Info.NotAfter)
	}})
}

// DataDir is the folder that holds what the gateway keeps between runs.
func DataDir(t *config.Tree) string {
	if t.DataDir != "" {
		return string(t.DataDir)
	}
	return DefaultDataDir()
}

// DefaultDataDir is the user's data folder (XDG base directories), or
// /var/lib/pqgw where there is no home.
func DefaultDataDir() string {
	if d := os.Getenv("XDG_DATA_HOME"); d != "" {
		return filepath.Join(d, "pqgw")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "pqgw")
	}
	return "/var/lib/pqgw"
}

// serverTLS makes the TLS side of a listener.
func serverTLS(cfg *config.TLS, all *sources, roots [][]byte, protos []string) (*handshake.Server, error) {
	pq, groups, version, err := policy(cfg)
	if err != nil {
		return nil, err
	}
	set := handshake.Settings{
		Sources: all.of[cfg], Identity: all.identityOf[cfg], PQ: pq, Groups: groups, MinVersion: version, NextProtos: protos,
		Tickets: handshake.Tickets{Off: !cfg.SessionTickets, Roots: roots},
	}
	if cfg.ClientCA != "" {
		if set.ClientCAs, err = handshake.ReadCertificates(string(cfg.ClientCA)); err != nil {
			return nil, fmt.Errorf("client_ca: %w", err)
		}
		set.ClientAuth = tls.RequireAndVerifyClientCert
		if cfg.ClientAuth == config.ClientAuthOptional {
			set.ClientAuth = tls.VerifyClientCertIfGiven
		}
	}
	return handshake.NewServer(set)
}

func policy(cfg *config.TLS) (pq handshake.PQ, groups []tls.CurveID, version uint16, err error) {
	if pq, err = handshake.ParsePQ(string(cfg.PQ)); err != nil {
		return pq, nil, 0, err
	}
	names := make([]string, len(cfg.Groups))
	for i, g := range cfg.Groups {
		names[i] = string(g)
	}
	if groups, err = handshake.ParseGroups(names); err != nil {
		return pq, nil, 0, err
	}
	version, err = handshake.ParseVersion(string(cfg.MinVersion))
	return pq, groups, version, err
}

// clientTLS makes the TLS side of an upstream.
func (s *Server) clientTLS(t *config.Tree, u *config.Upstream) (*handshake.Client, error) {
	return clientSide(t.UpstreamTLS(u), s.building, transports.ALPN([]string{transports.H2, transports.H1}))
}

// clientSide makes the TLS side of a client by these settings.
func clientSide(cfg *config.TLS, all *sources, protos []string) (*handshake.Client, error) {
	pq, groups, version, err := policy(cfg)
	if err != nil {
		return nil, err
	}
	set := handshake.ClientSettings{
		PQ: pq, Groups: groups, MinVersion: version, ServerName: cfg.ServerName, Identity: all.identityOf[cfg],
		NextProtos: protos,
	}
	if ca := cfg.UpstreamCA(); ca != "" {
		certs, err := handshake.ReadCertificates(string(ca))
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		set.Roots = handshake.Pool(certs)
	}
	if own := all.of[cfg]; len(own) > 0 {
		set.Certificate = own[0]
	}
	return handshake.NewClient(set)
}

// dialer makes the gateway's dialers; the endpoints of an upstream share its TLS
// side, and so its sessions.
func (s *Server) dialer() func(*config.Tree, *config.Upstream, config.Endpoint) (exchange.Dialer, error) {
	var mu sync.Mutex
	clients := map[*config.Upstream]*handshake.Client{}
	var of *config.Tree
	return func(t *config.Tree, u *config.Upstream, e config.Endpoint) (exchange.Dialer, error) {
		mu.Lock()
		defer mu.Unlock()
		if of != t {
			of, clients = t, map[*config.Upstream]*handshake.Client{}
		}
		c := clients[u]
		if c == nil && e.Scheme.Secure() {
			var err error
			if c, err = s.clientTLS(t, u); err != nil {
				return nil, err
			}
			clients[u] = c
		}
		lim := t.Limits
		return transports.NewDialer(string(e.Scheme), e.Address.Addr, transports.DialSettings{
			TLS: c, Watch: s.watch,
			Limits: exchange.Limits{HeadBytes: int(lim.HeadBytes), Fields: lim.Fields},
		})
	}
}

// dialRPC makes the gateway's upstreams that take calls.
func (s *Server) dialRPC(t *config.Tree, u *config.Upstream) (exchange.RPCUpstream, error) {
	endpoints := make([]transports.RPCEndpoint, len(u.Endpoints))
	for i, e := range u.Endpoints {
		endpoints[i] = transports.RPCEndpoint{Scheme: string(e.Scheme), Address: e.Address.Addr}
	}
	c, err := s.clientTLS(t, u)
	if err != nil {
		return nil, err
	}
	return transports.NewRPCUpstream(endpoints, transports.RPCSettings{
		DialSettings:     transports.DialSettings{TLS: c, Watch: s.watch},
		UpstreamSettings: zaprpc.UpstreamSettings{Connect: u.Timeouts.Connect, MaxIdle: u.MaxIdle, Idle: u.Timeouts.Idle},
		FrameBytes:       int(t.Limits.FrameBytes),
	})
}
