package kms

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
)

const (
	headerFile     = "store.json"
	headerPrevious = "store.previous.json"
	headerVersion  = 1
)

// recipientEntry is a recipient as the header lists it.
type recipientEntry struct {
	ID         string      `json:"id"`
	Key        string      `json:"key"`
	Derivation *Derivation `json:"argon2id,omitempty"`
	// Recovery recipients can read all and write nothing: their key is kept
	// away, so nothing vouches to them for the header.
	Recovery bool `json:"recovery,omitempty"`
}

// header is the store's own file: two lines, this and its tail.
type header struct {
	Version    int              `json:"version"`
	Store      string           `json:"store"`
	Epoch      uint32           `json:"epoch"` // counts the roots; the newest makes the MACs
	Recipients []recipientEntry `json:"recipients"`
	// Target are the recipients that entries are sealed to. While a rotation
	// is under way the old recipient still opens the header, but no new entry.
	Target []string `json:"target"`
	// Pending means that entries sealed to others than Target may be left.
	Pending bool `json:"pending,omitempty"`
	// Roots is a blob of the secrets that MACs and the audit are keyed with,
	// one per epoch, sealed to Recipients.
	Roots []byte `json:"roots"`
}

// headerTail authenticates the header's line: a hash, which needs no key, and
// a MAC by the master key of each recipient that was at hand when it was
// written.
type headerTail struct {
	Sum  string            `json:"sum"`
	MACs map[string]string `json:"macs"`
}

// parsedHeader is a header with its recipients' keys.
type parsedHeader struct {
	header
	raw        []byte // the file
	line       []byte
	tail       headerTail
	recipients []Recipient
	target     []Recipient
}

func parseHeader(data []byte) (*parsedHeader, error) {
	line, tail, ok := bytes.Cut(data, []byte{'\n'})
	if !ok {
		return nil, ErrCorrupt
	}
	p := &parsedHeader{raw: data, line: line}
	if err := json.Unmarshal(tail, &p.tail); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	sum := sha256.Sum256(line)
	if p.tail.Sum != hex.EncodeToString(sum[:]) {
		return nil, ErrCorrupt
	}
	if err := json.Unmarshal(line, &p.header); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if p.Version != headerVersion {
		return nil, fmt.Errorf("%w: version %d is not known here", ErrCorrupt, p.Version)
	}
	return p, p.resolve()
}

func (p *parsedHeader) resolve() error {
	if len(p.Recipients) == 0 || len(p.Recipients) > maxRecipients || len(p.Target) == 0 || len(p.Target) > maxRecipients {
		return fmt.Errorf("%w: 1 to %d recipients are allowed", ErrCorrupt, maxRecipients)
	}
	byID := make(map[string]Recipient, len(p.Recipients))
	for _, e := range p.Recipients {
		r, err := ParseRecipient(e.Key)
		if err != nil {
			return err
		}
		if r.ID() != e.ID || (e.Derivation != nil && e.Derivation.check() != nil) {
			return fmt.Errorf("%w: recipient %s", ErrCorrupt, e.ID)
		}
		p.recipients, byID[e.ID] = append(p.recipients, r), r
	}
	for _, id := range p.Target {
		r, ok := byID[id]
		if !ok {
			return fmt.Errorf("%w: target %s is no recipient", ErrCorrupt, id)
		}
		p.target = append(p.target, r)
	}
	return nil
}

// readHeader reads the header of the store in dir, or the one before where it
// is torn.
func readHeader(dir string) (p *parsedHeader, torn bool, err error) {
	data, err := readLimited(filepath.Join(dir, headerFile))
	if err != nil {
		return nil, false, err
	}
	p, err = parseHeader(data)
	if !errors.Is(err, ErrCorrupt) {
		return p, false, err
	}
	data, previousErr := readLimited(filepath.Join(dir, headerPrevious))
	if previousErr != nil {
		return nil, true, err
	}
	p, previousErr = parseHeader(data)
	if previousErr != nil {
		return nil, true, err
	}
	return p, true, nil
}

// derivations are those of the passphrase recipients.
func (p *parsedHeader) derivations() []Derivation {
	var out []Derivation
	for _, e := range p.Recipients {
		if e.Derivation != nil {
			out = append(out, *e.Derivation)
		}
	}
	return out
}

// verify returns the first key that is a recipient's and vouches for the
// header; readOnly is set when only a recovery key opens it.
func (p *parsedHeader) verify(keys []*MasterKey) (readOnly bool, err error) {
	recovery := false
	for _, k := range keys {
		entry := p.entry(k.recipient.ID())
		if entry == nil {
			continue
		}
		mac, err := headerMAC(k, p.line)
		if err != nil {
			return false, err
		}
		given, _ := hex.DecodeString(p.tail.MACs[entry.ID])
		switch {
		case subtle.ConstantTimeCompare(mac, given) == 1:
			return false, nil
		case !entry.Recovery:
			return false, ErrTampered
		}
		recovery = true
	}
	if recovery {
		return true, nil
	}
	return false, ErrNoKey
}

