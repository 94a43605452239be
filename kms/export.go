package kms

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
)

// PEM types of what leaves a store.
const (
	pemBlob   = "PQGW SEALED"
	pemExport = "PQGW EXPORT"

	// maxExport bounds an export, whose entries are in memory at once.
	maxExport = 256 << 20
)

// SealBlob seals value to the recipients under a label, as PEM. Anyone may do
// so who knows a recipient: what it opens to is secret, not vouched for.
func SealBlob(label string, value *Secret, to []Recipient) ([]byte, error) {
	if err := CheckName(label); err != nil {
		return nil, err
	}
	return sealPEM(pemBlob, head{Info: Info{Name: label, Kind: KindSecret, Size: value.Len()}, Store: pemBlob}, value, to)
}

func sealPEM(kind string, h head, value *Secret, to []Recipient) (out []byte, err error) {
	if len(to) == 0 || len(to) > maxRecipients {
		return nil, fail("seal", h.Name, fmt.Errorf("%d recipients; 1 to %d are allowed", len(to), maxRecipients), "")
	}
	err = value.Use(func(b []byte) error {
		document, err := sealDocument(h, b, to, nil)
		out = pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: document})
		return err
	})
	return out, err
}

func openPEM(kind string, data []byte) (*document, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != kind {
		return nil, fail("open", "", ErrCorrupt, "a PEM block "+kind+" is wanted")
	}
	d, err := decodeDocument(block.Bytes)
	if err != nil {
		return nil, fail("open", "", err, "")
	}
	if d.head.Store != kind {
		return nil, fail("open", "", ErrTampered, "")
	}
	return d, nil
}

// OpenBlob opens what SealBlob made, and leaves a line in the audit. Errors:
// ErrCorrupt, ErrTampered, ErrNoKey.
func (s *Store) OpenBlob(ctx context.Context, data []byte, purpose string) (label string, value *Secret, err error) {
	d, err := openPEM(pemBlob, data)
	if err != nil {
		return "", nil, err
	}
	v, err := s.view()
	if err = errors.Join(ctx.Err(), err); err != nil {
		return "", nil, err
	}
	value, err = d.open(v.keys)
	if err != nil {
		return "", nil, fail("unseal", d.head.Name, err, "a blob opens with the master it was sealed to")
	}
	if err := s.audit.append(Line{Op: opUnseal, Purpose: purpose + ": " + d.head.Name}); err != nil {
		_ = value.Close()
		return "", nil, err
	}
	return d.head.Name, value, nil
}

// exported is one entry of an export.
type exported struct {
	Info
	Value []byte `json:"value,omitempty"`
}

// Export seals the named entries, or all, to the recipients, as PEM: a backup,
// or a way into another store.
func (s *Store) Export(ctx context.Context, to []Recipient, names ...string) ([]byte, error) {
	if len(names) == 0 {
		infos, damaged, err := s.List()
		if err != nil {
			return nil, err
		}
		if len(damaged) > 0 {
			return nil, fail("export", damaged[0].File, damaged[0].Err, "'pqgw kms list' shows all that is damaged; name what is to be exported")
		}
		for _, info := range infos {
			names = append(names, info.Name)
		}
	}
	var entries []exported
	defer func() {
		for _, e := range entries {
			clear(e.Value)
		}
	}()
	size := 0
	for _, name := range names {
		value, info, err := s.Get(ctx, name, "export")
		if err != nil {
			return nil, err
		}
		entries = append(entries, exported{Info: info, Value: value.Reveal()})
		_ = value.Close()
		if size += info.Size + len(info.Public); size > maxExport {
			return nil, fail("export", "", ErrTooLarge, "name fewer entries")
		}
	}
	all, err := json.Marshal(entries)
	if err != nil {
		return nil, err
	}
	value := NewSecret(all)
	defer value.Close()
	return sealPEM(pemExport, head{Info: Info{Name: "export", Kind: KindSecret, Size: len(entries)}, Store: pemExport}, value, to)
}

// Import puts the entries of an export. Those whose names are taken are
// replaced only when told so; else ErrExists ends it before anything is put.
func (s *Store) Import(ctx context.Context, data []byte, replace bool) ([]Info, error) {
	d, err := openPEM(pemExport, data)
	if err != nil {
		return nil, err
	}
	v, err := s.view()
	if err != nil {
		return nil, err
	}
	value, err := d.open(v.keys)
	if err != nil {
		return nil, fail("import", "", err, "an export opens with the master it was sealed to")
	}
	defer value.Close()
	var entries []exported
	if err := value.Use(func(b []byte) error { return json.Unmarshal(b, &entries) }); err != nil {
		return nil, fail("import", "", ErrCorrupt, "")
	}
	if !replace {
		for _, e := range entries {
			if _, err := s.Stat(e.Name); !errors.Is(err, ErrNotFound) {
				return nil, fail("import", e.Name, ErrExists, "")
			}
		}
	}
	var infos []Info
	for _, e := range entries {
		secret := NewSecret(e.Value)
		info, err := s.Put(ctx, Entry{Name: e.Name, Kind: e.Kind, Value: secret, Public: e.Public, New: !replace})
		_ = secret.Close()
		if err != nil {
			return infos, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}
