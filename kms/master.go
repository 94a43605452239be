package kms

import (
	"crypto/hkdf"
	"crypto/hpke"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/argon2"
)

const (
	seedSize        = 32
	masterPrefix    = "pqgw-master-1:"
	recipientPrefix = "pqgw-recipient-1:"
)

// Recipient is the public half of a master key: what secrets are sealed to.
type Recipient struct {
	key hpke.PublicKey
	id  string
}

// ParseRecipient reads what Recipient.String wrote.
func ParseRecipient(text string) (Recipient, error) {
	encoded, ok := strings.CutPrefix(strings.TrimSpace(text), recipientPrefix)
	if !ok {
		return Recipient{}, fail("parse recipient", "", ErrCorrupt, "it starts with "+recipientPrefix)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return Recipient{}, fail("parse recipient", "", ErrCorrupt, "base64url without padding")
	}
	return newRecipient(raw)
}

func newRecipient(raw []byte) (Recipient, error) {
	key, err := hpke.MLKEM768X25519().NewPublicKey(raw)
	if err != nil {
		return Recipient{}, fail("parse recipient", "", fmt.Errorf("%w: %w", ErrCorrupt, err), "")
	}
	return recipientOf(key), nil
}

func recipientOf(key hpke.PublicKey) Recipient {
	sum := sha256.Sum256(key.Bytes())
	return Recipient{key: key, id: hex.EncodeToString(sum[:8])}
}

// String is the form that ParseRecipient reads; empty for the zero value.
func (r Recipient) String() string {
	if r.key == nil {
		return ""
	}
	return recipientPrefix + base64.RawURLEncoding.EncodeToString(r.key.Bytes())
}

// ID names the recipient in files: the start of the hash of its key. It is
// empty for the zero value.
func (r Recipient) ID() string { return r.id }

// MasterKey opens what is sealed to its Recipient.
type MasterKey struct {
	seed       *Secret
	private    hpke.PrivateKey
	recipient  Recipient
	derivation *Derivation // set when it comes from a passphrase
}

// NewMasterKey makes a fresh master key.
func NewMasterKey() (*MasterKey, error) {
	private, err := hpke.MLKEM768X25519().GenerateKey()
	if err != nil {
		return nil, fail("make master", "", err, "")
	}
	seed, err := private.Bytes()
	if err != nil {
		return nil, fail("make master", "", err, "")
	}
	return masterFromSeed(append([]byte(nil), seed...))
}

// masterFromSeed takes seed over and clears it.
func masterFromSeed(seed []byte) (*MasterKey, error) {
	private, err := hpke.MLKEM768X25519().NewPrivateKey(seed)
	if err != nil {
		clear(seed)
		return nil, fail("read master", "", ErrCorrupt, "32 bytes are needed")
	}
	return &MasterKey{
		seed:      NewSecret(seed),
		private:   private,
		recipient: recipientOf(private.PublicKey()),
	}, nil
}

// ParseMasterKey reads the text of a master key; it takes text over and clears
// it.
func ParseMasterKey(text []byte) (*MasterKey, error) {
	defer clear(text)
	encoded, ok := strings.CutPrefix(strings.TrimSpace(string(text)), masterPrefix)
	if !ok {
		return nil, fail("read master", "", ErrCorrupt, "it starts with "+masterPrefix)
	}
	seed, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(seed) != seedSize {
		clear(seed)
		return nil, fail("read master", "", ErrCorrupt, "32 bytes of base64url without padding are needed")
	}
	return masterFromSeed(seed)
}

// text is what ParseMasterKey reads.
func (k *MasterKey) text() []byte {
	out := []byte(masterPrefix)
	_ = k.seed.Use(func(seed []byte) error {
		out = base64.RawURLEncoding.AppendEncode(out, seed)
		return nil
	})
	return out
}

// Recipient is the public half.
func (k *MasterKey) Recipient() Recipient { return k.recipient }

// Close zeroes the seed.
func (k *MasterKey) Close() error { return k.seed.Close() }

// String names the key without showing it.
func (k *MasterKey) String() string { return "master " + k.recipient.ID() }

// GoString names the key without showing it.
func (k *MasterKey) GoString() string { return k.String() }

// Format names the key without showing it, whatever the verb.
func (k *MasterKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// MarshalJSON names the key without showing it.
func (k *MasterKey) MarshalJSON() ([]byte, error) { return []byte(`"` + k.String() + `"`), nil }

// derive returns a 32-byte key for one purpose.
func (k *MasterKey) derive(purpose string) ([]byte, error) {
	var out []byte
	err := k.seed.Use(func(seed []byte) (err error) {
		out, err = hkdf.Key(sha256.New, seed, nil, "pqgw kms 1 master "+purpose, sha256.Size)
		return err
	})
	return out, err
}

// Derivation is how a master key comes from a passphrase: Argon2id (RFC 9106).
// It stands in clear in the store's header.
type Derivation struct {
	Salt    []byte `json:"salt"`
	Time    uint32 `json:"time"`   // passes
	Memory  uint32 `json:"memory"` // KiB
	Threads uint8  `json:"threads"`
}

// Bounds on what a header may ask of us: it is read before it is
// authenticated.
const (
	maxArgonTime    = 16
	maxArgonMemory  = 1 << 20 // KiB: 1 GiB
	minArgonSalt    = 8
	maxArgonSalt    = 64
	newArgonTime    = 3 // the second recommended option of RFC 9106, section 4
	newArgonMemory  = 64 << 10
	newArgonThreads = 4
)

func (d *Derivation) check() error {
	bad := d.Time == 0 || d.Time > maxArgonTime || d.Memory < 8 || d.Memory > maxArgonMemory || d.Threads == 0 ||
		len(d.Salt) < minArgonSalt || len(d.Salt) > maxArgonSalt
	if bad {
		return fail("derive master", "", ErrCorrupt, "Argon2id parameters out of bounds")
	}
	return nil
}

// master derives the key of a passphrase.
func (d *Derivation) master(passphrase *Secret) (*MasterKey, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	var key *MasterKey
	err := passphrase.Use(func(p []byte) (err error) {
		key, err = masterFromSeed(argon2.IDKey(p, d.Salt, d.Time, d.Memory, d.Threads, seedSize))
		return err
	})
	if err != nil {
		return nil, err
	}
	key.derivation = d
	return key, nil
}