func (p *parsedHeader) entry(id string) *recipientEntry {
	for i := range p.Recipients {
		if p.Recipients[i].ID == id {
			return &p.Recipients[i]
		}
	}
	return nil
}

func headerMAC(k *MasterKey, line []byte) ([]byte, error) {
	key, err := k.derive("header")
	if err != nil {
		return nil, err
	}
	defer clear(key)
	m := hmac.New(sha256.New, key)
	m.Write(line)
	return m.Sum(nil), nil
}

// writeHeader writes h, vouched for by keys.
func writeHeader(dir string, h header, keys []*MasterKey) error {
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(line)
	tail := headerTail{Sum: hex.EncodeToString(sum[:]), MACs: make(map[string]string)}
	for _, k := range keys {
		mac, err := headerMAC(k, line)
		if err != nil {
			return err
		}
		tail.MACs[k.recipient.ID()] = hex.EncodeToString(mac)
	}
	end, err := json.Marshal(tail)
	if err != nil {
		return err
	}
	data := append(append(append(line, '\n'), end...), '\n')
	whole := func(old []byte) bool { _, err := parseHeader(old); return err == nil }
	return replaceFile(filepath.Join(dir, headerFile), filepath.Join(dir, headerPrevious), data, whole)
}

// settle leaves p as both the header and the one before: a second copy,
// should the first be torn, and none that an old master opens.
func (p *parsedHeader) settle(dir string) error {
	for _, name := range []string{headerFile, headerPrevious} {
		path := filepath.Join(dir, name)
		if data, err := readLimited(path); err == nil && bytes.Equal(data, p.raw) {
			continue
		}
		if err := writeFile(path, p.raw); err != nil {
			return fail("write header", path, err, "")
		}
		step("header settled")
	}
	return nil
}

// roots are the secrets of a store's epochs: epoch e is at e-1.
type roots []*Secret

// maxEpochs bounds the list that a header may carry: a rotation a day for
// ten years.
const maxEpochs = 4096

// grow adds the root of a new epoch.
func (r roots) grow() roots {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return append(r[:len(r):len(r)], NewSecret(b))
}

func (r roots) seal(store string, to []Recipient) ([]byte, error) {
	value := make([]byte, 0, 32*len(r))
	defer func() { clear(value) }()
	for _, root := range r {
		_ = root.Use(func(b []byte) error { value = append(value, b...); return nil })
	}
	return sealDocument(head{Info: Info{Name: "roots", Kind: KindSecret}, Store: store}, value, to, nil)
}

// openRoots unseals the header's roots.
func (p *parsedHeader) openRoots(keys []*MasterKey) (roots, error) {
	d, err := decodeDocument(p.Roots)
	if err != nil {
		return nil, err
	}
	if d.head.Name != "roots" || d.head.Store != p.Store {
		return nil, ErrTampered
	}
	value, err := d.open(keys)
	if err != nil {
		return nil, err
	}
	defer value.Close()
	var out roots
	err = value.Use(func(b []byte) error {
		if len(b) != 32*int(p.Epoch) || p.Epoch == 0 || p.Epoch > maxEpochs {
			return ErrCorrupt
		}
		for ; len(b) > 0; b = b[32:] {
			out = append(out, NewSecret(append([]byte(nil), b[:32]...)))
		}
		return nil
	})
	return out, err
}

// key derives the key of one purpose in one epoch.
func (r roots) key(epoch uint32, purpose string) ([]byte, error) {
	if epoch == 0 || int(epoch) > len(r) {
		return nil, ErrNoKey
	}
	var out []byte
	err := r[epoch-1].Use(func(root []byte) (err error) {
		out, err = hkdf.Key(sha256.New, root, nil, "pqgw kms 1 root "+purpose, sha256.Size)
		return err
	})
	return out, err
}

// epochKeys are what one root is used for.
type epochKeys struct {
	entry *Secret // MACs of files
	audit *Secret // MACs of audit lines
}

func (r roots) derive() (map[uint32]epochKeys, error) {
	out := make(map[uint32]epochKeys, len(r))
	for e := uint32(1); int(e) <= len(r); e++ {
		entry, err := r.key(e, "entry")
		if err != nil {
			return nil, err
		}
		audit, err := r.key(e, "audit")
		if err != nil {
			return nil, err
		}
		out[e] = epochKeys{entry: NewSecret(entry), audit: NewSecret(audit)}
	}
	return out, nil
}

func (r roots) close() {
	for _, s := range r {
		_ = s.Close()
	}
}
