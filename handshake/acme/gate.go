package acme

import (
	"context"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
)

// gate is the storage as certmagic gets it: certmagic's jobs outlive its cache, and
// its maintenance takes no context, so that both could use the storage after its
// owner has closed it. Past close every use is refused, and none is under way.
type gate struct {
	certmagic.Storage

	ctx    context.Context // ends with close
	cancel context.CancelCauseFunc
	mu     sync.Mutex
	shut   bool
	uses   sync.WaitGroup
}

func newGate(s certmagic.Storage) *gate {
	g := &gate{Storage: s}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	return g
}

// close refuses uses from now on, ends those that wait, and waits for all.
func (g *gate) close() {
	g.mu.Lock()
	g.shut = true
	g.mu.Unlock()
	g.cancel(errClosed)
	g.uses.Wait()
}

// use begins a use, which the caller ends; its context ends with the gate, too.
func (g *gate) use(ctx context.Context) (within context.Context, end func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, nil, errClosed
	}
	g.uses.Add(1)
	if ctx == nil { // certmagic's, of a hello that is not of a connection
		ctx = context.Background()
	}
	within, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.ctx, func() { cancel(errClosed) })
	return within, func() {
		stop()
		cancel(nil)
		g.uses.Done()
	}, nil
}

// Lock implements certmagic.Locker.
func (g *gate) Lock(ctx context.Context, name string) error {
	ctx, end, err := g.use(ctx)
	if err != nil {
		return err
	}
	defer end()
	return g.Storage.Lock(ctx, name)
}

// TryLock implements certmagic.TryLocker, where the storage does not by waiting.
func (g *gate) TryLock(ctx context.Context, name string) (bool, error) {
	ctx, end, err := g.use(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	if s, ok := g.Storage.(certmagic.TryLocker); ok {
		return s.TryLock(ctx, name)
	}
	return true, g.Storage.Lock(ctx, name)
}

// RenewLockLease implements certmagic.LockLeaseRenewer, for storages that do.
func (g *gate) RenewLockLease(ctx context.Context, name string, life time.Duration) error {
	s, ok := g.Storage.(certmagic.LockLeaseRenewer)
	if !ok {
		return nil
	}
	ctx, end, err := g.use(ctx)
	if err != nil {
		return err
	}
	defer end()
	return s.RenewLockLease(ctx, name, life)
}

// Store implements certmagic.Storage.
func (g *gate) Store(ctx context.Context, key string, value []byte) error {
	ctx, end, err := g.use(ctx)
	if err != nil {
		return err
	}
	defer end()
	return g.Storage.Store(ctx, key, value)
}

// Load implements certmagic.Storage.
func (g *gate) Load(ctx context.Context, key string) ([]byte, error) {
	ctx, end, err := g.use(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return g.Storage.Load(ctx, key)
}

// Delete implements certmagic.Storage.
func (g *gate) Delete(ctx context.Context, key string) error {
	ctx, end, err := g.use(ctx)
	if err != nil {
		return err
	}
	defer end()
	return g.Storage.Delete(ctx, key)
}

// Exists implements certmagic.Storage.
func (g *gate) Exists(ctx context.Context, key string) bool {
	ctx, end, err := g.use(ctx)
	if err != nil {
		return false
	}
	defer end()
	return g.Storage.Exists(ctx, key)
}

// List implements certmagic.Storage.
func (g *gate) List(ctx context.Context, folder string, recursive bool) ([]string, error) {
	ctx, end, err := g.use(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return g.Storage.List(ctx, folder, recursive)
}

// Stat implements certmagic.Storage.
func (g *gate) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	ctx, end, err := g.use(ctx)
	if err != nil {
		return certmagic.KeyInfo{}, err
	}
	defer end()
	return g.Storage.Stat(ctx, key)
}
