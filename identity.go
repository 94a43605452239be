package pqgw

import (
	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/handshake"
)

// identities are the post-quantum identities of a configuration, by what they
// are made of. Those that a reload leaves alone go on.
type identities map[config.Identity]*handshake.IdentityFiles

// closeBut ends those that the other configuration does not use.
func (all identities) closeBut(other identities) {
	for cfg, id := range all {
		if other[cfg] != id {
			_ = id.Close()
		}
	}
}

// loadIdentity makes the identity of some TLS settings ready, where they have one.
func (s *Server) loadIdentity(cfg *config.TLS, all, old identities) error {
	if cfg.Identity == nil || all[*cfg.Identity] != nil {
		return nil
	}
	id := old[*cfg.Identity]
	if id == nil {
		paths := handshake.IdentityPaths{Cert: string(cfg.Identity.Cert), Key: string(cfg.Identity.Key), CA: string(cfg.Identity.CA)}
		var err error
		id, err = handshake.NewIdentityFiles(paths, func(err error) {
			if err != nil {
				s.logger.Error("the new identity was not taken; the old one stays", "error", err)
				return
			}
			s.logger.Info("identity replaced", "file", paths.Cert)
		})
		if err != nil {
			return err
		}
	}
	all[*cfg.Identity] = id
	return nil
}

// identity is what the settings prove and demand, nil for nothing.
func (s *sources) identity(cfg *config.TLS) *handshake.Identity {
	if cfg.Identity == nil {
		return nil
	}
	return s.identities[*cfg.Identity].Identity
}
