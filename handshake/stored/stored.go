// Package stored serves certificates of a key store. Their private keys stay
// what the store makes of them: each signature is a line in its audit.
package stored

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/kms"
)

// poll bounds how long a version that was put goes unnoticed. Looking costs a
// small file's reading for each entry.
const poll = 5 * time.Second

// purpose is what the audit says that the keys are used for.
const purpose = "tls"

// Error is an entry that no certificate can be made of.
type Error struct {
	Entry string
	Err   error
}

// Error names the entry and what is wrong with it.
func (e *Error) Error() string { return fmt.Sprintf("certificate %s of the store: %v", e.Entry, e.Err) }

// Unwrap is the reason without the entry.
func (e *Error) Unwrap() error { return e.Err }

// Reload is the news of one entry.
type Reload struct {
	Entry string
	Info  handshake.CertInfo // of what is in use now
	Err   error              // why the new version was not taken; an *Error
}

// Options are optional.
type Options struct {
	// Poll is how often entries are looked at; 0 means 5 s.
	Poll time.Duration
	// OnReload is told of each entry that was replaced, and once of each that
	// could not be (the old version then stays). It is called from one goroutine.
	OnReload func(Reload)
}

// Source is a [handshake.Source] of entries of kind certificate.
type Source struct {
	handshake.Set
	store   *kms.Store
	options Options
	entries []*entry
	stop    chan struct{}
	done    sync.WaitGroup
}

// entry is one as it was last read.
type entry struct {
	name string
	info kms.Info
	cert *tls.Certificate
	news handshake.News
}

// New loads the entries, the first of which is the default, and looks after
// them in a goroutine that Close ends. Every entry must be good to begin with.
// The store stays the caller's to close, after the Source. Errors are *[Error].
func New(store *kms.Store, names []string, o Options) (*Source, error) {
	if len(names) == 0 {
		return nil, errors.New("no entries are named")
	}
	s := &Source{store: store, options: o, stop: make(chan struct{})}
	s.Kind = "kms"
	for _, name := range names {
		e := &entry{name: name}
		if _, err := e.load(store); err != nil {
			return nil, &Error{Entry: name, Err: err}
		}
		s.entries = append(s.entries, e)
	}
	s.publish()
	if s.options.Poll <= 0 {
		s.options.Poll = poll
	}
	s.done.Go(s.watch)
	return s, nil
}

func (s *Source) watch() {
	tick := time.NewTicker(s.options.Poll)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			s.check()
		}
	}
}

// check loads what has another version.
func (s *Source) check() {
	var news []Reload
	for _, e := range s.entries {
		changed, err := e.load(s.store)
		if err != nil {
			err = &Error{Entry: e.name, Err: err}
		}
		if e.news.Worth(changed, err) {
			news = append(news, Reload{Entry: e.name, Info: handshake.InfoOf(e.cert.Leaf, s.Kind, e.name), Err: err})
		}
	}
	if len(news) == 0 {
		return
	}
	s.publish()
	if s.options.OnReload != nil {
		for _, n := range news {
			s.options.OnReload(n)
		}
	}
}

func (s *Source) publish() {
	held := make([]handshake.Held, len(s.entries))
	for i, e := range s.entries {
		held[i] = handshake.Held{Certificate: e.cert, Location: e.name}
	}
	s.Put(held)
}

// Close ends the goroutine. What was handed out stays usable while the store is open.
func (s *Source) Close() error {
	close(s.stop)
	s.done.Wait()
	return nil
}

// load makes a certificate of the entry if it has another value.
func (e *entry) load(store *kms.Store) (changed bool, err error) {
	info, err := store.Stat(e.name)
	if err != nil || e.cert != nil && info.Same(e.info) {
		return false, err
	}
	if info.Kind != kms.KindCertificate {
		return false, fmt.Errorf("%w: it is %s", kms.ErrKind, info.Kind)
	}
	chain, leaf, err := parseChain(info.Public)
	if err != nil {
		return false, err
	}
	if e.cert != nil && time.Now().After(leaf.NotAfter) && time.Now().Before(e.cert.Leaf.NotAfter) {
		return false, fmt.Errorf("the new certificate expired on %s", leaf.NotAfter.Format(time.RFC3339))
	}
	signer, err := store.Signer(context.Background(), e.name, purpose)
	if err != nil {
		return false, err
	}
	if !sameKey(signer.Public(), leaf.PublicKey) {
		return false, errors.New("its chain, the public part, is that of another key")
	}
	e.cert, e.info = &tls.Certificate{Certificate: chain, PrivateKey: signer, Leaf: leaf}, info
	return true, nil
}

func sameKey(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b)
}

// parseChain reads a chain in PEM, leaf first.
func parseChain(text []byte) (chain [][]byte, leaf *x509.Certificate, err error) {
	for block, rest := pem.Decode(bytes.TrimSpace(text)); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			chain = append(chain, block.Bytes)
		}
	}
	if len(chain) == 0 {
		return nil, nil, errors.New("its public part has no certificate in PEM")
	}
	leaf, err = x509.ParseCertificate(chain[0])
	return chain, leaf, err
}
