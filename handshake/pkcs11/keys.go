//go:build pkcs11

package pkcs11

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"

	p11 "github.com/miekg/pkcs11"

	"github.com/hanzoai/pqgw/kms"
)

// defaultTimeout bounds a signature where the settings do not.
const defaultTimeout = 5 * time.Second

// keys is a use of a token.
type keys struct {
	s     Settings
	t     *token
	ctx   context.Context //nolint:containedctx // ends the calls at Close
	close context.CancelFunc
}

// Open logs in to the token. Errors are *[Error]; one that wraps [ErrPIN] says that the
// PIN is wrong, and that it is not tried again.
func Open(s Settings) (Keys, error) {
	if s.Timeout <= 0 {
		s.Timeout = defaultTimeout
	}
	k := &keys{s: s}
	opened := make(chan error, 1)
	if !within(s.Timeout, func() {
		t, err := acquire(s)
		k.t = t
		opened <- err
	}) {
		return nil, &Error{Token: s.String(), Kind: ErrBusy, Hint: "the module " + s.Module + " hangs; only a restart ends that"}
	}
	if err := <-opened; err != nil {
		return nil, err
	}
	k.ctx, k.close = context.WithCancel(context.Background())
	return k, nil
}

// Close ends the use of the token; calls under way are waited for.
func (k *keys) Close() error {
	if k.ctx.Err() != nil {
		return nil //nolint:nilerr // it was closed before
	}
	k.close()
	if !within(closePatience, func() { k.t.m.release(k.t) }) {
		return k.fail(ErrBusy, nil, "the module "+k.s.Module+" hangs and is left as it is")
	}
	return nil
}

// bounded is ctx until the timeout or Close.
func (k *keys) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, k.s.Timeout)
	stop := context.AfterFunc(k.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

func (k *keys) fail(kind, err error, hint string) error {
	return &Error{Token: k.s.String(), Kind: kind, Err: err, Hint: hint}
}

// named describes a key for messages.
func (k *keys) named(name string) string {
	switch {
	case name == "":
		return fmt.Sprintf("id %x", k.s.ID)
	case len(k.s.ID) > 0:
		return fmt.Sprintf("label %q and id %x", name, k.s.ID)
	}
	return fmt.Sprintf("label %q", name)
}

// private is a private key in the token.
type private struct {
	object p11.ObjectHandle
	id     []byte
	public crypto.PublicKey // nil where the token does not show it
}

// Public gives the key's public half.
func (k *keys) Public(ctx context.Context, name string) (crypto.PublicKey, error) {
	ctx, cancel := k.bounded(ctx)
	defer cancel()
	return call(ctx, k.t, func(s session) (crypto.PublicKey, error) {
		found, err := k.find(s, name)
		if err != nil {
			return nil, err
		}
		if len(found) > 1 {
			return nil, k.fail(ErrAmbiguous, errors.New(k.named(name)), fmt.Sprintf("name one by its id: %x, %x", found[0].id, found[1].id))
		}
		if found[0].public == nil {
			return nil, k.hidden(name)
		}
		return found[0].public, nil
	})
}

func (k *keys) hidden(name string) error {
	return k.fail(ErrKey, errors.New(k.named(name)+" has no public half there that can be read"), "put the public key or the certificate beside it, with the same id")
}

// Signer gives the only key of that name.
func (k *keys) Signer(ctx context.Context, name, purpose string) (kms.Signer, error) {
	public, err := k.Public(ctx, name)
	if err != nil {
		return nil, err
	}
	return k.SignerOf(name, purpose, public)
}

// SignerOf looks for the key at once, so that one that is not there is told of early.
func (k *keys) SignerOf(name, _ string, public crypto.PublicKey) (kms.Signer, error) {
	s := &signer{k: k, name: name, public: public}
	ctx, cancel := k.bounded(k.ctx)
	defer cancel()
	if _, err := call(ctx, k.t, s.object); err != nil {
		return nil, err
	}
	return s, nil
}

// find gives the private keys of a name, at least one.
func (k *keys) find(s session, name string) ([]private, error) {
	want := []*p11.Attribute{p11.NewAttribute(p11.CKA_CLASS, p11.CKO_PRIVATE_KEY)}
	if name != "" {
		want = append(want, p11.NewAttribute(p11.CKA_LABEL, name))
	}
	if len(k.s.ID) > 0 {
		want = append(want, p11.NewAttribute(p11.CKA_ID, k.s.ID))
	}
	objects, err := s.all(want...)
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 {
		return nil, k.fail(ErrKey, errors.New(k.named(name)), "pkcs11-tool --login --list-objects shows what there is")
	}
	found := make([]private, len(objects))
	for i, o := range objects {
		found[i] = private{object: o, id: s.value(o, p11.CKA_ID)}
		found[i].public = s.public(o, found[i].id)
	}
	return found, nil
}

// all finds the objects with these attributes.
func (s session) all(want ...*p11.Attribute) ([]p11.ObjectHandle, error) {
	const many = 256
	if err := s.FindObjectsInit(s.handle, want); err != nil {
		return nil, err
	}
	objects, _, err := s.FindObjects(s.handle, many)
	return objects, errors.Join(err, s.FindObjectsFinal(s.handle))
}

// value is an attribute of an object, nil where it has none or does not show it.
func (s session) value(o p11.ObjectHandle, attribute uint) []byte {
	got, err := s.GetAttributeValue(s.handle, o, []*p11.Attribute{p11.NewAttribute(attribute, nil)})
	if err != nil || len(got) == 0 {
		return nil
	}
	return got[0].Value
}
