package pqgw

import (
	"fmt"
	"net/url"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/handshake/remotesign"
	"github.com/hanzoai/pqgw/handshake/transit"
)

// remoteKey tells which sources are the same: those of the same servers, asked by the
// same TLS settings.
type remoteKey struct {
	config.StoreCertificates
	Asking *config.TLS
	store  storeKey // that Asking draws on
}

// loadRemote makes the source of a certificate whose key signing servers have. The
// sources of the TLS settings that it asks by must be there.
func (s *Server) loadRemote(t *config.Tree, cfg *config.TLS, all, old *sources) error {
	k := cfg.Certificates.KMS
	if !k.Remote() {
		return nil
	}
	asking := t.TLS[k.TLS]
	made := remoteKey{StoreCertificates: *k, Asking: asking}
	if asking != nil {
		made.store = storeKeyOf(t.StoreFor(asking))
	}
	src := old.like(made)
	if src == nil {
		var err error
		if k.PKCS11 != nil {
			src, err = s.tokenSource(t, k)
		} else {
			src, err = s.askedSource(t, k, asking, all)
		}
		if err != nil {
			return err
		}
	}
	all.add(cfg, src, made)
	return nil
}

func (s *Server) askedSource(t *config.Tree, k *config.StoreCertificates, asking *config.TLS, all *sources) (handshake.Source, error) {
	signers, err := s.signers(t, k, asking, all)
	if err != nil {
		return nil, err
	}
	return s.remoteSource(signers, remotesign.SourceSettings{Key: k.Key, Chain: string(k.Cert)})
}

// signers are those who are asked for the key.
func (s *Server) signers(t *config.Tree, k *config.StoreCertificates, asking *config.TLS, all *sources) (remotesign.Signers, error) {
	observe := s.metrics.RemoteSign(k.Key)
	if k.Vault != "" {
		set := transit.Settings{Address: k.Vault, Mount: k.Mount, TokenFile: string(k.Token), Timeout: t.Limits.HandshakeTimeout, Observe: observe}
		if asking != nil {
			side, err := clientSide(asking, all, []string{"http/1.1"})
			if err != nil {
				return nil, fmt.Errorf("tls %s: %w", k.TLS, err)
			}
			u, err := url.Parse(k.Vault)
			if err != nil {
				return nil, err
			}
			set.TLS = side.Config(u.Host)
		}
		return transit.New(set)
	}
	side, err := clientSide(asking, all, []string{remotesign.ALPN})
	if err != nil {
		return nil, fmt.Errorf("tls %s: %w", k.TLS, err)
	}
	set := remotesign.ClientSettings{TLS: side, Timeout: t.Limits.HandshakeTimeout, Observe: observe}
	for _, e := range k.Server {
		set.Servers = append(set.Servers, e.Address.Addr)
	}
	return remotesign.NewClient(set)
}

func (s *Server) remoteSource(c remotesign.Signers, set remotesign.SourceSettings) (handshake.Source, error) {
	set.OnReload = func(err error) {
		if err != nil {
			s.logger.Error("remote key", "error", err)
			return
		}
		s.logger.Info("certificate replaced", "file", set.Chain, "key", set.Key)
	}
	src, err := remotesign.NewSource(c, set)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return src, nil
}
