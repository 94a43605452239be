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

// Stores are the key stores that configurations name, each opened once for the
// life of the process: a master key in an environment variable can be read
// only once, and one from a passphrase is slow to come by. The zero value is
// ready. It is safe for concurrent use.
type Stores struct {
	// Logger gets the stores' warnings. Nil is silent.
	Logger *slog.Logger

	mu   sync.Mutex
	open map[storeKey]*openStore
}

// openStore is a store and what it is as ACME's storage, once that is asked for.
type openStore struct {
	*kms.Store
	certs *certstore.Storage
}

// storeKey tells which settings are the same store.
type storeKey struct {
	dir    config.File
	master config.Master
}

func storeKeyOf(k *config.KMS) storeKey { return storeKey{k.Dir, k.Master} }

// Open opens the store that k names, or gives the one that is open already. It
// stays open until Close.
func (s *Stores) Open(k *config.KMS) (*kms.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	store, err := s.opened(k)
	if err != nil {
		return nil, err
	}
	return store.Store, nil
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
		return store, nil
	}
	master, err := masterOf(k.Master)
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
	s.open[key] = &openStore{Store: store}
	return s.open[key], nil
}

func masterOf(m config.Master) (kms.Master, error) {
	switch {
	case m.File != "":
		return kms.MasterFile{Path: string(m.File)}, nil
	case m.Credential != "":
		return kms.MasterCredential{Name: m.Credential}, nil
	case m.Env != "":
		return &kms.MasterEnv{Variable: m.Env}, nil
	case m.PassphraseFile != "":
		passphrase, err := kms.ReadPassphrase(string(m.PassphraseFile))
		return kms.MasterPassphrase{Passphrase: passphrase}, err
	}
	return nil, errors.New("no master is named")
}

// Resolver is what config.Options.KMS takes: `${kms:name}` by the store of the
// configuration itself.
func (s *Stores) Resolver(k *config.KMS) (config.Resolver, error) {
	store, err := s.Open(k)
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
		if store.certs != nil {
			errs = append(errs, store.certs.Close())
		}
		errs = append(errs, store.Close())
	}
	s.open = nil
	return errors.Join(errs...)
}
