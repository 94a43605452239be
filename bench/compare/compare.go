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
	"crypto/tls"
	"fmt"
	"os"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/identity"
	"github.com/hanzoai/pqgw/bench/link"
	"github.com/hanzoai/pqgw/bench/load"
	"github.com/hanzoai/pqgw/handshake"
)

// Bench is what `bench compare` runs.
var Bench = bench.Bench{
	Name: "compare", Title: "How we stand beside nginx, HAProxy and Caddy", Order: 60,
	Quick: 40 * time.Second, Full: 10 * time.Minute, Run: run,
}

func init() { bench.Register(Bench) }

const (
	auth  = "ECDSA P-256"
	group = tls.X25519MLKEM768
	ours  = "pqgw"
)

func run(ctx context.Context, s *bench.Session) error {
	l, err := newLab(ctx, s)
	if err != nil {
		return err
	}
	defer l.close()
	s.Note("%s One process and one CPU for each gateway; %s, %s; no access logs; the origin speaks HTTP/1.1 in the clear and is asked over kept connections.",
		l.site.Describe(), handshake.GroupName(group), auth)
	for _, p := range l.subjects {
		if p.version != "" {
			s.Note("%s", p.version)
		}
	}
	_, err = s.Measure(ctx, l.experiment())
	return err
}

// lab is an origin, the gateways before it and the load generator.
type lab struct {
	session  *bench.Session
	site     *load.Site
	dirs     []string // to remove
	id       identity.Identity
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
	site, err := load.NewSite(ctx, s)
	if err != nil {
		return nil, err
	}
	l := &lab{session: s, site: site}
	if err := l.start(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lab) close() {
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
	if l.id, err = identity.New(auth); err != nil {
		return err
	}
	settings := load.OriginSettings{Host: l.site.Host(), Identity: l.id, Group: group}
	if l.origin, err = load.StartOrigin(ctx, l.site.Spawn(link.Origin), settings); err != nil {
		return err
	}
	if l.client, err = load.StartClient(l.site.Spawn(link.Load)); err != nil {
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

// upstream is the origin's address as gateways reach it.
func (l *lab) upstream() string { return l.site.Reach(link.Origin, l.origin.Addrs["clear"])[0] }

func (l *lab) startOurs(ctx context.Context) (*subject, error) {
	dir, err := os.MkdirTemp("", "pqgw-bench-")
	if err != nil {
		return nil, err
	}
	l.dirs = append(l.dirs, dir)
	cert, key, err := l.id.Write(dir)
	if err != nil {
		return nil, err
	}
	g, err := l.site.Gateway(ctx, load.Listeners(l.site.Host(), cert, key, handshake.GroupName(group))+
		fmt.Sprintf("routes:\n  - {match: {path: /*}, to: origin}\nupstreams:\n  origin: {endpoints: [\"http://%s\"]}\n", l.upstream()))
	if err != nil {
		return nil, err
	}
	reach := func(name string) string { return l.site.Reach(link.Gateway, g.Addrs[name])[0] }
	return &subject{name: ours, process: g.Process, clear: reach("clear"), secure: reach("tls"), zap: reach("zap")}, nil
}
