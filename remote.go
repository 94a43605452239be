package pqgw

import (
	"fmt"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/handshake/remotesign"
)

// remoteKey tells which sources are the same: those of the same servers, asked by the
// same TLS settings.
type remoteKey struct {
	config.StoreCertificates
	Asking *config.TLS
}

// loadRemote makes the source of a certificate whose key signing servers have. The
// sources of the TLS settings that it asks by must be there.
func (s *Server) loadRemote(t *config.Tree, cfg *config.TLS, all, old *sources) error {
	k := cfg.Certificates.KMS
	if k == nil || len(k.Server) == 0 {
		return nil
	}
	asking := t.TLS[k.TLS]
	made := remoteKey{*k, asking}
	src := old.like(made)
	if src == nil {
		side, err := clientSide(asking, all, []string{remotesign.ALPN})
		if err != nil {
			return fmt.Errorf("tls %s: %w", k.TLS, err)
		}
		if src, err = s.remoteSource(k, side, t); err != nil {
			return err
		}
	}
	all.add(cfg, src, made)
	return nil
}

func (s *Server) remoteSource(k *config.StoreCertificates, side *handshake.Client, t *config.Tree) (handshake.Source, error) {
	set := remotesign.ClientSettings{TLS: side, Timeout: t.Limits.HandshakeTimeout, Observe: s.metrics.RemoteSign(k.Key)}
	for _, e := range k.Server {
		set.Servers = append(set.Servers, e.Address.Addr)
	}
	c, err := remotesign.NewClient(set)
	if err != nil {
		return nil, err
	}
	src, err := remotesign.NewSource(c, remotesign.SourceSettings{Key: k.Key, Chain: string(k.Cert), OnReload: func(err error) {
		if err != nil {
			s.logger.Error("remote key", "error", err)
			return
		}
		s.logger.Info("certificate replaced", "file", string(k.Cert), "key", k.Key)
	}})
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return src, nil
}
