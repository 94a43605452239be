// Package pkcs11 signs with keys of a PKCS#11 token, such as an HSM: they never leave
// it. It speaks version 2.40 of the standard, and CKM_EDDSA of version 3.0.
//
// It is compiled in by the build tag pkcs11, since it needs cgo; without the tag [Open]
// gives [ErrNotBuilt].
package pkcs11

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"

	"github.com/hanzoai/pqgw/kms"
)

// Settings say which token of which module, and what opens it.
type Settings struct {
	// Module is the path of the PKCS#11 library.
	Module string
	// Token is the token's label; "" where Slot tells.
	Token string
	// Slot is the number of the slot that the token is in; it counts where Token is "".
	Slot uint
	// PIN of the normal user. A token without one needs none. One that the token refuses
	// is not tried again by this process, so that the token does not lock itself.
	PIN string
	// ID is the CKA_ID that keys must have besides their label; empty for any.
	ID []byte
	// Timeout bounds a signature, all tries in; 0 stands for 5 s.
	Timeout time.Duration
	// Observe, which may be nil, is told of each signature.
	Observe func(d time.Duration, err error)
}

// String names the token, and not what opens it.
func (s Settings) String() string {
	if s.Token != "" {
		return fmt.Sprintf("token %q", s.Token)
	}
	return fmt.Sprintf("token in slot %d", s.Slot)
}

// Keys are the keys of a token; a key's name is its label (CKA_LABEL), "" standing
// for any where the ID tells. They are safe for concurrent use.
type Keys interface {
	kms.Keys
	// Public is the public half of a key.
	Public(ctx context.Context, name string) (crypto.PublicKey, error)
	// SignerOf gives a signer by the key of that name whose public half this is: of
	// two of one name, as there are while a key is replaced, the certificate's.
	SignerOf(name, purpose string, public crypto.PublicKey) (kms.Signer, error)
	// Chain is the certificate that the token has for the key, in PEM, with what leads
	// from it to a root.
	Chain(ctx context.Context, name string) ([]byte, error)
	// Close ends the use of the token.
	Close() error
}

// What can be wrong. Errors of this package wrap one of these.
var (
	ErrNotBuilt  = errors.New("this build has no PKCS#11")
	ErrModule    = errors.New("the PKCS#11 module cannot be used")
	ErrToken     = errors.New("there is no such token")
	ErrPIN       = errors.New("the token does not take the PIN")
	ErrKey       = errors.New("there is no such key in the token")
	ErrAmbiguous = errors.New("the token has more than one such key")
	ErrChain     = errors.New("the token has no certificate for the key")
	ErrOperation = errors.New("the token failed")
	ErrBusy      = errors.New("the token gave no answer in time")
)

// Error is what went wrong with a token.
type Error struct {
	Token string // as Settings names it
	Kind  error  // one of the errors above
	Err   error  // what the module said, nil for nothing
	Hint  string // for the operator; may be empty
}

// Error says all of it.
func (e *Error) Error() string {
	text := e.Token + ": " + e.Kind.Error()
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Unwrap gives the kind and what the module said.

func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}
