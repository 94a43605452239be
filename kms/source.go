package kms

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Master is where master keys come from. It is asked again when a running
// store meets a file that its keys do not open, so that a rotation reaches
// readers without a restart.
type Master interface {
	// Keys returns the keys there are. derivations are those of the store's
	// passphrase recipients.
	Keys(derivations []Derivation) ([]*MasterKey, error)
	// String says where, never what.
	String() string
}

// MasterFile is a file with a master key, mode 0600 or stricter. While a
// rotation is under way it also holds the next one.
type MasterFile struct {
	Path string
}

const nextPrefix = "next:"

// Keys implements Master. It refuses a file that others can read.
func (m MasterFile) Keys([]Derivation) ([]*MasterKey, error) {
	current, next, err := m.read()
	if err != nil {
		return nil, err
	}
	if next == nil {
		return []*MasterKey{current}, nil
	}
	return []*MasterKey{current, next}, nil
}

// String implements Master.
func (m MasterFile) String() string { return "file " + m.Path }

// Create makes a fresh key in a new file. It returns fs.ErrExist when the file
// is there.
func (m MasterFile) Create() (*MasterKey, error) {
	if _, err := os.Lstat(m.Path); err == nil {
		return nil, fail("make master", m.Path, fs.ErrExist, "")
	}
	key, err := NewMasterKey()
	if err != nil {
		return nil, err
	}
	return key, m.write(key, nil)
}

func (m MasterFile) read() (current, next *MasterKey, err error) {
	data, err := readPrivate(m.Path, 0o077)
	if err != nil {
		return nil, nil, fail("open master", m.Path, err, hintMaster(err))
	}
	defer clear(data)
	return parseMasterFile(m.Path, data)
}

func parseMasterFile(path string, data []byte) (current, next *MasterKey, err error) {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		rest, isNext := bytes.CutPrefix(line, []byte(nextPrefix))
		key, err := ParseMasterKey(rest)
		if err != nil {
			return nil, nil, fail("open master", path, err, "")
		}
		switch {
		case isNext && next == nil:
			next = key
		case !isNext && current == nil:
			current = key
		default:
			return nil, nil, fail("open master", path, ErrCorrupt, "one key and at most one next key are allowed")
		}
	}
	if current == nil {
		return nil, nil, fail("open master", path, ErrCorrupt, "no key in it")
	}
	return current, next, nil
}

func (m MasterFile) write(current, next *MasterKey) error {
	data := append(current.text(), '\n')
	if next != nil {
		data = append(append(append(data, nextPrefix...), next.text()...), '\n')
	}
	defer clear(data)
	if err := writeFile(m.Path, data); err != nil {
		return fail("write master", m.Path, err, "")
	}
	return nil
}

// stage returns the next key of a rotation, which it makes and writes beside
// the current one when there is none.
func (m MasterFile) stage() (*MasterKey, error) {
	current, next, err := m.read()
	if err != nil || next != nil {
		return next, err
	}
	next, err = NewMasterKey()
	if err != nil {
		return nil, err
	}
	return next, m.write(current, next)
}

// promote leaves only the key of the given recipient in the file, where that
// is its next one.
func (m MasterFile) promote(id string) error {
	_, next, err := m.read()
	if err != nil || next == nil || next.Recipient().ID() != id {
		return err
	}
	return m.write(next, nil)
}

// MasterCredential is a master key in a systemd credential: a file of that
// name in $CREDENTIALS_DIRECTORY (systemd.exec, "CREDENTIALS").
type MasterCredential struct {
	Name string
}

// Keys implements Master.
func (m MasterCredential) Keys([]Derivation) ([]*MasterKey, error) {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return nil, fail("open master", m.String(), fs.ErrNotExist, "CREDENTIALS_DIRECTORY is not set: LoadCredentialEncrypted= in the unit sets it")
	}
	if m.Name == "" || strings.ContainsRune(m.Name, '/') || m.Name == ".." {
		return nil, fail("open master", m.String(), ErrName, "")
	}
	// systemd gives the service's user access by an ACL, whose mask shows as
	// the bits of the group.
	data, err := readPrivate(filepath.Join(dir, m.Name), 0o007)
	if err != nil {
		hint := hintMaster(err)
		if errors.Is(err, fs.ErrNotExist) {
			hint = "does LoadCredentialEncrypted= in the unit give it this name?"
		}
		return nil, fail("open master", m.String(), err, hint)
	}
	defer clear(data)
	current, next, err := parseMasterFile(m.String(), data)
	if err != nil || next == nil {
		return []*MasterKey{current}, err
	}
	return []*MasterKey{current, next}, nil
}

