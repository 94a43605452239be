package kms

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Rotation says how RotateMaster rotates.
type Rotation struct {
	// Next is the new master. Nil makes one and keeps it in the store's
	// MasterFile, which then holds both until all is re-sealed: running
	// readers find it there.
	Next *MasterKey
	// KeepOld seals to the old master too, for readers that cannot get at the
	// new one before they are started again. A later RotateMaster without it
	// ends that.
	KeepOld bool
	// DropOld only ends a rotation that kept the old master: entries are left
	// sealed to the newest alone.
	DropOld bool
}

// Rotated is what a rotation did.
type Rotated struct {
	Master   string `json:"master"` // ID of the recipient that entries are sealed to now
	Epoch    uint32 `json:"epoch"`
	Resealed int    `json:"resealed"`
}

// RotateMaster seals every entry to a new master key, under a new root. Readers
// go on meanwhile, in this process and in others: while files of both kinds
// are about, the header opens with either key. A rotation that was cut off is
// gone on with by the next call.
func (s *Store) RotateMaster(ctx context.Context, r Rotation) (Rotated, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return Rotated{}, err
	}
	defer unlock()
	file, _ := s.opts.Master.(MasterFile)
	if err := s.sweep(file); err != nil {
		return Rotated{}, fail("rotate", s.dir, err, "")
	}
	if !s.pending() {
		if err := s.begin(file, r); err != nil {
			return Rotated{}, err
		}
	}
	n, err := s.reseal(ctx)
	if err != nil {
		return Rotated{}, err
	}
	return s.finish(n)
}

// sweep removes what killed writers left: sealed to an old master, or one
// itself.
func (s *Store) sweep(file MasterFile) error {
	errs := []error{removeTemps(filepath.Join(s.dir, entriesDir), ""), removeTemps(s.dir, "")}
	if file.Path != "" {
		errs = append(errs, removeTemps(filepath.Dir(file.Path), filepath.Base(file.Path)+"-"))
	}
	return errors.Join(errs...)
}

func (s *Store) pending() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.header.Pending
}

// begin writes the header of the rotation.
func (s *Store) begin(file MasterFile, r Rotation) error {
	v, err := s.view()
	if err != nil {
		return err
	}
	next := r.Next
	if next == nil && !r.DropOld {
		if file.Path == "" {
			return fail("rotate", s.dir, errors.New("no new master is given"), "only a master file can take one by itself")
		}
		if next, err = file.stage(); err != nil {
			return err
		}
		step("master staged")
	}
	if err := s.audit.append(Line{Op: opRotate}); err != nil {
		return err
	}
	keys := v.keys
	if next != nil {
		keys = append(keys[:len(keys):len(keys)], next)
	}
	h, err := v.header.rotated(next, keys, r)
	if err != nil {
		return err
	}
	return s.install(h, v.roots.grow(), keys)
}

// rotated is the header while entries are re-sealed. A recipient that an
// earlier rotation kept and whose key is not at hand goes at once: nothing
// would vouch to it for the header.
func (p *parsedHeader) rotated(next *MasterKey, keys []*MasterKey, r Rotation) (header, error) {
	h := p.header
	h.Pending, h.Epoch = true, p.Epoch+1
	h.Recipients, h.Target = nil, nil
	for _, e := range p.Recipients {
		if e.Recovery || holdsKey(keys, e.ID) {
			h.Recipients = append(h.Recipients, e)
		}
	}
	if next != nil {
		e := recipientEntry{ID: next.recipient.ID(), Key: next.recipient.String(), Derivation: next.derivation}
		if p.entry(e.ID) != nil {
			return h, fail("rotate", "", ErrExists, "the new master is one of the store already")
		}
		h.Recipients = append([]recipientEntry{e}, h.Recipients...)
	}
	mine := 0
	for _, e := range h.Recipients {
		if !e.Recovery {
			mine++
		}
		if e.Recovery || mine == 1 || mine == 2 && r.KeepOld {
			h.Target = append(h.Target, e.ID)
		}
	}
	if len(h.Recipients) > maxRecipients || h.Epoch > maxEpochs {
		return h, fail("rotate", "", ErrTooLarge, "")
	}
	return h, nil
}

