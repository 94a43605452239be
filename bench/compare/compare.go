// Package compare puts nginx, HAProxy, Caddy and us to the same work in the
// same run: each is one process on a CPU of its own, forwards to the same
// origin, and is asked by the same load generator, which share another. What is
// told is the gateway's CPU for each request or connection.
//
// nginx and HAProxy are Debian trixie's, in a folder (chroot, so as root); Caddy
// is built from its module. scripts/peers.sh installs them all. What is not
// there says so.
package compare

import (
	"context"
	"os"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/link"
	"github.com/hanzoai/pqgw/bench/load"
	"github.com/hanzoai/pqgw/handshake"
)

// Bench is what `bench compare` runs.
var Bench = bench.Bench{
	Name: "compare", Title: "How we stand beside nginx, HAProxy and Caddy", Order: 60,
	Quick: 40 * time.Second, Full: 10 * time.Minute, Linkable: true, Run: run,
}

func init() { bench.Register(Bench) }

const ours = "pqgw"

func run(ctx context.Context, s *bench.Session) error {
	l, err := newLab(ctx, s)
	if err != nil {
		return err
	}
	defer l.close()
	s.Note("%s One process and one CPU for each gateway; %s, %s; no access logs; the origin speaks HTTP/1.1 in the clear and is asked over kept connections.",
		l.Describe(), handshake.GroupName(load.Group), load.Auth)
	for _, p := range l.subjects {
		if p.version != "" {
			s.Note("%s", p.version)
		}
	}
	data, err := s.Measure(ctx, l.experiment())
	if err != nil {
		return err
	}
	load.MarkLimits(data)
	return nil
}

// lab is an origin, the gateways before it and the load generator.
type lab struct {
	*load.Lab
	session  *bench.Session
	dirs     []string // to remove
	origin   *load.Origin
	client   *load.Client
	subjects []*subject
}

// subject is a gateway that is compared.
type subject struct {
	name    string
	version string
	missing string // why it is not there
	process *bench.Process
	clear   string // address of HTTP/1.1 in the clear
	secure  string // address of h1, h2 and h3
	zap     string // address of ZAP in the clear; ours alone
}

func newLab(ctx context.Context, s *bench.Session) (*lab, error) {
	l := &lab{session: s}
	_, err := load.NewLab(ctx, s, func(base *load.Lab) error {
		l.Lab = base
		return l.start(ctx)
	})
	if err != nil {
		l.endOthers()
	}
	return l, err
}

func (l *lab) close() {
	l.endOthers()
	l.Close()
}

func (l *lab) endOthers() {
	for _, p := range l.subjects {
		if p.process != nil && p.name != ours {
			p.process.Stop() // before the folders that it has open are removed
		}
	}
	for _, dir := range l.dirs {
		_ = os.RemoveAll(dir)
	}
}

func (l *lab) start(ctx context.Context) error {
	var err error
	if l.origin, err = l.Origin(ctx, link.Origin); err != nil {
		return err
	}
	if l.client, err = l.Client(); err != nil {
		return err
	}
	us, err := l.startOurs(ctx)
	if err != nil {
		return err
	}
	l.subjects = append(l.subjects, us)
	for _, p := range others {
		x := &subject{name: p.name}
		l.subjects = append(l.subjects, x)
		if err := l.startOther(ctx, p, x); err != nil {
			if ctx.Err() != nil {
				return err
			}
			x.missing = err.Error()
		}
	}
	return nil
}

func (l *lab) startOurs(ctx context.Context) (*subject, error) {
	g, err := l.Forwarding(ctx, l.origin)
	if err != nil {
		return nil, err
	}
	reach := func(name string) string { return l.Reach(link.Gateway, g.Addrs[name])[0] }
	return &subject{name: ours, process: g.Process, clear: reach("clear"), secure: reach("tls"), zap: reach("zap")}, nil
}