// String implements Master.
func (m MasterCredential) String() string { return "credential " + m.Name }

// MasterEnv is a master key in an environment variable. It is taken out of the
// environment when first read, so that no child inherits it; what the kernel
// shows of the process's start (/proc/PID/environ, to the same user) stays.
type MasterEnv struct {
	Variable string

	mu    sync.Mutex
	taken *Secret
}

// Keys implements Master.
func (m *MasterEnv) Keys([]Derivation) ([]*MasterKey, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken == nil {
		value, ok := os.LookupEnv(m.Variable)
		if !ok {
			return nil, fail("open master", m.String(), fs.ErrNotExist, "the variable is not set")
		}
		m.taken = NewSecret([]byte(value))
		if err := os.Unsetenv(m.Variable); err != nil {
			return nil, fail("open master", m.String(), err, "")
		}
	}
	key, err := ParseMasterKey(m.taken.Reveal())
	if err != nil {
		return nil, fail("open master", m.String(), err, "")
	}
	return []*MasterKey{key}, nil
}

// String implements Master.
func (m *MasterEnv) String() string { return "environment variable " + m.Variable }

// MasterPassphrase derives master keys from a passphrase by Argon2id.
type MasterPassphrase struct {
	Passphrase *Secret
}

// Keys implements Master.
func (m MasterPassphrase) Keys(derivations []Derivation) ([]*MasterKey, error) {
	keys := make([]*MasterKey, 0, len(derivations))
	for i := range derivations {
		key, err := derivations[i].master(m.Passphrase)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// String implements Master.
func (m MasterPassphrase) String() string { return "passphrase" }

// New derives a key under a fresh salt, for Init and RotateMaster.
func (m MasterPassphrase) New() (*MasterKey, error) {
	if m.Passphrase.Len() == 0 {
		return nil, fail("derive master", "", errors.New("the passphrase is empty"), "")
	}
	salt := make([]byte, 16)
	_, _ = rand.Read(salt)
	d := &Derivation{Salt: salt, Time: newArgonTime, Memory: newArgonMemory, Threads: newArgonThreads}
	return d.master(m.Passphrase)
}

// Masters are several sources as one: a rotation from one to another needs
// both.
type Masters []Master

// Keys implements Master. It fails only when every source does.
func (m Masters) Keys(derivations []Derivation) ([]*MasterKey, error) {
	var keys []*MasterKey
	var errs []error
	for _, source := range m {
		more, err := source.Keys(derivations)
		keys, errs = append(keys, more...), append(errs, err)
	}
	if len(keys) > 0 {
		return keys, nil
	}
	return nil, errors.Join(errs...)
}

// String implements Master.
func (m Masters) String() string {
	names := make([]string, len(m))
	for i, source := range m {
		names[i] = source.String()
	}
	return strings.Join(names, ", ")
}

// ReadPassphrase reads a file with a passphrase, without its line end. It
// returns ErrLooseMode when others than the owner can read or write it.
func ReadPassphrase(path string) (*Secret, error) {
	data, err := readPrivate(path, 0o077)
	if err != nil {
		return nil, fail("read passphrase", path, err, hintMaster(err))
	}
	defer clear(data)
	return NewSecret(bytes.TrimRight(data, "\r\n")), nil
}

// maxPrivate bounds a file of master keys or a passphrase.
const maxPrivate = 64 << 10

// readPrivate reads a file none of whose mode bits are in refuse, owned by us
// or root. The checks are on the open file, not on its name.
func readPrivate(path string, refuse fs.FileMode) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
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
	if info.Mode().Perm()&refuse != 0 {
		return nil, fmt.Errorf("%w: mode is %04o", ErrLooseMode, info.Mode().Perm())
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%w: its owner is user %d", ErrLooseMode, stat.Uid)
	}
	if info.Size() > maxPrivate {
		return nil, ErrTooLarge
	}
	data := make([]byte, info.Size())
	n, err := f.ReadAt(data, 0)
	if n < len(data) {
		clear(data)
		return nil, err
	}
	return data, nil
}

func hintMaster(err error) string {
	switch {
	case errors.Is(err, ErrLooseMode):
		return "chmod 0600 and chown it"
	case errors.Is(err, fs.ErrNotExist):
		return "'pqgw kms init' makes a master file"
	}
	return ""
}
