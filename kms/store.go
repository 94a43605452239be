package kms

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	entriesDir = "entries"
	lockFile   = "lock"
)

// Info is what is known of an entry without opening it.
type Info struct {
	Name    string    `json:"name"`
	Kind    Kind      `json:"kind"`
	Version uint64    `json:"version"` // 1 for the first value
	Created time.Time `json:"created"`
	Rotated time.Time `json:"rotated"` // when this version was put
	Size    int       `json:"size"`    // bytes of the value, or of the public part of KindPublic
	// Public goes with the value but is no secret: a certificate chain. It is
	// authenticated, not sealed.
	Public []byte `json:"public,omitempty"`
}

// Same reports whether both tell of one value. Versions alone do not: an entry that was
// deleted and put again begins with the first.
func (i Info) Same(as Info) bool { return i.Version == as.Version && i.Rotated.Equal(as.Rotated) }

// Options of a Store.
type Options struct {
	// Master opens the store; required.
	Master Master
	// Logger gets warnings: torn files, fall-backs. Nil is silent.
	Logger *slog.Logger
	// Actor names who uses keys in the audit; the process's name when empty.
	Actor string
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Recovery lets a recovery key open the store, for reading. Nothing vouches to such
	// a key for what is there: who can write to the folder can have put it there.
	Recovery bool
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Actor == "" {
		o.Actor = filepath.Base(os.Args[0])
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Store is an open store. It is safe for concurrent use, and many processes
// may have the same folder open.
type Store struct {
	dir     string
	opts    Options
	audit   *auditLog
	closing sync.Once

	mu       sync.RWMutex
	header   *parsedHeader
	keys     []*MasterKey
	roots    roots
	epochs   map[uint32]epochKeys
	readOnly bool
	closed   bool
}

// Init makes a store in dir, which must be empty or absent, sealed to key and,
// for recovery, to the others. It returns ErrExists where a store is.
func Init(dir string, key *MasterKey, recovery ...Recipient) error {
	if len(recovery) >= maxRecipients {
		return fail("init", dir, ErrTooLarge, "too many recipients")
	}
	if err := os.MkdirAll(filepath.Join(dir, entriesDir), 0o700); err != nil {
		return fail("init", dir, err, "")
	}
	unlock, err := LockFile(context.Background(), filepath.Join(dir, lockFile))
	if err != nil {
		return fail("init", dir, err, "")
	}
	defer unlock()
	if _, err := os.Lstat(filepath.Join(dir, headerFile)); err == nil {
		return fail("init", dir, ErrExists, "")
	}
	h, all := newHeader(key, recovery)
	first := roots(nil).grow()
	defer first.close()
	if h.Roots, err = first.seal(h.Store, all); err != nil {
		return err
	}
	if err := writeHeader(dir, h, []*MasterKey{key}); err != nil {
		return fail("init", dir, err, "")
	}
	p, _, err := readHeader(dir)
	if err != nil {
		return fail("init", dir, err, "")
	}
	return p.settle(dir)
}

func newHeader(key *MasterKey, recovery []Recipient) (header, []Recipient) {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	h := header{Version: headerVersion, Store: hex.EncodeToString(id), Epoch: 1}
	all := append([]Recipient{key.recipient}, recovery...)
	for i, r := range all {
		e := recipientEntry{ID: r.ID(), Key: r.String(), Recovery: i > 0}
		if i == 0 {
			e.Derivation = key.derivation
		}
		h.Recipients, h.Target = append(h.Recipients, e), append(h.Target, e.ID)
	}
	return h, all
}

// Open opens the store in dir. No entry is read or unsealed until it is asked
// for. Errors: ErrNoKey, ErrTampered, ErrCorrupt, ErrLooseMode, fs errors.
func Open(dir string, opts Options) (*Store, error) {
	s := &Store{dir: dir, opts: opts.withDefaults()}
	if err := s.load(); err != nil {
		return nil, err
	}
	audit, err := openAudit(dir, s)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	s.audit = audit
	return s, nil
}

// load reads the header and, where it is another than the one in use, asks the
// master again and takes its roots into use.
func (s *Store) load() error {
	p, torn, err := readHeader(s.dir)
	if err != nil {
		hint := ""
		if errors.Is(err, fs.ErrNotExist) {
			hint = "'pqgw kms init' makes a store"
		}
		return fail("open store", s.dir, err, hint)
	}
	if s.holds(p) {
		return nil
	}
	if torn {
		s.opts.Logger.Warn("the header of the key store is torn; the one before is used", "dir", s.dir)
	}
	keys, err := s.opts.Master.Keys(p.derivations())
	if err != nil {
		return err
	}
	readOnly, err := p.verify(keys)
	if err != nil {
		return fail("open store", s.dir, err, "the master is "+s.opts.Master.String())
	}
	if readOnly {
		if !s.takesRecovery() {
			return fail("open store", s.dir, ErrTampered, "its header calls the master a recovery key, to which nothing vouches for it; the store's own master is needed")
		}
		s.opts.Logger.Warn("the key store is opened by a recovery key, to which nothing vouches for what is there", "dir", s.dir)
	}
	secrets, err := p.openRoots(keys)
	if err != nil {
		return fail("open store", s.dir, err, "")
	}
	return s.adopt(p, keys, secrets, readOnly)
}

// takesRecovery reports whether a header that only a recovery key opens is taken. One
// that once was vouched for never comes to be such a one.
func (s *Store) takesRecovery() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.opts.Recovery && (s.header == nil || s.readOnly)
}

// holds reports whether p is the header in use.
func (s *Store) holds(p *parsedHeader) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.header != nil && bytes.Equal(s.header.line, p.line)
}

