package kms

import (
	"errors"
	"io/fs"
)

// Reasons that callers decide on; test with errors.Is.
var (
	// ErrNotFound means that the store has no entry of that name. It is also
	// an fs.ErrNotExist.
	ErrNotFound error = notFound{}
	// ErrExists means that a store, or an entry that must be new, is there.
	ErrExists = errors.New("already exists")
	// ErrCorrupt means that a file is torn or not in our format, and that no
	// earlier whole one was found.
	ErrCorrupt = errors.New("file is torn or corrupt")
	// ErrTampered means that a file is whole but was not written by a holder
	// of the master, or stands under a name that is not its own.
	ErrTampered = errors.New("file does not authenticate")
	// ErrNoKey means that none of the master keys at hand opens the store or
	// the file.
	ErrNoKey = errors.New("no master key at hand opens it")
	// ErrLooseMode means that a file with a secret can be read by others.
	ErrLooseMode = errors.New("file can be read by others than its owner")
	// ErrReadOnly means that the store was opened for reading, or with a
	// recovery key.
	ErrReadOnly = errors.New("store is open for reading only")
	// ErrName means that a name is empty, too long, or has a part that is
	// not allowed.
	ErrName = errors.New("name is not allowed")
	// ErrKind means that an entry is of another kind than was asked for.
	ErrKind = errors.New("entry is of another kind")
	// ErrTooLarge means that a value is larger than MaxValue.
	ErrTooLarge = errors.New("value is too large")
	// ErrBusy means that another process has held a lock for too long: it may
	// have been stopped.
	ErrBusy = errors.New("another process does not give the lock back")
	// ErrClosed means that a Secret, Signer or Store is used after Close.
	ErrClosed = errors.New("used after close")
)

type notFound struct{}

func (notFound) Error() string        { return "no such entry" }
func (notFound) Is(target error) bool { return target == fs.ErrNotExist }

// Error says what was being done to which entry or file when it failed, and
// what the operator may check. It never holds a secret.
type Error struct {
	Op   string // what was being done: "get", "open master", ...
	Name string // entry or file; may be empty
	Hint string // what to check; may be empty
	Err  error  // the reason
}

// Error implements error.
func (e *Error) Error() string {
	text := "kms: " + e.Op
	if e.Name != "" {
		text += " " + e.Name
	}
	text += ": " + e.Err.Error()
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

func fail(op, name string, err error, hint string) error {
	return &Error{Op: op, Name: name, Hint: hint, Err: err}
}
