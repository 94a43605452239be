package handshake

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/kms/pqcert"
)

// IdentityPaths are the PEM files of an identity, as `pqgw cert` makes them
// with an ML-DSA algorithm.
type IdentityPaths struct {
	Cert string // our chain, leaf first
	Key  string // its private key
	CA   string // the authorities that vouch for peers
}

// IdentityError is a set of files that make no identity.
type IdentityError struct {
	Paths IdentityPaths
	Err   error
}

// Error names the files and what is wrong with them.
func (e *IdentityError) Error() string {
	text := fmt.Sprintf("identity %s, key %s, ca %s: %v", e.Paths.Cert, e.Paths.Key, e.Paths.CA, e.Err)
	if errors.Is(e.Err, pqcert.ErrAlgorithm) {
		text += "; 'pqgw cert ca DIR --alg ml-dsa-65' and 'pqgw cert issue DIR --name N --alg ml-dsa-65' make such files"
	}
	return text
}

// Unwrap is the reason without the files.
func (e *IdentityError) Unwrap() error { return e.Err }

// IdentityFiles is an [Identity] of files that are read again when they change.
type IdentityFiles struct {
	*Identity
	paths    IdentityPaths
	onReload func(error)

	mu     sync.Mutex // serialises reloads
	digest [sha256.Size]byte
	news   News
	watch  *watch
}

// NewIdentityFiles reads the files and begins to watch them; Close ends that.
// onReload, which may be nil, is told of each change: nil, or a *[IdentityError] with
// which the old identity stays in force. Errors are *[IdentityError].
func NewIdentityFiles(paths IdentityPaths, onReload func(error)) (*IdentityFiles, error) {
	f := &IdentityFiles{Identity: &Identity{now: time.Now}, paths: paths, onReload: onReload}
	if _, err := f.read(); err != nil {
		return nil, &IdentityError{Paths: paths, Err: err}
	}
	f.watch = startWatch(defaultPoll, f.files(), f.changed, f.changed)
	return f, nil
}

func (f *IdentityFiles) files() []string { return []string{f.paths.Cert, f.paths.Key, f.paths.CA} }

// read puts the files in force if their bytes have changed and make an identity.
func (f *IdentityFiles) read() (changed bool, err error) {
	var data [3][]byte
	defer func() { clear(data[1]) }()
	for i, path := range f.files() {
		if data[i], err = os.ReadFile(path); err != nil {
			return false, err
		}
	}
	digest := sha256.Sum256(bytes.Join(data[:], []byte{0}))
	if f.current.Load() != nil && digest == f.digest {
		return false, nil
	}
	s := IdentitySettings{}
	if s.Chain, err = pqcert.ParsePEM(data[0]); err != nil {
		return false, fmt.Errorf("certificate: %w", err)
	}
	if s.Key, err = pqcert.ParsePrivateKeyPEM(data[1]); err != nil {
		return false, fmt.Errorf("key: %w", err)
	}
	if s.Roots, err = pqcert.ParsePEM(data[2]); err != nil {
		return false, fmt.Errorf("ca: %w", err)
	}
	if end := s.Chain[0].NotAfter; f.now().After(end) {
		return false, fmt.Errorf("the certificate expired on %s", end.Format(time.RFC3339))
	}
	if err := f.Replace(s); err != nil {
		return false, err
	}
	f.digest = digest
	return true, nil
}

// changed is called when the files may have changed.
func (f *IdentityFiles) changed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed, err := f.read()
	if err != nil {
		err = &IdentityError{Paths: f.paths, Err: err}
	}
	if f.news.Worth(changed, err) && f.onReload != nil {
		f.onReload(err)
	}
	return f.files()
}

// Describe tells of our own certificate.
func (f *IdentityFiles) Describe() CertInfo {
	info := f.Identity.Describe()
	info.Location = f.paths.Cert
	return info
}

// Close stops watching; the identity stays usable.
func (f *IdentityFiles) Close() error { return f.watch.close() }
