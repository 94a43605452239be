package pqgw

import (
	"io"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/handshake/stored"
)

// identities are the post-quantum identities of a configuration, by what they
// are made of. Those that a reload leaves alone go on.
type identities map[identityKey]*openIdentity

// identityKey tells which identities are the same: of the same files, or of the same
// entry of the same store.
type identityKey struct {
	config.Identity
	store storeKey // zero for files
}

func identityKeyOf(t *config.Tree, id *config.Identity) identityKey {
	key := identityKey{Identity: *id}
	if id.Store != "" {
		key.store = storeKeyOf(t.KMS)
	}
	return key
}

// openIdentity is one that something keeps fresh until it is closed.
type openIdentity struct {
	*handshake.Identity
	io.Closer
	describe func() handshake.CertInfo
}

// Describe tells of our own certificate.
func (o *openIdentity) Describe() handshake.CertInfo { return o.describe() }

// closeBut ends those that the other configuration does not use.
func (all identities) closeBut(other identities) {
	for key, id := range all {
		if other[key] != id {
			_ = id.Close()
		}
	}
}

// loadIdentity makes the identity of some TLS settings ready, where they have one.
func (s *Server) loadIdentity(t *config.Tree, cfg *config.TLS, all *sources, old identities) error {
	if cfg.Identity == nil {
		return nil
	}
	key := identityKeyOf(t, cfg.Identity)
	id := all.identities[key]
	if id == nil {
		id = old[key]
	}
	if id == nil {
		var err error
		if id, err = s.openIdentity(t, cfg.Identity); err != nil {
			return err
		}
	}
	all.identities[key], all.identityOf[cfg] = id, id.Identity
	return nil
}

func (s *Server) openIdentity(t *config.Tree, cfg *config.Identity) (*openIdentity, error) {
	onReload := func(err error) {
		if err != nil {
			s.logger.Error("the new identity was not taken; the old one stays", "error", err)
			return
		}
		s.logger.Info("identity replaced", "file", string(cfg.Cert), "entry", cfg.Store)
	}
	if cfg.Store == "" {
		paths := handshake.IdentityPaths{Cert: string(cfg.Cert), Key: string(cfg.Key), CA: string(cfg.CA)}
		id, err := handshake.NewIdentityFiles(paths, onReload)
		if err != nil {
			return nil, err
		}
		return &openIdentity{id.Identity, id, id.Describe}, nil
	}
	store, err := s.stores.store(t.KMS, false)
	if err != nil {
		return nil, err
	}
	id, err := stored.NewIdentity(store, stored.IdentityOptions{Entry: cfg.Store, CA: string(cfg.CA), OnReload: onReload})
	if err != nil {
		return nil, err
	}
	return &openIdentity{id.Identity, id, id.Describe}, nil
}
