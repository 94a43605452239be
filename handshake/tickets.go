package handshake

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"
)

// TicketPeriod is how long one ticket key encrypts. A ticket is accepted until
// the end of the period after the one it was made in.
const TicketPeriod = time.Hour

// minTicketRoot is the least length of a root in bytes: that of the keys made from it.
const minTicketRoot = 32

// Tickets say where session ticket keys come from. The zero value is a random
// root of this process.
type Tickets struct {
	// Off turns tickets, and so resumption, off.
	Off bool
	// Roots are secrets of at least 32 bytes that a fleet shares. The first
	// makes the keys for new tickets; tickets of all are accepted, so a new
	// root is put behind the old one everywhere before it is put first.
	Roots [][]byte
}

// processRoot serves listeners without a shared root. Being the process's, it
// keeps tickets good across reloads of the configuration.
var processRoot = sync.OnceValue(func() []byte {
	root := make([]byte, minTicketRoot)
	rand.Read(root) // never fails: crypto/rand ends the program instead
	return root
})

// rotation keeps a configuration's ticket keys those of the present period. It
// has no goroutine: crypto/tls reads the keys after each hello, and the hello
// looks at the clock first.
type rotation struct {
	bound  [sha256.Size]byte
	config *tls.Config
	now    func() time.Time
	period atomic.Int64 // that the keys in force are for
	mu     sync.Mutex
	roots  [][]byte
}

func newRotation(t Tickets, bound [sha256.Size]byte, c *tls.Config, now func() time.Time) (*rotation, error) {
	if now == nil {
		now = time.Now
	}
	r := &rotation{bound: bound, config: c, now: now}
	return r, r.use(t.Roots)
}

// use puts other roots in force.
func (r *rotation) use(roots [][]byte) error {
	for _, root := range roots {
		if len(root) < minTicketRoot {
			return settingsError("tickets", "a root has %d bytes; it takes at least %d", len(root), minTicketRoot)
		}
	}
	if len(roots) == 0 {
		roots = [][]byte{processRoot()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.roots = roots
	r.set(r.present())
	return nil
}

// present is the number of the present period since 1970.
func (r *rotation) present() int64 { return r.now().Unix() / int64(TicketPeriod/time.Second) }

// freshen puts the keys of the present period in force if they are not.
func (r *rotation) freshen() {
	period := r.present()
	if r.period.Load() == period {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.period.Load() != period {
		r.set(period)
	}
}

// set is called with the lock held.
func (r *rotation) set(period int64) {
	r.config.SetSessionTicketKeys(r.keys(period))
	r.period.Store(period)
}

// keys are those of a period: the first encrypts, all decrypt. Beside the
// present period's are those of the one before, whose tickets are still about,
// and of the next, which a machine with a faster clock uses already.
func (r *rotation) keys(period int64) [][32]byte {
	var keys [][32]byte
	for _, root := range r.roots {
		for _, p := range [...]int64{period, period - 1, period + 1} {
			keys = append(keys, ticketKey(root, r.bound, p))
		}
	}
	return keys
}

// ticketKey derives one key by HKDF (RFC 5869) from a root, what the tickets
// are bound to, and a period's number since 1970.
func ticketKey(root []byte, bound [sha256.Size]byte, period int64) (key [32]byte) {
	info := append([]byte("pqgw session ticket v1"), bound[:]...)
	info = binary.BigEndian.AppendUint64(info, uint64(period))
	b, err := hkdf.Key(sha256.New, root, nil, string(info), len(key))
	if err != nil {
		panic("handshake: hkdf of a root whose length was checked: " + err.Error())
	}
	copy(key[:], b)
	return key
}

// binding is a digest of what a ticket vouches for. A ticket given under other
// settings does not decrypt: one from a listener without client certificates
// is worthless where they are demanded, one from a lax policy where a strict
// one rules.
func binding(r rules, s Settings) (digest [sha256.Size]byte) {
	h := sha256.New()
	strict := byte(0)
	if s.StrictSNI {
		strict = 1
	}
	h.Write([]byte{byte(r.pq), byte(r.min >> 8), byte(r.min), byte(s.ClientAuth), strict})
	for _, ca := range s.ClientCAs {
		sum := sha256.Sum256(ca.Raw)
		h.Write(sum[:])
	}
	h.Sum(digest[:0])
	return digest
}
