package stored

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/kms"
	"github.com/hanzoai/pqgw/kms/pqcert"
)

// identityPurpose is what the audit says of an identity's key.
const identityPurpose = "identity"

// IdentityOptions say what an identity of a store is made of.
type IdentityOptions struct {
	// Entry is one of kind ml-dsa: a key, with the chain as its public part.
	Entry string
	// CA is the PEM file of the authorities that vouch for peers.
	CA string
	// Poll is how often both are looked at; 0 means 5 s.
	Poll time.Duration
	// OnReload, which may be nil, is told of each change: nil, or an *[IdentityError]
	// with which the old identity stays in force.
	OnReload func(error)
}

// IdentityError is an entry that no identity can be made of.
type IdentityError struct {
	Entry, CA string
	Err       error
}

// Error names the entry and what is wrong with it.
func (e *IdentityError) Error() string {
	return fmt.Sprintf("identity %s of the store, ca %s: %v", e.Entry, e.CA, e.Err)
}

// Unwrap is the reason alone.
func (e *IdentityError) Unwrap() error { return e.Err }

// Identity is a [handshake.Identity] whose key stays with the store: each proof is a
// line in its audit.
type Identity struct {
	*handshake.Identity
	store   *kms.Store
	options IdentityOptions
	info    kms.Info
	digest  [sha256.Size]byte // of the authorities' file
	news    handshake.News
	stop    chan struct{}
	done    sync.WaitGroup
}

// NewIdentity makes one and looks after entry and file in a goroutine that Close ends.
// The store stays the caller's to close, after the identity. Errors are *[IdentityError].
func NewIdentity(store *kms.Store, o IdentityOptions) (*Identity, error) {
	i := &Identity{store: store, options: o, stop: make(chan struct{})}
	if _, err := i.load(); err != nil {
		return nil, i.wrap(err)
	}
	if i.options.Poll <= 0 {
		i.options.Poll = poll
	}
	i.done.Go(i.watch)
	return i, nil
}

func (i *Identity) wrap(err error) error {
	return &IdentityError{Entry: i.options.Entry, CA: i.options.CA, Err: err}
}

// Describe tells of our own certificate.
func (i *Identity) Describe() handshake.CertInfo {
	info := i.Identity.Describe()
	info.Location = i.options.Entry
	return info
}

// Close ends the goroutine. The identity stays usable while the store is open.
func (i *Identity) Close() error {
	close(i.stop)
	i.done.Wait()
	return nil
}

func (i *Identity) watch() {
	tick := time.NewTicker(i.options.Poll)
	defer tick.Stop()
	for {
		select {
		case <-i.stop:
			return
		case <-tick.C:
			i.check()
		}
	}
}

func (i *Identity) check() {
	changed, err := i.load()
	if err != nil {
		err = i.wrap(err)
	}
	if i.news.Worth(changed, err) && i.options.OnReload != nil {
		i.options.OnReload(err)
	}
}

// load puts entry and file in force where either is another than before.
func (i *Identity) load() (changed bool, err error) {
	info, err := i.store.Stat(i.options.Entry)
	if err != nil {
		return false, err
	}
	authorities, err := os.ReadFile(i.options.CA)
	if err != nil {
		return false, err
	}
	digest := sha256.Sum256(authorities)
	if i.Identity != nil && info.Same(i.info) && digest == i.digest {
		return false, nil
	}
	if info.Kind != kms.KindIdentity {
		return false, fmt.Errorf("%w: it is %s", kms.ErrKind, info.Kind)
	}
	s := handshake.IdentitySettings{}
	if s.Chain, err = pqcert.ParsePEM(info.Public); err != nil {
		return false, fmt.Errorf("its public part: %w", err)
	}
	if end := s.Chain[0].NotAfter; time.Now().After(end) {
		return false, fmt.Errorf("the certificate expired on %s", end.Format(time.RFC3339))
	}
	if s.Roots, err = pqcert.ParsePEM(authorities); err != nil {
		return false, fmt.Errorf("ca: %w", err)
	}
	if s.Key, err = i.store.Signer(context.Background(), i.options.Entry, identityPurpose); err != nil {
		return false, err
	}
	if i.Identity == nil {
		i.Identity, err = handshake.NewIdentity(s, nil)
	} else {
		err = i.Replace(s)
	}
	if err != nil {
		return false, err
	}
	i.info, i.digest = info, digest
	return true, nil
}
