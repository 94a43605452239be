package pqgw

import (
	"context"
	"crypto"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/handshake/pkcs11"
	"github.com/hanzoai/pqgw/handshake/remotesign"
	"github.com/hanzoai/pqgw/kms"
)

// tokenPoll is how often a certificate in a token is looked at.
const tokenPoll = time.Minute

// tokenSource makes the source of a certificate whose key a token has. The token must be
// there, and its PIN right.
func (s *Server) tokenSource(t *config.Tree, k *config.StoreCertificates) (handshake.Source, error) {
	p := k.PKCS11
	id, badID := hex.DecodeString(p.ID)
	slot, badSlot := p.SlotNumber()
	if err := errors.Join(badID, badSlot); err != nil {
		return nil, fmt.Errorf("certificates.kms.pkcs11: %w", err)
	}
	name := k.Key
	if name == "" {
		name = p.ID
	}
	keys, err := pkcs11.Open(pkcs11.Settings{
		Module: string(p.Module), Token: p.Token, Slot: slot, PIN: p.PIN, ID: id,
		Timeout: t.Limits.HandshakeTimeout, Observe: s.metrics.RemoteSign(name),
	})
	if err != nil {
		return nil, fmt.Errorf("certificates.kms.pkcs11%s: %w", pkcs11Setting(err), err)
	}
	set := remotesign.SourceSettings{Key: name, Chain: string(k.Cert), Compared: true}
	if k.Cert == "" {
		set.Chain, set.Poll = fmt.Sprintf("pkcs11:token=%s%s;object=%s", p.Token, p.Slot, name), tokenPoll
		set.ReadChain = func() ([]byte, error) { return keys.Chain(context.Background(), k.Key) }
	}
	return s.remoteSource(tokenSigners{keys, k.Key}, set)
}

// tokenSigners have the key by its label, which may be none, whatever it is called.
type tokenSigners struct {
	pkcs11.Keys
	label string
}

// SignerOf gives a signer by the key of the label.
func (k tokenSigners) SignerOf(_, purpose string, public crypto.PublicKey) (kms.Signer, error) {
	return k.Keys.SignerOf(k.label, purpose, public)
}

// pkcs11Setting is the setting below pkcs11 that an error is about, with its dot.
func pkcs11Setting(err error) string {
	for kind, setting := range map[error]string{pkcs11.ErrPIN: ".pin", pkcs11.ErrToken: ".token", pkcs11.ErrModule: ".module"} {
		if errors.Is(err, kind) {
			return setting
		}
	}
	return ""
}
