package kms

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

func (s *Store) path(name string) string {
	return filepath.Join(s.dir, entriesDir, fileName(name)+sealedSuffix)
}

func (s *Store) previousPath(name string) string {
	return filepath.Join(s.dir, entriesDir, fileName(name)+previousSuffix)
}

// read returns the current document of name, or the one before where the
// current one is torn, authenticated. It looks twice: a rotation may have
// overtaken the first reading.
func (s *Store) read(name string) (*document, view, error) {
	d, v, err := s.readOnce(name)
	if errors.Is(err, ErrTampered) {
		d, v, err = s.readOnce(name)
	}
	return d, v, err
}

func (s *Store) readOnce(name string) (*document, view, error) {
	d, err := readDocument(s.path(name), name)
	if errors.Is(err, ErrCorrupt) {
		s.opts.Logger.Warn("a file of the key store is torn; the version before is used", "name", name)
		if previous, previousErr := readDocument(s.previousPath(name), name); previousErr == nil {
			d, err = previous, nil
		}
	}
	if err != nil {
		return nil, view{}, err
	}
	v, err := s.authenticate(d)
	return d, v, err
}

// authenticate checks the MAC; an epoch that is not known yet is that of a
// rotation, which a fresh look at the header shows. Once a rotation is done
// nothing of an earlier epoch is taken: its root may be known to others.
func (s *Store) authenticate(d *document) (view, error) {
	v, err := s.view()
	if err != nil {
		return v, err
	}
	if d.head.Epoch > v.header.Epoch {
		if err := s.load(); err != nil {
			return v, err
		}
		if v, err = s.view(); err != nil {
			return v, err
		}
	}
	stale := d.head.Epoch < v.header.Epoch && !v.header.Pending
	if stale || d.head.Store != v.header.Store || !v.authentic(d) {
		return v, ErrTampered
	}
	return v, nil
}

func readDocument(path, name string) (*document, error) {
	data, err := readLimited(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	d, err := decodeDocument(data)
	if err != nil {
		return nil, err
	}
	if d.head.Name != name {
		return nil, ErrTampered
	}
	return d, nil
}

// Stat tells what is known of name in clear, authenticated. It is no use of
// the key and leaves no line in the audit.
func (s *Store) Stat(name string) (Info, error) {
	if err := CheckName(name); err != nil {
		return Info{}, err
	}
	d, _, err := s.read(name)
	if err != nil {
		return Info{}, fail("stat", name, err, "")
	}
	return d.head.Info, nil
}

// Get unseals name for the given purpose, which goes into the audit. The
// caller closes the secret. Errors: ErrNotFound, ErrCorrupt, ErrTampered,
// ErrNoKey.
func (s *Store) Get(ctx context.Context, name, purpose string) (*Secret, Info, error) {
	if err := errors.Join(ctx.Err(), CheckName(name)); err != nil {
		return nil, Info{}, err
	}
	d, v, err := s.read(name)
	if err != nil {
		return nil, Info{}, fail("get", name, err, "")
	}
	return s.unseal(d, v, purpose)
}

// GetPrevious unseals the version before the current one, where it is kept.
func (s *Store) GetPrevious(ctx context.Context, name, purpose string) (*Secret, Info, error) {
	if err := errors.Join(ctx.Err(), CheckName(name)); err != nil {
		return nil, Info{}, err
	}
	d, err := readDocument(s.previousPath(name), name)
	if err != nil {
		return nil, Info{}, fail("get previous", name, err, "")
	}
	v, err := s.authenticate(d)
	if err != nil {
		return nil, Info{}, fail("get previous", name, err, "")
	}
	return s.unseal(d, v, purpose)
}

func (s *Store) unseal(d *document, v view, purpose string) (*Secret, Info, error) {
	info := d.head.Info
	value, err := d.open(v.keys)
	if errors.Is(err, ErrNoKey) {
		// Re-sealed by a rotation: the master's source may have the new key.
		if err = s.load(); err == nil {
			if v, err = s.view(); err == nil {
				value, err = d.open(v.keys)
			}
		}
	}
	if err != nil {
		return nil, info, fail("get", info.Name, err, "the master is "+s.opts.Master.String())
	}
	if d.head.Kind == KindPublic {
		return value, info, nil
	}
	err = s.audit.append(Line{Op: opGet, Name: info.Name, Kind: info.Kind, Version: info.Version, Purpose: purpose})
	if err != nil {
		_ = value.Close()
		return nil, info, err
	}
	return value, info, nil
}

// Entry is a value to put.
type Entry struct {
	Name   string
	Kind   Kind
	Value  *Secret // not closed by Put; ignored for KindPublic
	Public []byte
	New    bool // refuse with ErrExists when the name is taken
}

// Put stores the entry as the next version of its name, keeping the one
// before. It returns once both are on disk. Errors: ErrName, ErrKind,
// ErrTooLarge, ErrExists, ErrReadOnly.
func (s *Store) Put(ctx context.Context, e Entry) (Info, error) {
	if err := e.check(); err != nil {
		return Info{}, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return Info{}, err
	}
	defer unlock()
	return s.put(e)
}

func (e Entry) check() error {
	if err := CheckName(e.Name); err != nil {
		return err
	}
	switch {
	case !e.Kind.Valid():
		return fail("put", e.Name, ErrKind, "")
	case e.Value.Len() > MaxValue || len(e.Public) > MaxValue:
		return fail("put", e.Name, ErrTooLarge, "")
	case e.Kind != KindPublic && e.Value.Len() == 0:
		return fail("put", e.Name, errors.New("the value is empty"), "")
	}
	return nil
}

// put is Put under the writer's lock.
func (s *Store) put(e Entry) (Info, error) {
	info := Info{Name: e.Name, Kind: e.Kind, Version: 1, Public: e.Public, Size: e.Value.Len()}
	if e.Kind == KindPublic {
		info.Size = len(e.Public)
	}
	info.Rotated = s.opts.Now().UTC()
	info.Created = info.Rotated
	old, _, err := s.read(e.Name)
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return Info{}, fail("put", e.Name, err, "delete it first")
	case e.New:
		return Info{}, fail("put", e.Name, ErrExists, "")
	case old.head.Kind != e.Kind:
		return Info{}, fail("put", e.Name, ErrKind, "it is "+string(old.head.Kind)+"; delete it first")
	default:
		info.Version, info.Created = old.head.Version+1, old.head.Created
	}
	return info, s.write(info, e.Value)
}

