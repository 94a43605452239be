// Package pool keeps the connections to the endpoints of upstreams: kept-alive
// ones that carry one call in a stack, shared ones with a count of calls, new
// ones dialled no more often than waiting requests need. It chooses among
// endpoints and leaves alone those that cannot be reached.
package pool

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/telemetry"
)

// maxDials is how many dials to one endpoint may be under way: enough to fill a
// pool in a few round trips, few enough not to be a flood of handshakes.
const maxDials = 64

// Settings of an endpoint. They may change while it runs.
type Settings struct {
	// MaxIdle is the most unused connections that are kept; 0 keeps none.
	MaxIdle int
	// MaxConnections is the most connections in all; 0 is no limit.
	MaxConnections int
	// Connect is how long a dial, or waiting for a connection, may take; 0
	// never ends.
	Connect time.Duration
	// Idle is how long an unused connection is kept; 0 never ends.
	Idle time.Duration
}

// Endpoint is one address of an upstream with its connections. It is safe for
// concurrent use.
type Endpoint struct {
	// URL as in the configuration, for logs.
	URL string
	// Series counts what happens here; its InFlight is what balancing goes by.
	Series *telemetry.EndpointSeries

	upstream *telemetry.UpstreamSeries
	health   health

	mu       sync.Mutex
	dialer   exchange.Dialer
	settings Settings
	idle     []*Conn // exclusive ones, last used last
	shared   []*Conn
	conns    map[*Conn]struct{}
	waiters  waiters
	dialing  int
	dialled  uint64 // dials that were begun, ever
	closing  int    // connections that are being closed
	leases   int
	kind     kind
	retired  bool
	ending   bool // in Close: dials will be given up
	killed   bool
	drained  chan struct{} // closed when retired and nothing is left
	lastTLS  tls.CurveID

	ctx   context.Context // of dials; ends with kill
	stop  context.CancelFunc
	dials sync.WaitGroup
}

// kind is what the connections of an endpoint have turned out to be.
type kind uint8

const (
	unknown   kind = iota
	exclusive      // one call at a time
	multiplex      // several
)

// Conn is a connection of the pool, leased for one call.
type Conn struct {
	exchange.ClientConn
	// Group is the TLS group that it agreed on, 0 in the clear.
	Group tls.CurveID
	// Endpoint that it leads to.
	Endpoint *Endpoint

	calls  int
	dial   uint64    // its number
	used   time.Time // when it was last given back
	shared bool
	gone   bool // no more calls; closed with its last one
	served bool // has carried a call before
}

// Reused tells whether the connection had carried calls before this one, so that
// the other side may have given it up in the meantime.
func (c *Conn) Reused() bool { return c.served }

// NewEndpoint makes an endpoint without connections.
func NewEndpoint(url string, d exchange.Dialer, s Settings, up *telemetry.UpstreamSeries, series *telemetry.EndpointSeries) *Endpoint {
	e := &Endpoint{
		URL: url, Series: series, upstream: up, dialer: d, settings: s,
		conns: make(map[*Conn]struct{}), drained: make(chan struct{}),
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e
}

// Configure takes over other settings and a dialer for connections to come.
func (e *Endpoint) Configure(d exchange.Dialer, s Settings) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dialer, e.settings = d, s
	e.dialAsNeeded()
}

// TryAcquire leases a connection that is there, nil when a caller would have
// to wait for one.
func (e *Endpoint) TryAcquire() *Conn {
	e.mu.Lock()
	c := e.take(false)
	e.mu.Unlock()
	return c
}

// take finds a connection with room and leases it; a fresh one is not idle.
func (e *Endpoint) take(fresh bool) *Conn {
	for n := len(e.idle); n > 0 && !fresh; n = len(e.idle) {
		c := e.idle[n-1]
		e.idle[n-1] = nil
		e.idle = e.idle[:n-1]
		if c.Usable() {
			e.lease(c)
			return c
		}
		e.Series.Idle.Add(-1)
		e.forget(c)
	}
	for i := 0; i < len(e.shared); i++ {
		c := e.shared[i]
		if !c.Usable() {
			e.expel(c)
			i--
			continue
		}
		if c.calls < c.Capacity() {
			e.lease(c)
			return c
		}
	}
	return nil
}

