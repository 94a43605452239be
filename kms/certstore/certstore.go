// Package certstore lets certmagic keep certificates, keys and ACME accounts in
// a kms store, with locks that hold between processes.
package certstore

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/certmagic"

	"github.com/hanzoai/pqgw/kms"
)

// prefix stands before certmagic's keys in the names of entries.
const prefix = "acme/"

const locksDir = "locks"

// Storage is a certmagic.Storage, which also has TryLock and RenewLockLease.
// Keys and accounts are sealed; certificates, their metadata and OCSP staples,
// which are public, are authenticated only, and cost no decapsulation to load.
// Several processes may have one store open.
type Storage struct {
	store *kms.Store
	log   *slog.Logger
	dir   string // of the locks
	times leaseTimes

	mu   sync.Mutex
	held map[string]*lease
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// New makes a Storage over the store, which stays the caller's to close, after
// the Storage. A nil logger is silent.
func New(store *kms.Store, log *slog.Logger) (*Storage, error) {
	dir := filepath.Join(store.Dir(), locksDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &kms.Error{Op: "make locks", Name: dir, Err: err}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Storage{store: store, log: log, dir: dir, times: usualTimes, held: make(map[string]*lease)}, nil
}

// kindOf says whether a key's value is public.
func kindOf(key string) kms.Kind {
	switch {
	case path.Ext(key) == ".crt",
		strings.HasPrefix(key, "ocsp/"),
		strings.HasPrefix(key, "certificates/") && path.Ext(key) == ".json":
		return kms.KindPublic
	}
	return kms.KindACME
}

// clean is the key as names of entries have it.
func clean(key string) string { return strings.Trim(path.Clean("/"+key), "/") }

// Store implements certmagic.Storage.
func (s *Storage) Store(ctx context.Context, key string, value []byte) error {
	key = clean(key)
	e := kms.Entry{Name: prefix + key, Kind: kindOf(key)}
	if e.Kind == kms.KindPublic {
		e.Public = value
	} else {
		// The copy is zeroed when it becomes a secret; value is the caller's.
		e.Value = kms.NewSecret(slices.Clone(value))
		defer e.Value.Close()
	}
	_, err := s.store.Put(ctx, e)
	return err
}

// Load implements certmagic.Storage.
func (s *Storage) Load(ctx context.Context, key string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	key = clean(key)
	if kindOf(key) == kms.KindPublic {
		info, err := s.store.Stat(prefix + key)
		return info.Public, err
	}
	value, _, err := s.store.Get(ctx, prefix+key, "acme")
	if err != nil {
		return nil, err
	}
	defer value.Close()
	return value.Reveal(), nil
}

// Delete implements certmagic.Storage.
func (s *Storage) Delete(ctx context.Context, key string) error {
	key = clean(key)
	names, err := s.below(key)
	if err != nil {
		return err
	}
	if s.store.Has(prefix + key) {
		names = append(names, key)
	}
	for _, name := range names {
		if err := s.store.Delete(ctx, prefix+name); err != nil && s.store.Has(prefix+name) {
			return err
		}
	}
	return nil
}

// Exists implements certmagic.Storage.
func (s *Storage) Exists(_ context.Context, key string) bool {
	key = clean(key)
	if s.store.Has(prefix + key) {
		return true
	}
	below, err := s.below(key)
	return err == nil && len(below) > 0
}

// below are the keys in the folder of that name, sorted.
func (s *Storage) below(folder string) ([]string, error) {
	names, err := s.store.Names()
	if err != nil {
		return nil, err
	}
	start := prefix
	if folder != "" {
		start += folder + "/"
	}
	from, _ := slices.BinarySearch(names, start)
	var out []string
	for _, name := range names[from:] {
		if !strings.HasPrefix(name, start) {
			break
		}
		out = append(out, strings.TrimPrefix(name, prefix))
	}
	return out, nil
}

// List implements certmagic.Storage. Like certmagic's own file storage it
// gives folders among the keys, and fs.ErrNotExist for a folder that is not.
func (s *Storage) List(ctx context.Context, folder string, recursive bool) ([]string, error) {
	folder = clean(folder)
	below, err := s.below(folder)
	if err != nil {
		return nil, err
	}
	if len(below) == 0 && folder != "" {
		return nil, &kms.Error{Op: "list", Name: folder, Err: fs.ErrNotExist}
	}
	depth := 0
	if folder != "" {
		depth = strings.Count(folder, "/") + 1
	}
	var out []string
	seen := make(map[string]bool)
	for _, key := range below {
		parts := strings.Split(key, "/")
		last := len(parts)
		if !recursive {
			last = depth + 1
		}
		for n := depth + 1; n <= last; n++ {
			if child := strings.Join(parts[:n], "/"); !seen[child] {
				seen[child] = true
				out = append(out, child)
			}
		}
	}
	return out, ctx.Err()
}

// Stat implements certmagic.Storage.
func (s *Storage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	key = clean(key)
	if s.store.Has(prefix + key) {
		info, err := s.store.Stat(prefix + key)
		if err != nil {
			return certmagic.KeyInfo{}, err
		}
		return certmagic.KeyInfo{Key: key, Modified: info.Rotated, Size: int64(info.Size), IsTerminal: true}, ctx.Err()
	}
	below, err := s.below(key)
	if err != nil {
		return certmagic.KeyInfo{}, err
	}
	if len(below) == 0 {
		return certmagic.KeyInfo{}, &kms.Error{Op: "stat", Name: key, Err: fs.ErrNotExist}
	}
	return certmagic.KeyInfo{Key: key}, ctx.Err()
}

// String names the storage in certmagic's logs.
func (s *Storage) String() string { return "kms:" + s.store.Dir() }

// Close gives back the locks that are still held and ends their upkeep.
func (s *Storage) Close() error {
	s.mu.Lock()
	left := s.held
	s.held = make(map[string]*lease)
	s.mu.Unlock()
	for _, l := range left {
		_ = l.release()
	}
	return nil
}
