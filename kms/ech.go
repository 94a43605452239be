package kms

import (
	"context"
	"crypto/hpke"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/cryptobyte"
)

// How long the keys of Encrypted Client Hello (RFC 9849) live.
const (
	ECHPublished = 30 * 24 * time.Hour // after this a key is due for the next
	ECHAccepted  = 90 * 24 * time.Hour // after this it is accepted no more
	// ECHLead is how long a key is accepted before its record is published,
	// so that each gateway of the fleet has it when a client comes with it.
	ECHLead = time.Hour
)

// Numbers of RFC 9849, section 4, and of the HPKE registry (RFC 9180, section
// 7).
const (
	echVersion        = 0xfe0d
	kemX25519         = 0x0020
	kdfHKDFSHA256     = 0x0001
	aeadAES128GCM     = 0x0001
	aeadChaCha20      = 0x0003
	maxECHPublicName  = 255
	echHelloPadding   = 64 // maximum_name_length: names up to this look alike
	maxECHConfigBytes = 4096
)

// ECHKey is one key, laid out as tls.EncryptedClientHelloKey, to which it
// converts.
type ECHKey struct {
	Config      []byte // ECHConfig
	PrivateKey  []byte
	SendAsRetry bool
}

// echEntry is a key of a ring.
type echEntry struct {
	ID      uint8     `json:"id"`
	Created time.Time `json:"created"`
	Config  []byte    `json:"config"`
	Private []byte    `json:"private"`
}

// ECHRing are the keys of one public name, oldest first.
type ECHRing struct {
	PublicName string     `json:"public_name"`
	Entries    []echEntry `json:"keys"`
}

// NewECHConfig encodes an ECHConfig (RFC 9849, section 4): X25519, HKDF-SHA256,
// AES-128-GCM or ChaCha20-Poly1305.
func NewECHConfig(id uint8, publicKey []byte, publicName string) ([]byte, error) {
	if err := checkPublicName(publicName); err != nil {
		return nil, err
	}
	var b cryptobyte.Builder
	b.AddUint16(echVersion)
	b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
		b.AddUint8(id)
		b.AddUint16(kemX25519)
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(publicKey) })
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
			for _, aead := range []uint16{aeadAES128GCM, aeadChaCha20} {
				b.AddUint16(kdfHKDFSHA256)
				b.AddUint16(aead)
			}
		})
		b.AddUint8(echHelloPadding)
		b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(publicName)) })
		b.AddUint16LengthPrefixed(func(*cryptobyte.Builder) {}) // no extensions
	})
	return b.Bytes()
}

// checkPublicName wants what clients take: dot-separated LDH labels, the last
// of which is no number (RFC 9849, section 6.1.7).
func checkPublicName(name string) error {
	bad := name == "" || len(name) > maxECHPublicName
	labels := strings.Split(name, ".")
	for _, label := range labels {
		bad = bad || label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.ContainsFunc(label, func(r rune) bool {
				return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
			})
	}
	if _, err := strconv.ParseUint(labels[len(labels)-1], 0, 64); err == nil || bad {
		return fail("make ECH key", name, ErrName, "the public name is a host name: that of a certificate which the gateway has")
	}
	return nil
}

// ParseECHRing reads the value of an entry of KindECH.
func ParseECHRing(value *Secret) (ECHRing, error) {
	var ring ECHRing
	bad := value.Use(func(b []byte) error { return json.Unmarshal(b, &ring) }) != nil ||
		len(ring.Entries) == 0 || len(ring.Entries) > maxRing
	for _, e := range ring.Entries {
		bad = bad || len(e.Private) != 32 || len(e.Config) > maxECHConfigBytes || len(e.Config) < 5 || e.Config[4] != e.ID
	}
	if bad {
		return ECHRing{}, fail("read ECH keys", "", ErrCorrupt, "")
	}
	return ring, nil
}

// rotate adds a key and drops those that are accepted no more.
func (r ECHRing) rotate(now time.Time) (ECHRing, error) {
	out := ECHRing{PublicName: r.PublicName}
	used := make(map[uint8]bool)
	for _, e := range r.Entries {
		if now.Before(e.Created.Add(ECHAccepted)) {
			out.Entries, used[e.ID] = append(out.Entries, e), true
		}
	}
	if len(out.Entries) >= maxRing {
		return out, fail("rotate", "", ErrTooLarge, "it was rotated too often within 90 days")
	}
	id := make([]byte, 1)
	for _, _ = rand.Read(id); used[id[0]]; _, _ = rand.Read(id) {
	}
	kem, err := hpke.NewKEM(kemX25519)
	if err != nil {
		return out, err
	}
	private, err := kem.GenerateKey()
	if err != nil {
		return out, err
	}
	raw, err := private.Bytes()
	if err != nil {
		return out, err
	}
	config, err := NewECHConfig(id[0], private.PublicKey().Bytes(), r.PublicName)
	out.Entries = append(out.Entries, echEntry{ID: id[0], Created: now, Config: config, Private: raw})
	return out, err
}

