package handshake

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// File modes of what we write.
const (
	secretFile = 0o600
	publicFile = 0o644
	secretDir  = 0o700
)

// writeOnce puts a whole file at path unless one is there: the one that is
// there first stays, and created says whether it is ours. No reader ever sees
// a part of it.
func writeOnce(path string, data []byte, mode fs.FileMode) (created bool, err error) {
	tmp, err := writeTemp(path, data, mode)
	if err != nil {
		return false, err
	}
	defer os.Remove(tmp) //nolint:errcheck // a stray temporary file harms nobody
	err = os.Link(tmp, path)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, errors.Join(err, syncDir(filepath.Dir(path)))
}

// writeOver puts a whole file at path in place of what is there.
func writeOver(path string, data []byte, mode fs.FileMode) error {
	tmp, err := writeTemp(path, data, mode)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return syncDir(filepath.Dir(path))
}

// writeTemp writes data to the disk beside path. CreateTemp's mode is 0600, so
// a secret is never readable by others, not even for a moment.
func writeTemp(path string, data []byte, mode fs.FileMode) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// syncDir makes a new name in dir outlive a crash.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