func (s *Store) adopt(p *parsedHeader, keys []*MasterKey, secrets roots, readOnly bool) error {
	epochs, err := secrets.derive()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	// What was in use is left to the collector, whose cleanup zeroes it:
	// readers may still hold it.
	s.header, s.keys, s.roots, s.epochs, s.readOnly = p, keys, secrets, epochs, readOnly
	return nil
}

// view is a consistent picture of what load set.
type view struct {
	header *parsedHeader
	keys   []*MasterKey
	roots  roots
	epochs map[uint32]epochKeys
}

func (s *Store) view() (view, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return view{}, ErrClosed
	}
	return view{s.header, s.keys, s.roots, s.epochs}, nil
}

// mac is the MAC of data under an epoch's key; nil when the epoch is unknown.
func (v view) mac(epoch uint32, data []byte) []byte {
	var out []byte
	_ = v.epochs[epoch].entry.Use(func(key []byte) error {
		m := hmac.New(sha256.New, key)
		m.Write(data)
		out = m.Sum(nil)
		return nil
	})
	return out
}

func (v view) authentic(d *document) bool {
	want := v.mac(d.head.Epoch, d.signed)
	return want != nil && subtle.ConstantTimeCompare(want, d.mac) == 1
}

// Dir is the store's folder.
func (s *Store) Dir() string { return s.dir }

// Recipients are those that new entries are sealed to.
func (s *Store) Recipients() []Recipient {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append([]Recipient(nil), s.header.target...)
}

// Close zeroes the keys and closes the audit, once the line that is being written
// is whole. What goes on using the store gets ErrClosed. Secrets that were handed out
// stay open.
func (s *Store) Close() (err error) {
	s.closing.Do(func() { err = s.close() })
	return err
}

func (s *Store) close() (err error) {
	if s.audit != nil {
		err = s.audit.close() // its line takes s.mu, so it comes first
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, k := range s.keys {
		_ = k.Close()
	}
	s.roots.close()
	for _, k := range s.epochs {
		_ = k.entry.Close()
		_ = k.audit.Close()
	}
	return err
}

// lock takes the writer's lock and brings the header up to date.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	unlock, err = LockFile(ctx, filepath.Join(s.dir, lockFile))
	if err != nil {
		return nil, fail("lock", s.dir, err, "another writer may be at work")
	}
	if err := s.load(); err != nil {
		unlock()
		return nil, err
	}
	s.mu.RLock()
	readOnly := s.readOnly
	s.mu.RUnlock()
	if readOnly {
		unlock()
		return nil, fail("write", s.dir, ErrReadOnly, "a recovery key only reads")
	}
	if err := s.settle(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}
