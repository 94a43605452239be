package pqgw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/caddyserver/certmagic"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/handshake/acme"
)

// acmeKey is what a source of ACME is made of: it goes on over a reload that
// leaves all of it alone.
type acmeKey struct {
	ACME                     config.ACME
	Store                    *config.KMS
	Dir                      string // where there is no store
	Hosts                    []string
	HTTP01, TLSALPN01, DNS01 bool
}

func newACMEKey(t *config.Tree, name string, a *config.ACME) acmeKey {
	return acmeKey{
		ACME: *a, Store: t.KMS, Dir: filepath.Join(DataDir(t), "acme"), Hosts: t.ACMEHosts(name),
		HTTP01: a.Uses(t, config.HTTP01), TLSALPN01: a.Uses(t, config.TLSALPN01), DNS01: a.Uses(t, config.DNS01),
	}
}

// source makes the source, which asks nobody until it is started.
func (k acmeKey) source(stores *Stores, logger *slog.Logger) (*acme.Source, error) {
	set := acme.Settings{
		Directory: k.ACME.Directory, Email: k.ACME.Email, PreferredChain: k.ACME.PreferredChain,
		Hosts: k.Hosts, HTTP01: k.HTTP01, TLSALPN01: k.TLSALPN01, CheckEvery: k.ACME.CheckEvery, Logger: logger,
	}
	if k.DNS01 {
		set.DNS = k.dns()
	}
	if e := k.ACME.EAB; e != nil {
		set.EABKeyID, set.EABMACKey = e.KeyID, e.MACKey
	}
	if d := k.ACME.OnDemand; d != nil {
		set.OnDemand = &acme.OnDemand{Ask: d.Ask, Rate: d.Rate}
	}
	if k.ACME.CA != "" {
		certs, err := handshake.ReadCertificates(string(k.ACME.CA))
		if err != nil {
			return nil, fmt.Errorf("acme: ca: %w", err)
		}
		set.Roots = handshake.Pool(certs)
	}
	var err error
	if set.Storage, err = k.storage(stores); err != nil {
		return nil, fmt.Errorf("acme: %w", err)
	}
	return acme.New(set)
}

func (k acmeKey) dns() *acme.DNS {
	c := k.ACME.DNS
	d := &acme.DNS{Resolvers: c.Resolvers, Timeout: c.Timeout, Provider: &acme.Exec{Command: c.Exec}}
	if u := c.RFC2136; u != nil {
		d.Provider = &acme.RFC2136{
			Server: u.Server, KeyName: u.KeyName, KeySecret: u.KeySecret, KeyAlgorithm: string(u.KeyAlgorithm),
		}
		if len(d.Resolvers) == 0 {
			d.Resolvers = []string{u.Server}
		}
	}
	return d
}

// storage is the key store, or a folder that nobody else may read: keys lie
// there as those of certificate files do.
func (k acmeKey) storage(stores *Stores) (certmagic.Storage, error) {
	if k.Store != nil {
		return stores.Certificates(k.Store)
	}
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(k.Dir)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%w: others can read %s, where keys lie; chmod 0700, or configure kms", os.ErrPermission, k.Dir)
	}
	return &certmagic.FileStorage{Path: k.Dir}, nil
}

// solvers are the sources that answer challenges.
func (s *sources) solvers() (list []*acme.Source) {
	for src := range s.by {
		if a, ok := src.(*acme.Source); ok {
			list = append(list, a)
		}
	}
	return list
}

// startACME lets the sources of a configuration in force begin: the listeners
// can answer challenges now.
func (s *Server) startACME(st *state) {
	list := st.sources.solvers()
	s.solvers.Store(&list)
	for _, a := range list {
		a.Start()
	}
}

// keyAuthorization answers http-01 on listeners in the clear.
func (s *Server) keyAuthorization(host, path string) ([]byte, bool) {
	list := s.solvers.Load()
	if list == nil {
		return nil, false
	}
	for _, a := range *list {
		if answer, ok := a.KeyAuthorization(context.Background(), host, path); ok {
			return answer, true
		}
	}
	return nil, false
}

// ErrNoACME: no settings get certificates for a host by ACME.
var ErrNoACME = errors.New("no settings with acme serve that host")

// RevokeCertificate tells the issuer that the certificate of a host must not be
// trusted any more, by a reason code of RFC 5280, section 5.3.1, and takes it out
// of the storage. Running gateways get another one by themselves.
func RevokeCertificate(ctx context.Context, t *config.Tree, stores *Stores, logger *slog.Logger, host string, reason int) error {
	host = handshake.NormalName(host)
	for name, cfg := range t.TLS {
		if cfg.Certificates.ACME == nil {
			continue
		}
		k := newACMEKey(t, name, cfg.Certificates.ACME)
		src, err := k.source(stores, logger)
		if err != nil {
			return err
		}
		has := src.Has(host)
		if has {
			err = src.Revoke(ctx, host, reason)
		}
		if err := errors.Join(err, src.Close()); has || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %s", ErrNoACME, host)
}