// install seals the roots to the header's recipients, writes it and takes it
// into use.
func (s *Store) install(h header, secrets roots, keys []*MasterKey) error {
	to := make([]Recipient, 0, len(h.Recipients))
	for _, e := range h.Recipients {
		r, err := ParseRecipient(e.Key)
		if err != nil {
			return err
		}
		to = append(to, r)
	}
	var err error
	if h.Roots, err = secrets.seal(h.Store, to); err != nil {
		return err
	}
	for _, e := range h.Recipients {
		if !e.Recovery && !holdsKey(keys, e.ID) {
			return fail("write header", s.dir, ErrNoKey, "master "+e.ID+" is needed too, to finish a rotation")
		}
	}
	if err := writeHeader(s.dir, h, among(keys, to)); err != nil {
		return fail("write header", s.dir, err, "")
	}
	step("header written")
	p, _, err := readHeader(s.dir)
	if err != nil {
		return fail("read header", s.dir, err, "")
	}
	return s.adopt(p, keys, secrets, false)
}

func holdsKey(keys []*MasterKey, id string) bool {
	return slices.ContainsFunc(keys, func(k *MasterKey) bool { return k.recipient.ID() == id })
}

// among are the keys whose recipients are listed.
func among(keys []*MasterKey, to []Recipient) []*MasterKey {
	var out []*MasterKey
	for _, r := range to {
		i := slices.IndexFunc(keys, func(k *MasterKey) bool { return k.recipient.ID() == r.ID() })
		if i >= 0 {
			out = append(out, keys[i])
		}
	}
	return out
}

// reseal brings every file to the target and the epoch of the header.
func (s *Store) reseal(ctx context.Context) (int, error) {
	v, err := s.view()
	if err != nil {
		return 0, err
	}
	dir := filepath.Join(s.dir, entriesDir)
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0, fail("rotate", s.dir, err, "")
	}
	n := 0
	for _, f := range files {
		name := f.Name()
		if !strings.HasSuffix(name, sealedSuffix) && !strings.HasSuffix(name, previousSuffix) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return n, err
		}
		done, err := s.resealFile(v, filepath.Join(dir, name))
		if err != nil {
			return n, err
		}
		if done {
			n++
		}
	}
	return n, nil
}

// resealFile re-seals one file; it reports whether there was need. A torn file
// is left: there is nothing to seal in it, and the one before is served.
func (s *Store) resealFile(v view, path string) (bool, error) {
	data, err := readLimited(path)
	if err != nil {
		return false, fail("rotate", path, err, "")
	}
	d, err := decodeDocument(data)
	if errors.Is(err, ErrCorrupt) {
		s.opts.Logger.Warn("a torn file of the key store is left as it is", "file", path)
		return false, nil
	}
	if err != nil || !v.authentic(d) {
		return false, fail("rotate", path, errors.Join(err, ErrTampered), "remove the file, or restore it")
	}
	if d.head.Epoch == v.header.Epoch && d.sealedTo(v.header.target) {
		return false, nil
	}
	value, err := d.open(v.keys)
	if err != nil {
		return false, fail("rotate", d.head.Name, err, "the old master is needed to finish a rotation")
	}
	defer value.Close()
	h := d.head
	h.Epoch = v.header.Epoch
	out, err := v.sealSecret(h, value)
	if err != nil {
		return false, err
	}
	if err := writeFile(path, out); err != nil {
		return false, fail("rotate", d.head.Name, err, "")
	}
	step("resealed")
	return true, nil
}

// finish drops the recipients that nothing is sealed to any more.
func (s *Store) finish(n int) (Rotated, error) {
	v, err := s.view()
	if err != nil {
		return Rotated{}, err
	}
	h := v.header.header
	h.Pending, h.Recipients = false, nil
	for _, e := range v.header.Recipients {
		if slices.Contains(h.Target, e.ID) {
			h.Recipients = append(h.Recipients, e)
		}
	}
	if err := s.install(h, v.roots, v.keys); err != nil {
		return Rotated{}, err
	}
	if err := s.settle(); err != nil {
		return Rotated{}, err
	}
	if err := s.audit.append(Line{Op: opRotated}); err != nil {
		return Rotated{}, err
	}
	return Rotated{Master: h.Target[0], Epoch: h.Epoch, Resealed: n}, nil
}

// settle takes the old master out of the master file, and the header that it
// opens out of the folder, once a rotation is done. Whatever writes next does
// it where the rotation was killed before it could.
func (s *Store) settle() error {
	v, err := s.view()
	if err != nil || v.header.Pending {
		return err
	}
	newest := v.header.Target[0]
	if err := v.header.settle(s.dir); err != nil {
		return err
	}
	file, ok := s.opts.Master.(MasterFile)
	if !ok || len(v.keys) < 2 {
		return nil
	}
	if err := file.promote(newest); err != nil {
		return err
	}
	step("master promoted")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = slices.DeleteFunc(slices.Clone(s.keys), func(k *MasterKey) bool { return k.recipient.ID() != newest })
	return nil
}
