package pqgw

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/kms"
)

const (
	// startPatience is how long a start or a reload waits for another writer of the
	// store: as long as the rotation of a large one takes.
	startPatience = time.Minute
	// keepEvery bounds how long a change in the store goes unnoticed: two small
	// files are looked at. What is timed is timed by the hour.
	keepEvery = 5 * time.Second
	// describeEvery is how often metrics learn of certificates that were renewed.
	describeEvery = 15 * time.Second
	// warnAgain is how often one certificate that ends soon is told of.
	warnAgain = time.Hour
	// endsSoon is the part of a certificate's life at whose end it should have
	// been renewed: issuers' clients begin at a third.
	endsSoon = 6
)

// ring is an entry of the store whose keys overlap, as it was last read.
type ring[T any] struct {
	name string
	info kms.Info
	keys T
}

// rings are the keys that the listeners of a configuration share with a fleet.
// A nil one stands for a configuration without a store.
type rings struct {
	store    *kms.Store
	rotation time.Duration
	tickets  ring[kms.TicketRing]
	ech      ring[kms.ECHRing] // its name is empty where no listener uses it
	public   string            // name for new ECH keys
}

// openRings reads the keys that the tree's listeners need, and makes what is
// not there.
func (s *Server) openRings(t *config.Tree) (*rings, error) {
	if t.KMS == nil {
		return nil, nil //nolint:nilnil // a tree without a store is usual
	}
	store, err := s.stores.store(t.KMS, false)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	r := &rings{store: store, rotation: t.KMS.TicketRotation, public: t.KMS.ECHPublicName}
	r.tickets.name = t.KMS.Tickets
	for _, l := range t.Listeners {
		if l.ECH {
			r.ech.name = t.KMS.ECH
		}
	}
	if _, err := r.read(ctx); err != nil && !errors.Is(err, kms.ErrNotFound) {
		return nil, err
	}
	misnamed := r.ech.name != "" && r.public != "" && r.public != r.ech.keys.PublicName
	if misnamed || r.due(time.Now()) { // rotate refuses what is misnamed
		if err := r.rotate(ctx); err != nil {
			return nil, err
		}
	}
	_, err = r.read(ctx)
	return r, err
}

// rotate adds keys where the newest are old enough. It waits for other writers.
func (r *rings) rotate(ctx context.Context) error {
	if _, err := r.store.RotateTicketRootAfter(ctx, r.tickets.name, r.rotation); err != nil {
		return fmt.Errorf("session-ticket roots: %w", err)
	}
	if r.ech.name == "" {
		return nil
	}
	if r.public == "" && !r.store.Has(r.ech.name) {
		return fmt.Errorf("%w: the store has no ECH keys %q; give kms.ech_public_name, or make them by 'pqgw kms ech rotate %s --public-name NAME'", ErrConfig, r.ech.name, r.ech.name)
	}
	if _, err := r.store.RotateECH(ctx, r.ech.name, r.public, false); err != nil {
		return fmt.Errorf("ECH keys: %w", err)
	}
	return nil
}

// due reports whether rotate has something to do, without asking the store.
func (r *rings) due(now time.Time) bool {
	roots := r.tickets.keys.Roots
	old := len(roots) == 0 || r.rotation > 0 && now.Sub(roots[len(roots)-1].Created) >= r.rotation
	return old || r.ech.name != "" && r.ech.keys.Due(now)
}

// read reads the entries that have another version than before.
func (r *rings) read(ctx context.Context) (changed bool, err error) {
	tickets, err := refresh(r.store, &r.tickets, func() (kms.TicketRing, error) {
		return r.store.TicketRoots(ctx, r.tickets.name, "tls")
	})
	if r.ech.name == "" {
		return tickets, err
	}
	ech, echErr := refresh(r.store, &r.ech, func() (kms.ECHRing, error) { return r.store.ECH(ctx, r.ech.name, "tls") })
	return tickets || ech, errors.Join(err, echErr)
}

// refresh reads one entry where it has another value.
func refresh[T any](store *kms.Store, r *ring[T], read func() (T, error)) (bool, error) {
	info, err := store.Stat(r.name)
	if err != nil || info.Same(r.info) {
		return false, err
	}
	keys, err := read()
	if err != nil {
		return false, err
	}
	r.info, r.keys = info, keys
	return true, nil
}