// write announces the version in the audit, writes it, and says that it is
// done: whatever comes between, the audit can tell which versions there may be.
func (s *Store) write(info Info, value *Secret) error {
	line := Line{Op: opPut, Name: info.Name, Kind: info.Kind, Version: info.Version}
	seq, err := s.audit.appendSeq(line)
	if err != nil {
		return err
	}
	step("announced")
	v, err := s.view()
	if err != nil {
		return err
	}
	h := head{Info: info, Store: v.header.Store, Epoch: v.header.Epoch, Audit: seq}
	data, err := v.sealSecret(h, value)
	if err != nil {
		return err
	}
	if err := replaceFile(s.path(info.Name), s.previousPath(info.Name), data, isWhole); err != nil {
		return fail("put", info.Name, err, "")
	}
	step("stored")
	line.Op, line.Of = opStored, seq
	return s.audit.append(line)
}

func (v view) sealSecret(h head, value *Secret) (data []byte, err error) {
	var made []byte
	mac := func(b []byte) []byte { made = v.mac(h.Epoch, b); return made }
	if h.Kind == KindPublic {
		data, err = sealDocument(h, nil, v.header.target, mac)
	} else {
		err = value.Use(func(b []byte) error {
			data, err = sealDocument(h, b, v.header.target, mac)
			return err
		})
	}
	if err == nil && made == nil { // the store was closed since the view was taken
		return nil, ErrClosed
	}
	return data, err
}

// Update replaces the value of name by what change returns for it, under the
// writer's lock, so that no other change comes between. A nil value without
// error leaves the entry as it is. The value that change is given is nil when
// there is no entry yet; it is closed after change returns, so change returns
// another one, which Update closes too.
func (s *Store) Update(ctx context.Context, name string, kind Kind, purpose string, change func(old *Secret) (*Secret, []byte, error)) (Info, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return Info{}, err
	}
	defer unlock()
	old, info, err := s.Get(ctx, name, purpose)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Info{}, err
	}
	if err == nil && info.Kind != kind {
		_ = old.Close()
		return info, fail("update", name, ErrKind, "it is "+string(info.Kind))
	}
	value, public, err := change(old)
	_ = old.Close()
	if err != nil {
		_ = value.Close()
		return info, err
	}
	if value == nil {
		return info, nil
	}
	defer value.Close()
	e := Entry{Name: name, Kind: kind, Value: value, Public: public}
	if err := e.check(); err != nil {
		return info, err
	}
	return s.put(e)
}

// Delete removes name and the version before. It returns ErrNotFound when
// there is none.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Lstat(s.path(name)); err != nil {
		return fail("delete", name, ErrNotFound, "")
	}
	seq, err := s.audit.appendSeq(Line{Op: opDelete, Name: name})
	if err != nil {
		return err
	}
	step("announced")
	// The older one first: what is left by a crash in between is the newest.
	if err := os.Remove(s.previousPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail("delete", name, err, "")
	}
	step("previous removed")
	if err := os.Remove(s.path(name)); err != nil {
		return fail("delete", name, err, "")
	}
	step("removed")
	if err := syncDir(filepath.Join(s.dir, entriesDir)); err != nil {
		return fail("delete", name, err, "")
	}
	return s.audit.append(Line{Op: opDeleted, Name: name, Of: seq})
}
