package load

import (
	"context"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/link"
)

// Site is where processes run: on this machine over the loopback, or on the
// hosts of a link lab. What is measured has a CPU of its own; load and origin
// share another.
type Site struct {
	session *bench.Session
	lab     *link.Lab // nil on the loopback
}

// Link is the lab that the site lies in, nil on the loopback.
func (p *Site) Link() *link.Lab { return p.lab }

// NewSite finds the lab that the session asks for.
func NewSite(ctx context.Context, s *bench.Session) (*Site, error) {
	if s.Link == "" {
		return &Site{session: s}, nil
	}
	lab, err := link.Find(ctx, s.Link)
	return &Site{session: s, lab: lab}, err
}

// Describe tells readers where a bench ran.
func (p *Site) Describe() string {
	if p.lab == nil {
		return "Over the loopback."
	}
	return "Across the link lab " + p.lab.Name + ": " + p.lab.Describe() + "."
}

// CPU of a host's processes.
func (p *Site) CPU(host string) int {
	server, client := bench.Apart()
	if host == link.Gateway {
		return server
	}
	return client
}

// Do runs f as on a host: processes that it starts belong there.
func (p *Site) Do(host string, f func() error) error {
	if p.lab == nil {
		return f()
	}
	return p.lab.Do(host, f)
}

// Spawn starts this binary in a role on a host; see [StartOrigin] and [StartClient].
func (p *Site) Spawn(host string) func(role string, settings any) (*bench.Child, error) {
	return func(role string, settings any) (c *bench.Child, err error) {
		err = p.Do(host, func() error {
			c, err = p.session.SpawnOn(p.CPU(host), role, settings)
			return err
		})
		return c, err
	}
}

// Gateway starts the gateway on its host.
func (p *Site) Gateway(ctx context.Context, config string) (g *bench.Gateway, err error) {
	err = p.Do(link.Gateway, func() error {
		g, err = p.session.Gateway(ctx, p.CPU(link.Gateway), config)
		return err
	})
	return g, err
}

// Host is the address, without a port, to listen on.
func (p *Site) Host() string {
	if p.lab == nil {
		return "127.0.0.1"
	}
	return "0.0.0.0"
}

// Reach gives the addresses by which a listener on a host is reached: one for
// each link towards the gateway.
func (p *Site) Reach(host, listener string) []string {
	if p.lab == nil {
		return []string{listener}
	}
	return p.lab.Reach(host, listener)
}