// roots are those for tickets at a time; none where there is no store.
func (r *rings) roots(now time.Time) [][]byte {
	if r == nil {
		return nil
	}
	return r.tickets.keys.At(now)
}

// echKeys are those of listeners with ech at a time.
func (r *rings) echKeys(now time.Time) []tls.EncryptedClientHelloKey {
	var keys []tls.EncryptedClientHelloKey
	for _, k := range r.ech.keys.Keys(now) {
		keys = append(keys, tls.EncryptedClientHelloKey(k))
	}
	return keys
}

// keeper keeps keys and figures of the configuration in force fresh, in a
// goroutine that close ends.
type keeper struct {
	s         *Server
	ctx       context.Context // of what it waits for
	stop      context.CancelFunc
	done      sync.WaitGroup
	described time.Time
	failed    string // what was last told, so that it is told once
	warned    map[string]time.Time
}

func newKeeper(s *Server) *keeper {
	k := &keeper{s: s, warned: map[string]time.Time{}}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

func (k *keeper) start() { k.done.Go(k.run) }

func (k *keeper) close() {
	k.stop()
	k.done.Wait()
}

func (k *keeper) run() {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-k.ctx.Done():
			return
		case now := <-tick.C:
			k.keep(now)
		}
	}
}

// keep leaves out a round where a reload or the drain is under way: the one
// reads all keys itself, the other needs none.
func (k *keeper) keep(now time.Time) {
	if !k.s.mu.TryLock() {
		return
	}
	defer k.s.mu.Unlock()
	st := k.s.state.Load()
	err := k.renew(st, now)
	told := ""
	if err != nil {
		told = err.Error()
	}
	if told != "" && told != k.failed {
		k.s.logger.Error("keys of the store cannot be read; those of before go on", "error", err)
	}
	k.failed = told
	if now.Sub(k.described) >= describeEvery {
		k.described = now
		k.s.metrics.SetCertificates(certificates(st))
		k.warn(st, now)
	}
}

// renew puts the keys of this moment in force. What cannot be rotated or read keeps
// nothing else from its time.
func (k *keeper) renew(st *state, now time.Time) error {
	r := st.rings
	if r == nil {
		return nil
	}
	var rotateErr error
	if r.due(now) {
		ctx, cancel := context.WithTimeout(k.ctx, keepEvery)
		rotateErr = r.rotate(ctx)
		cancel()
	}
	changed, err := r.read(k.ctx)
	err = errors.Join(rotateErr, err)
	if changed {
		k.s.logger.Info("keys of the store were rotated", "tickets", r.tickets.keys.String(), "ech", len(r.ech.keys.Entries))
	}
	roots := r.roots(now)
	again := !reflect.DeepEqual(roots, st.roots)
	st.roots = roots
	for _, l := range st.listeners {
		for _, srv := range l.servers() {
			if again {
				err = errors.Join(err, srv.SetTicketRoots(roots))
			}
			if l.config.ECH {
				srv.SetECHKeys(r.echKeys(now))
			}
		}
	}
	return err
}

// warn tells of certificates whose renewal is overdue: they serve on, but
// somebody should know.
func (k *keeper) warn(st *state, now time.Time) {
	for src := range st.sources.by {
		for _, c := range src.Describe() {
			left := c.NotAfter.Sub(now)
			if left > c.NotAfter.Sub(c.NotBefore)/endsSoon || now.Sub(k.warned[warnKey(c)]) < warnAgain {
				continue
			}
			k.warned[warnKey(c)] = now
			if left <= 0 {
				k.s.logger.Error("a certificate that is served has ended", "names", c.Names, "source", c.Source, "not_after", c.NotAfter)
			} else {
				k.s.logger.Warn("a certificate ends soon and was not renewed", "names", c.Names, "source", c.Source, "not_after", c.NotAfter)
			}
		}
	}
	for key, at := range k.warned {
		if now.Sub(at) >= warnAgain {
			delete(k.warned, key)
		}
	}
}

func warnKey(c handshake.CertInfo) string {
	return fmt.Sprint(c.Source, c.Location, c.Names, c.NotAfter.Unix())
}
