package pqgw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/kms"
	"github.com/hanzoai/pqgw/kms/certstore"
)

// Stores are the key stores that configurations name. Each stays open from one
// reload to the next, since a master key from a passphrase is slow to come by, and
// until nothing uses it. The zero value is ready. It is safe for concurrent use.
type Stores struct {
	// Logger gets the stores' warnings. Nil is silent.
	Logger *slog.Logger

	mu   sync.Mutex
	open map[storeKey]*openStore
	env  map[string]*kms.MasterEnv // by variable; each can be read once only
}

// openStore is a store and what it is as ACME's storage, once that is asked for.
type openStore struct {
	*kms.Store
	certs *certstore.Storage
	users int  // configurations in force, or not yet left behind
	kept  bool // until Close: somebody else has it
	asked bool // for a configuration that is being put in force
}

func (s *openStore) close() error {
	var err error
	if s.certs != nil {
		err = s.certs.Close()
	}
	return errors.Join(err, s.Store.Close())
}

// storeKey tells which settings are the same store.
type storeKey struct {
	dir    config.File
	master config.Master
}

// storeKeyOf is zero for no store.
func storeKeyOf(k *config.KMS) storeKey {
	if k == nil {
		return storeKey{}
	}
	return storeKey{k.Dir, k.Master}
}

// Open opens the store that k names, or gives the one that is open already. It
// stays open until Close.
func (s *Stores) Open(k *config.KMS) (*kms.Store, error) { return s.store(k, true) }

// store is Open for a configuration of the server, which holds it while it is in force.
func (s *Stores) store(k *config.KMS, kept bool) (*kms.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	store, err := s.opened(k)
	if err != nil {
		return nil, err
	}
	store.kept = store.kept || kept
	return store.Store, nil
}

// hold says that a configuration with this store, nil for none, is in force.
func (s *Stores) hold(k *config.KMS) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if store := s.open[storeKeyOf(k)]; store != nil {
		store.users++
	}
	s.settle()
}

// settle says that no configuration is being put in force any more. It is called with the
// lock held.
func (s *Stores) settle() {
	for _, store := range s.open {
		store.asked = false
	}
}

// release ends a hold. It may come while another configuration is being put in force.
func (s *Stores) release(k *config.KMS) {
	s.mu.Lock()
	if store := s.open[storeKeyOf(k)]; store != nil {
		store.users--
	}
	s.mu.Unlock()
	s.sweep()
}

// refuse says that the configuration that was being put in force was refused.
func (s *Stores) refuse() {
	s.mu.Lock()
	s.settle()
	s.mu.Unlock()
	s.sweep()
}

// sweep closes the stores that nothing uses.
func (s *Stores) sweep() {
	var left []*openStore
	s.mu.Lock()
	for key, store := range s.open {
		if store.users == 0 && !store.kept && !store.asked {
			delete(s.open, key)
			left = append(left, store)
		}
	}
	s.mu.Unlock()
	for _, store := range left {
		if err := store.close(); err != nil && s.Logger != nil {
			s.Logger.Warn("a key store that is not used any more", "dir", store.Dir(), "error", err)
		}
	}
}

// Certificates is the store that k names as a place for ACME to keep accounts,
// keys and certificates, until Close.
func (s *Stores) Certificates(k *config.KMS) (*certstore.Storage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	store, err := s.opened(k)
	if err == nil && store.certs == nil {
		store.certs, err = certstore.New(store.Store, s.Logger)
	}
	if err != nil {
		return nil, err
	}
	return store.certs, nil
}

// opened is called with the lock held.
func (s *Stores) opened(k *config.KMS) (*openStore, error) {
	key := storeKeyOf(k)
	if store := s.open[key]; store != nil {
		store.asked = true
		return store, nil
	}
	master, err := s.masterOf(k.Master)
	if err != nil {
		return nil, fmt.Errorf("kms: %w", err)
	}
	// Keys will lie in memory: no dump of it is to be had. Where the system does
	// not allow this the store serves all the same.
	if err := kms.Harden(); err != nil && s.Logger != nil {
		s.Logger.Warn("this process can be dumped, and with it its keys", "error", err)
	}
	store, err := kms.Open(string(k.Dir), kms.Options{Master: master, Logger: s.Logger, Actor: "pqgw"})
	if err != nil {
		return nil, fmt.Errorf("kms: %w", err)
	}
	if s.open == nil {
		s.open = map[storeKey]*openStore{}
	}
	s.open[key] = &openStore{Store: store, asked: true}
	return s.open[key], nil
}

func (s *Stores) masterOf(m config.Master) (kms.Master, error) {
	switch {
	case m.File != "":
		return kms.MasterFile{Path: string(m.File)}, nil
	case m.Credential != "":
		return kms.MasterCredential{Name: m.Credential}, nil
	case m.Env != "":
		if s.env == nil {
			s.env = map[string]*kms.MasterEnv{}
		}
		if s.env[m.Env] == nil {
			s.env[m.Env] = &kms.MasterEnv{Variable: m.Env}
		}
		return s.env[m.Env], nil
	case m.PassphraseFile != "":
		passphrase, err := kms.ReadPassphrase(string(m.PassphraseFile))
		return kms.MasterPassphrase{Passphrase: passphrase}, err
	}
	return nil, errors.New("no master is named")
}

// Resolver is what config.Options.KMS takes: `${kms:name}` by the store of the
// configuration itself.
func (s *Stores) Resolver(k *config.KMS) (config.Resolver, error) {
	store, err := s.store(k, false)
	if err != nil {
		return nil, err
	}
	return store.Resolver(context.Background()), nil
}

// Close closes all stores.
func (s *Stores) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, store := range s.open {
		errs = append(errs, store.close())
	}
	s.open = nil
	return errors.Join(errs...)
}
