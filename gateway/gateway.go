package gateway

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/gateway/pool"
	"github.com/hanzoai/pqgw/telemetry"
)

// Options are what a gateway needs besides its configuration.
type Options struct {
	// Dial makes the dialer of one endpoint of an upstream. It is called for every
	// endpoint at each Swap, and does not connect. Required where the tree has
	// upstreams with endpoints.
	Dial func(tree *config.Tree, u *config.Upstream, e config.Endpoint) (exchange.Dialer, error)
	// DialRPC makes an upstream whose endpoints take ZAP calls, without connecting.
	// Required where the tree has one.
	DialRPC func(tree *config.Tree, u *config.Upstream) (exchange.RPCUpstream, error)
	// Mounts are upstreams in this process, by name; they win over upstreams of
	// the tree. `trace` is there without being named.
	Mounts map[string]exchange.Handler
	// Challenge answers an ACME issuer's http-01 on listeners in the clear, by
	// host and path, before any route is looked for; ok is false where no
	// answer is awaited, and the request goes on. Nil answers none.
	Challenge func(host, path string) (answer []byte, ok bool)
	// Metrics counts; nil makes a set of its own.
	Metrics *telemetry.Metrics
	// AccessLog gets a line for each exchange; nil is off.
	AccessLog *telemetry.AccessLog
}

// Gateway is an exchange.Handler made of a configuration. It is safe for
// concurrent use.
type Gateway struct {
	opts    Options
	metrics *telemetry.Metrics
	log     atomic.Pointer[telemetry.AccessLog]
	tree    atomic.Pointer[tree]
	workers *workers

	mu      sync.Mutex // of what follows
	ends    map[endpointKey]*pool.Endpoint
	retired map[*pool.Endpoint]struct{} // still with calls
	calls   map[string]*rpcUpstream     // upstreams that take calls
	closed  bool
	tlsSeen map[string][]seenTLS

	sweep context.CancelFunc
	swept chan struct{}
}

// sweepEvery is how often unused connections are looked at: well below the
// keep-alive times that servers have.
const sweepEvery = 2 * time.Second

// ErrClosed is returned by Swap after Close.
var ErrClosed = errors.New("gateway: closed")

// New makes a gateway that serves the tree, which config has resolved. Close ends
// it.
func New(t *config.Tree, o Options) (*Gateway, error) {
	if o.Metrics == nil {
		o.Metrics = telemetry.NewMetrics(telemetry.Build{})
	}
	g := &Gateway{
		opts: o, metrics: o.Metrics, workers: newWorkers(),
		ends: map[endpointKey]*pool.Endpoint{}, retired: map[*pool.Endpoint]struct{}{},
		swept: make(chan struct{}),
	}
	g.log.Store(o.AccessLog)
	if err := g.Swap(t); err != nil {
		g.workers.close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.sweep = cancel
	go g.sweeper(ctx)
	return g, nil
}

// Swap puts another configuration in force for exchanges to come. Endpoints that
// both have keep their connections; those of the old one alone are closed when
// their last exchange has ended. On an error nothing has changed.
func (g *Gateway) Swap(t *config.Tree) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	c, err := g.compile(t)
	if err != nil {
		return err
	}
	for key, e := range c.ends {
		if plan := c.plans[key]; g.ends[key] == e {
			e.Configure(plan.dialer, plan.settings)
		}
	}
	g.tree.Store(c.tree)
	for key, e := range g.ends {
		if c.ends[key] != e {
			e.Retire()
			g.retired[e] = struct{}{}
		}
	}
	g.ends = c.ends
	g.retireCalls(c.calls)
	return nil
}

// SetAccessLog puts another access log in place; nil is off.
func (g *Gateway) SetAccessLog(l *telemetry.AccessLog) { g.log.Store(l) }

// sweeper closes connections that nobody uses any more.
func (g *Gateway) sweeper(ctx context.Context) {
	defer close(g.swept)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, e := range g.endpoints() {
				e.Sweep(now)
			}
		}
	}
}

// endpoints are those in force, and of the retired ones those that still have
// something to end.
func (g *Gateway) endpoints() []*pool.Endpoint {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]*pool.Endpoint, 0, len(g.ends)+len(g.retired))
	for _, e := range g.ends {
		list = append(list, e)
	}
	for e := range g.retired {
		if e.Drained() {
			delete(g.retired, e)
		} else {
			list = append(list, e)
		}
	}
	return list
}

// Close ends the gateway: it waits until the exchanges that are under way have
// given their connections back, or until ctx ends, and cuts what is left then.
// Transports stop first; the error is the cause of ctx where it had to cut.
func (g *Gateway) Close(ctx context.Context) error {
	g.mu.Lock()
	closed := g.closed
	g.closed = true
	g.mu.Unlock()
	if closed {
		return nil
	}
	g.sweep()
	<-g.swept
	var wg sync.WaitGroup
	var cut atomic.Pointer[error]
	for _, e := range g.endpoints() {
		wg.Go(func() {
			if err := e.Close(ctx); err != nil {
				cut.Store(&err)
			}
		})
	}
	wg.Wait()
	g.mu.Lock()
	g.retireCalls(nil)
	g.mu.Unlock()
	g.workers.close()
	if err := cut.Load(); err != nil {
		return *err
	}
	return nil
}

// Serve implements exchange.Handler.
func (g *Gateway) Serve(x *exchange.Exchange) {
	f := newFlow(g, x)
	f.run()
	f.end()
}