// published is the newest key that the whole fleet has had time to read, or
// the oldest where all are new; nil for an empty ring.
func (r ECHRing) published(now time.Time) *echEntry {
	for i := len(r.Entries) - 1; i >= 0; i-- {
		if e := &r.Entries[i]; i == 0 || !now.Before(e.Created.Add(ECHLead)) {
			return e
		}
	}
	return nil
}

// Keys are those accepted at a time; clients that come with another are told
// of the one that is published.
func (r ECHRing) Keys(now time.Time) []ECHKey {
	published := r.published(now)
	var out []ECHKey
	for i := len(r.Entries) - 1; i >= 0; i-- {
		e := &r.Entries[i]
		if now.Before(e.Created.Add(ECHAccepted)) {
			out = append(out, ECHKey{Config: e.Config, PrivateKey: e.Private, SendAsRetry: e == published})
		}
	}
	return out
}

// Due reports whether the newest key has been published long enough.
func (r ECHRing) Due(now time.Time) bool {
	n := len(r.Entries)
	return n == 0 || !now.Before(r.Entries[n-1].Created.Add(ECHPublished))
}

// ConfigList is the ECHConfigList to publish.
func (r ECHRing) ConfigList(now time.Time) []byte {
	e := r.published(now)
	if e == nil {
		return nil
	}
	var b cryptobyte.Builder
	b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(e.Config) })
	return b.BytesOrPanic()
}

// HTTPSRecord is the record to publish for host, in the form of zone files (RFC
// 9460; RFC 9848 for ech). The ALPN names are left out when there are none.
func (r ECHRing) HTTPSRecord(host string, ttl time.Duration, alpn []string, now time.Time) string {
	record := fmt.Sprintf("%s. %d IN HTTPS 1 .", strings.TrimSuffix(host, "."), int(ttl/time.Second))
	if len(alpn) > 0 {
		record += fmt.Sprintf(" alpn=%q", strings.Join(alpn, ","))
	}
	return record + fmt.Sprintf(" ech=%q", base64.StdEncoding.EncodeToString(r.ConfigList(now)))
}

// String says how many keys there are and shows none.
func (r ECHRing) String() string {
	return fmt.Sprintf("%d ECH keys of %s", len(r.Entries), r.PublicName)
}

// GoString says how many keys there are and shows none.
func (r ECHRing) GoString() string { return r.String() }

// RotateECH adds a key to the ring of name, which it makes, with the public
// name given, when there is none. Unless forced it does so only when the
// newest key is due; it reports whether it did.
func (s *Store) RotateECH(ctx context.Context, name, publicName string, force bool) (rotated bool, err error) {
	_, err = s.Update(ctx, name, KindECH, "rotate", func(old *Secret) (*Secret, []byte, error) {
		ring := ECHRing{PublicName: publicName}
		if old != nil {
			if ring, err = ParseECHRing(old); err != nil {
				return nil, nil, err
			}
			if publicName != "" && publicName != ring.PublicName {
				return nil, nil, fail("rotate", name, errors.New("its public name is "+ring.PublicName), "keys of another public name take another entry")
			}
		}
		now := s.opts.Now().UTC()
		if !force && !ring.Due(now) {
			return nil, nil, nil
		}
		if ring, err = ring.rotate(now); err != nil {
			return nil, nil, err
		}
		value, err := json.Marshal(ring)
		rotated = err == nil
		return NewSecret(value), nil, err
	})
	return rotated && err == nil, err
}

// ECH reads the ring of name.
func (s *Store) ECH(ctx context.Context, name, purpose string) (ECHRing, error) {
	value, info, err := s.Get(ctx, name, purpose)
	if err != nil {
		return ECHRing{}, err
	}
	defer value.Close()
	if info.Kind != KindECH {
		return ECHRing{}, fail("read ECH keys", name, ErrKind, "it is "+string(info.Kind))
	}
	return ParseECHRing(value)
}
