package kms

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Damage is a file of the store that cannot be used, found while listing.
type Damage struct {
	File string `json:"file"`
	Err  error  `json:"-"`
	Text string `json:"error"`
}

// List returns all entries in order of their names, and the files that do not
// authenticate. It unseals nothing.
func (s *Store) List() ([]Info, []Damage, error) {
	return list(s.dir, func(d *document) error { _, err := s.authenticate(d); return err })
}

// ListClear lists the store in dir without a master: what it says is only as
// trustworthy as whoever can write to the folder.
func ListClear(dir string) ([]Info, []Damage, error) {
	return list(dir, func(*document) error { return nil })
}

func list(dir string, check func(*document) error) (infos []Info, damaged []Damage, err error) {
	files, err := sealedFiles(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		d, err := readListed(dir, file)
		if err == nil {
			err = check(d)
		}
		if errors.Is(err, ErrTampered) {
			if d, err = readListed(dir, file); err == nil {
				err = check(d)
			}
		}
		switch {
		case err == nil:
			infos = append(infos, d.head.Info)
		case !errors.Is(err, fs.ErrNotExist): // deleted since the folder was read
			damaged = append(damaged, Damage{File: file, Err: err, Text: err.Error()})
		}
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return infos, damaged, nil
}

func readListed(dir, file string) (*document, error) {
	data, err := readLimited(filepath.Join(dir, entriesDir, file))
	if err != nil {
		return nil, err
	}
	d, err := decodeDocument(data)
	if err != nil {
		previous := strings.TrimSuffix(file, sealedSuffix) + previousSuffix
		if data, readErr := readLimited(filepath.Join(dir, entriesDir, previous)); readErr == nil {
			if older, olderErr := decodeDocument(data); olderErr == nil {
				d, err = older, nil
			}
		}
	}
	if err == nil && fileName(d.head.Name)+sealedSuffix != file {
		return nil, ErrTampered
	}
	return d, err
}

// sealedFiles are the names of the entries' files.
func sealedFiles(dir string) ([]string, error) {
	d, err := os.Open(filepath.Join(dir, entriesDir))
	if err != nil {
		return nil, fail("list", dir, err, "")
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fail("list", dir, err, "")
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		return !strings.HasSuffix(n, sealedSuffix) || strings.HasPrefix(n, tempPrefix)
	})
	return names, nil
}

// Names returns the names of all entries, sorted, as the folder has them: it
// reads no file whose name says it, and authenticates nothing.
func (s *Store) Names() ([]string, error) {
	files, err := sealedFiles(s.dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(files))
	for _, file := range files {
		name, ok := nameOfFile(strings.TrimSuffix(file, sealedSuffix))
		if !ok {
			d, err := readListed(s.dir, file)
			if err != nil {
				continue
			}
			name = d.head.Name
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Has reports whether there is an entry of that name; it authenticates nothing.
func (s *Store) Has(name string) bool {
	_, err := os.Lstat(s.path(name))
	return err == nil
}
