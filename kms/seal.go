package kms

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// A document is the one form of everything sealed: entries, exports and blobs.
//
//	"PQGWKMS1" | u32 length, head (JSON, in clear) | u32 length, payload | MAC (32) | SHA-256 (32)
//
// The payload is AES-256-GCM under a key of its own, which the head carries
// once per recipient, sealed with HPKE. Everything before the payload is its
// associated data. The MAC, over all before it, is of a key that only holders
// of the master have (zero in blobs, which anyone may make); the hash tells a
// torn file from a whole one without any key.
const (
	documentMagic = "PQGWKMS1"
	tailSize      = 2 * sha256.Size
	maxRecipients = 16
	gcmOverhead   = 12 + 16
)

// stanza is the payload's key for one recipient.
type stanza struct {
	To  string `json:"to"`
	Key []byte `json:"key"`
}

// head is the clear part of a document.
type head struct {
	Info
	Store string   `json:"store,omitempty"` // the store it belongs to
	Epoch uint32   `json:"epoch,omitempty"` // whose root's key made the MAC
	Audit uint64   `json:"audit,omitempty"` // the audit line that announced it
	Keys  []stanza `json:"keys,omitempty"`
}

// document is a decoded file. Its slices point into the file's bytes.
type document struct {
	head    head
	bound   []byte // all before the payload: its associated data
	payload []byte
	signed  []byte // all before the MAC
	mac     []byte
}

// sealDocument seals value to the recipients; mac may be nil.
func sealDocument(h head, value []byte, to []Recipient, mac func([]byte) []byte) ([]byte, error) {
	dek := make([]byte, 32)
	_, _ = rand.Read(dek)
	defer clear(dek)
	h.Keys = nil
	if h.Kind != KindPublic {
		for _, r := range to {
			sealed, err := hpke.Seal(r.key, hpke.HKDFSHA256(), hpke.AES256GCM(), keyInfo(&h), dek)
			if err != nil {
				return nil, fail("seal", h.Name, err, "")
			}
			h.Keys = append(h.Keys, stanza{To: r.ID(), Key: sealed})
		}
	}
	clearPart, err := json.Marshal(h)
	if err != nil {
		return nil, fail("seal", h.Name, err, "")
	}
	out := make([]byte, 0, len(documentMagic)+8+len(clearPart)+len(value)+gcmOverhead+tailSize)
	out = append(out, documentMagic...)
	out = append(binary.BigEndian.AppendUint32(out, uint32(len(clearPart))), clearPart...)
	if h.Kind == KindPublic {
		out = binary.BigEndian.AppendUint32(out, 0)
	} else if out, err = appendPayload(out, dek, value); err != nil {
		return nil, fail("seal", h.Name, err, "")
	}
	return appendTail(out, mac), nil
}

func appendPayload(out, dek, value []byte) ([]byte, error) {
	aead, err := newAEAD(dek)
	if err != nil {
		return nil, err
	}
	bound := len(out)
	out = binary.BigEndian.AppendUint32(out, uint32(len(value)+gcmOverhead))
	return aead.Seal(out, nil, value, out[:bound]), nil
}

func appendTail(out []byte, mac func([]byte) []byte) []byte {
	if mac == nil {
		out = append(out, make([]byte, sha256.Size)...)
	} else {
		out = append(out, mac(out)...)
	}
	sum := sha256.Sum256(out)
	return append(out, sum[:]...)
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// keyInfo binds a sealed key to what it is the key of.
func keyInfo(h *head) []byte {
	info := fmt.Appendf(nil, "pqgw kms 1 key\x00%s\x00%s\x00%s\x00", h.Store, h.Kind, h.Name)
	return binary.BigEndian.AppendUint64(info, h.Version)
}

// decodeDocument takes a file apart. It returns ErrCorrupt when the file is
// torn, which it finds before it looks at anything else.
func decodeDocument(data []byte) (*document, error) {
	if len(data) < len(documentMagic)+8+tailSize || string(data[:len(documentMagic)]) != documentMagic {
		return nil, ErrCorrupt
	}
	body := data[:len(data)-sha256.Size]
	if sha256.Sum256(body) != [sha256.Size]byte(data[len(body):]) {
		return nil, ErrCorrupt
	}
	d := &document{signed: body[:len(body)-sha256.Size], mac: body[len(body)-sha256.Size:]}
	rest := d.signed[len(documentMagic):]
	clearPart, rest, ok := cutPrefixed(rest)
	if !ok {
		return nil, ErrCorrupt
	}
	d.bound = d.signed[:len(documentMagic)+4+len(clearPart)]
	d.payload, rest, ok = cutPrefixed(rest)
	if !ok || len(rest) != 0 {
		return nil, ErrCorrupt
	}
	if err := json.Unmarshal(clearPart, &d.head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(d.head.Keys) > maxRecipients || !d.head.Kind.Valid() || len(d.head.Public) > MaxValue {
		return nil, ErrCorrupt
	}
	return d, nil
}

func cutPrefixed(b []byte) (part, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint32(b)
	b = b[4:]
	if uint64(n) > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// isWhole reports whether data is a document that is not torn.
func isWhole(data []byte) bool {
	_, err := decodeDocument(data)
	return err == nil
}

// open unseals the payload with whichever key fits.
func (d *document) open(keys []*MasterKey) (*Secret, error) {
	if d.head.Kind == KindPublic {
		return NewSecret(nil), nil
	}
	dek, err := d.unwrap(keys)
	if err != nil {
		return nil, err
	}
	defer clear(dek)
	aead, err := newAEAD(dek)
	if err != nil {
		return nil, err
	}
	value, err := aead.Open(nil, nil, d.payload, d.bound)
	if err != nil {
		return nil, ErrTampered
	}
	return NewSecret(value), nil
}

func (d *document) unwrap(keys []*MasterKey) ([]byte, error) {
	for _, s := range d.head.Keys {
		for _, k := range keys {
			if s.To != k.recipient.ID() {
				continue
			}
			dek, err := hpke.Open(k.private, hpke.HKDFSHA256(), hpke.AES256GCM(), keyInfo(&d.head), s.Key)
			if err != nil || len(dek) != 32 {
				return nil, ErrTampered
			}
			return dek, nil
		}
	}
	return nil, ErrNoKey
}

// sealedTo reports whether the payload is sealed to exactly these recipients.
func (d *document) sealedTo(to []Recipient) bool {
	if d.head.Kind == KindPublic {
		return true
	}
	if len(d.head.Keys) != len(to) {
		return false
	}
	for i, s := range d.head.Keys {
		if s.To != to[i].ID() {
			return false
		}
	}
	return true
}