// lease counts a call on a connection that is kept.
func (e *Endpoint) lease(c *Conn) {
	if c.calls++; c.calls == 1 {
		e.Series.Idle.Add(-1)
		e.Series.Active.Add(1)
	}
	e.leases++
}

// Release gives a leased connection back after its call has finished, and says
// whether it may carry more calls. now is the time, as the caller knows it.
func (e *Endpoint) Release(c *Conn, reusable bool, now time.Time) {
	e.mu.Lock()
	c.served, c.used = true, now
	e.leases--
	c.calls--
	if !reusable {
		c.gone = true
	}
	switch {
	case c.shared:
		e.releaseShared(c)
	default:
		e.releaseExclusive(c)
	}
	e.settle()
	e.mu.Unlock()
}

func (e *Endpoint) releaseExclusive(c *Conn) {
	e.Series.Active.Add(-1)
	// Whoever waits gets it at once, so now is the time to look.
	if c.gone = c.gone || e.waiters.len() > 0 && !c.Usable(); !c.gone {
		e.Series.Idle.Add(1)
		if e.serve(c); c.calls > 0 {
			return
		}
		if !e.retired && len(e.idle) < e.settings.MaxIdle {
			e.idle = append(e.idle, c)
			e.dialAsNeeded() // one who waits for a fresh one may have its place
			return
		}
		e.Series.Idle.Add(-1)
	}
	e.forget(c)
	e.dialAsNeeded()
}

func (e *Endpoint) releaseShared(c *Conn) {
	if c.calls == 0 {
		e.Series.Active.Add(-1)
		e.Series.Idle.Add(1)
	}
	if !c.gone && c.Usable() {
		e.serve(c)
		if c.calls == 0 && (e.retired || len(e.shared) > e.settings.MaxIdle) {
			e.expel(c)
		}
		return
	}
	e.expel(c)
	e.dialAsNeeded()
}

// expel takes a shared connection out; it is closed when its calls are done.
func (e *Endpoint) expel(c *Conn) {
	for i, have := range e.shared {
		if have == c {
			e.shared = append(e.shared[:i], e.shared[i+1:]...)
			break
		}
	}
	c.gone = true
	if c.calls == 0 {
		e.Series.Idle.Add(-1)
		e.forget(c)
	}
}

// forget drops a connection without calls and closes it, apart from the lock's
// holder: a TLS connection says goodbye first.
func (e *Endpoint) forget(c *Conn) {
	if _, ok := e.conns[c]; !ok {
		return
	}
	delete(e.conns, c)
	if e.killed { // and closed already, unless it has just come
		c.Close()
		return
	}
	e.closing++
	e.dials.Add(1)
	go func() {
		defer e.dials.Done()
		c.Close()
		e.mu.Lock()
		e.closing--
		e.settle()
		e.mu.Unlock()
	}()
}

// serve gives a connection to those who wait, as far as it has room.
func (e *Endpoint) serve(c *Conn) {
	for c.calls < c.room() {
		w := e.waiters.pop(c.freshness())
		if w == nil {
			return
		}
		e.lease(c)
		w.ready <- outcome{conn: c}
	}
}

func (c *Conn) room() int {
	if c.shared {
		return c.Capacity()
	}
	return 1
}

// freshness is the number of the dial that it comes from. A shared connection does
// not age: its reader knows when it has ended.
func (c *Conn) freshness() uint64 {
	switch {
	case c.shared:
		return anyDial
	case c.served:
		return someDial
	}
	return c.dial
}

// State is "up" or "ejected".
func (e *Endpoint) State(now time.Time) string { return e.health.state(now) }

// TLSGroup is what the last handshake agreed on, "" in the clear.
func (e *Endpoint) TLSGroup() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lastTLS == 0 {
		return ""
	}
	return handshake.GroupName(e.lastTLS)
}
