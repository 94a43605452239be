package kms

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// step is called between the system calls of every write. Tests replace it to
// end the process there.
var step = func(string) {}

// writeFile replaces path with data so that after a crash either the old or
// the new content is there, whole: temporary file, fsync, rename, fsync of the
// folder. The mode is 0600.
func writeFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	temp, err := writeTemp(path, data)
	if err != nil {
		return err
	}
	step("temp written")
	if err := os.Rename(temp, path); err != nil {
		_ = os.Remove(temp)
		return err
	}
	step("renamed")
	return syncDir(dir)
}

// replaceFile is writeFile that keeps what was there as path's previous. At no
// instant is path absent. A file that is not whole is not worth keeping and
// must not push out one that is.
func replaceFile(path, previous string, data []byte, whole func([]byte) bool) error {
	if old, err := readLimited(path); err == nil && whole(old) {
		if err := linkOver(path, previous); err != nil {
			return err
		}
	}
	return writeFile(path, data)
}

// linkOver makes to another name of from, replacing what to was.
func linkOver(from, to string) error {
	temp := filepath.Join(filepath.Dir(to), fmt.Sprintf("%s%s-%d", tempPrefix, filepath.Base(to), os.Getpid()))
	_ = os.Remove(temp)
	if err := os.Link(from, temp); err != nil {
		// File systems without hard links get a copy.
		data, readErr := readLimited(from)
		if readErr != nil {
			return err
		}
		return writeFile(to, data)
	}
	step("previous linked")
	// Rename of two names of one file does nothing, and leaves the first.
	err := os.Rename(temp, to)
	_ = os.Remove(temp)
	step("previous kept")
	return err
}

const tempPrefix = ".tmp-"

// writeTemp writes data to a file beside path, named after it.
func writeTemp(path string, data []byte) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix+filepath.Base(path)+"-")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	step("temp half written")
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// maxFile bounds what is read of any file of a store but the audit.
const maxFile = 4 << 20

func readLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: not a regular file", fs.ErrInvalid)
	}
	if info.Size() > maxFile {
		return nil, ErrTooLarge
	}
	data := make([]byte, info.Size())
	n, err := io.ReadFull(f, data)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}

// removeTemps deletes temporary files that writers of the files in dir whose
// names start with base left when they were killed. The caller holds the lock
// of those writers.
func removeTemps(dir, base string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix+base) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
