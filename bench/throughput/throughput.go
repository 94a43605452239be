// Package throughput measures what a request and a gigabyte cost on warm
// connections, by transport, size and direction, straight to a server and
// through the gateway. Handshakes are made before the account is opened.
//
// In a closed loop every worker asks as soon as it is answered. At a constant
// rate, the same for all, times run from the moment a request was due.
//
// Through the gateway the upstream is the origin over HTTP/1.1 in the clear
// whatever the client speaks, so that rows differ in the client's side alone.
package throughput

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/link"
	"github.com/hanzoai/pqgw/bench/load"
	"github.com/hanzoai/pqgw/handshake"
)

// Bench is what `bench throughput` runs.
var Bench = New(Filter{})

func init() { bench.Register(Bench) }

// New is the bench with a part of its rows.
func New(f Filter) bench.Bench {
	return bench.Bench{
		Name: "throughput", Title: "What a request and a gigabyte cost on warm connections", Order: 30,
		Quick: 38 * time.Second, Full: 12 * time.Minute, Linkable: true,
		Run: func(ctx context.Context, s *bench.Session) error { return run(ctx, s, f) },
	}
}

// Filter leaves rows out; what is empty leaves out none.
type Filter struct {
	Transports []string // by the names of load.Transports
	Sizes      []int    // bytes, up to load.MaxBody
}

// Check refuses a filter for what is not there.
func (f Filter) Check() error {
	for _, name := range f.Transports {
		if _, err := load.Find(name); err != nil {
			return err
		}
	}
	for _, size := range f.Sizes {
		if size < 0 || size > load.MaxBody {
			return fmt.Errorf("a body of %d bytes; it can have 0 to %d", size, load.MaxBody)
		}
	}
	return nil
}

func (f Filter) transports() []load.Transport {
	if len(f.Transports) == 0 {
		return load.Transports
	}
	var out []load.Transport
	for _, t := range load.Transports {
		if slices.Contains(f.Transports, t.Name) {
			out = append(out, t)
		}
	}
	return out
}

// Ways of a request.
const (
	direct  = "direct"
	through = "gateway"
	null    = "null server"
)

// Sizes of bodies, in bytes.
var (
	sizes      = []int{0, 1 << 10, 16 << 10, 64 << 10, 1 << 20}
	quickSizes = []int{1 << 10, 64 << 10, 1 << 20}
	linkSizes  = []int{1 << 10, 1 << 20} // what waits for the line, and what fills it
)

// Workers that ask at the same time. Of large bodies a few fill the line.
const (
	manyWorkers = 16
	fewWorkers  = 4
	largeBody   = 256 << 10
)

func run(ctx context.Context, s *bench.Session, f Filter) error {
	l, err := newLab(ctx, s)
	if err != nil {
		return err
	}
	defer l.Close()
	l.filter = f
	s.Note("%s Requests on warm connections, %s, %s; handshakes are not counted. Through the gateway the upstream is an origin over HTTP/1.1 in the clear; no access log is written.",
		l.Describe(), handshake.GroupName(load.Group), load.Auth)
	closed, err := s.Measure(ctx, l.closedLoop())
	if err != nil {
		return err
	}
	load.MarkLimits(closed)
	if l.Link() != nil && l.Link().Rate > 0 {
		s.Table(bounds(closed))
	}
	open := l.constantRate(closed)
	if len(f.Sizes) > 0 && !slices.Contains(f.Sizes, openBody) {
		return nil // its rate is half of what that size came to
	}
	_, err = s.Measure(ctx, open)
	return err
}

// lab is a server, a gateway, an origin behind it and a load generator.
type lab struct {
	*load.Lab
	session *bench.Session
	filter  Filter
	direct  *load.Origin // beside the gateway, on its CPU
	origin  *load.Origin // behind it, on the load's
	gateway *bench.Gateway
	client  *load.Client
}

func newLab(ctx context.Context, s *bench.Session) (*lab, error) {
	l := &lab{session: s}
	_, err := load.NewLab(ctx, s, func(base *load.Lab) error {
		l.Lab = base
		return l.start(ctx)
	})
	return l, err
}

func (l *lab) start(ctx context.Context) error {
	var err error
	if l.direct, err = l.Origin(ctx, link.Gateway); err != nil {
		return err
	}
	if l.origin, err = l.Origin(ctx, link.Origin); err != nil {
		return err
	}
	if l.gateway, err = l.Forwarding(ctx, l.origin); err != nil {
		return err
	}
	l.client, err = l.Client()
	return err
}
