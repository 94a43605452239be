package link

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
)

// Up makes a lab. One of the same name that is up is an error; what a lab that
// does not come up has made is taken away again.
func Up(ctx context.Context, s Spec) (*Lab, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if err := allowed(); err != nil {
		return nil, err
	}
	there, err := namespaces(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	if len(there) > 0 {
		return nil, fmt.Errorf("%w: %s (take it down first: pqgw bench link down --name %s)", ErrExists, s.Name, s.Name)
	}
	l := &Lab{Spec: s}
	if err := l.make(ctx); err != nil {
		// Also when ctx has ended: what is half made must not stay.
		_, e := Down(context.WithoutCancel(ctx), s.Name)
		return nil, errors.Join(fmt.Errorf("link lab %s: %w", s.Name, err), e)
	}
	return l, nil
}

func (l *Lab) make(ctx context.Context) error {
	for _, step := range []func(context.Context) error{l.makeHosts, l.makeLinks, l.makeBack, l.makeNote, l.ready} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) makeHosts(ctx context.Context) error {
	for _, h := range l.hosts() {
		ns := l.Namespace(h)
		if err := ip(ctx, "netns", "add", ns); err != nil {
			return err
		}
		if err := ip(ctx, "-n", ns, "link", "set", "lo", "up"); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) makeLinks(ctx context.Context) error {
	for i := range l.Links {
		name := "link" + strconv.Itoa(i)
		if err := l.join(ctx, name, l.RTT > 0); err != nil {
			return err
		}
		for _, h := range []string{Load, Gateway} {
			if err := l.address(ctx, h, name, l.Addr(h, i).String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// join makes the two ends of a link between load and gateway.
func (l *Lab) join(ctx context.Context, name string, delayed bool) error {
	if !delayed {
		return l.pair(ctx, name, Load, Gateway)
	}
	return startWire(ctx, wireSettings{Load: l.Namespace(Load), Gateway: l.Namespace(Gateway), Interface: name, Delay: l.RTT / 2})
}

// pair makes a veth pair with one queue each way: all that arrives on an end is
// one CPU's work, as on a NIC with one queue, unless RPS spreads it.
func (l *Lab) pair(ctx context.Context, name, a, b string) error {
	return ip(ctx, "link", "add", "name", name, "netns", l.Namespace(a), "numrxqueues", "1", "numtxqueues", "1",
		"type", "veth", "peer", "name", name, "netns", l.Namespace(b), "numrxqueues", "1", "numtxqueues", "1")
}

// address gives an end its address, MTU and shape, and takes it up.
func (l *Lab) address(ctx context.Context, host, name, addr string) error {
	ns := l.Namespace(host)
	network := netip.PrefixFrom(netip.MustParseAddr(addr), 24).Masked().String()
	for _, args := range [][]string{
		{"-n", ns, "addr", "add", addr + "/24", "dev", name},
		// The length of the queue is what a TUN keeps for its reader, too.
		{"-n", ns, "link", "set", "dev", name, "mtu", strconv.Itoa(l.MTU), "txqueuelen", "10000", "up"},
		// The sysctl takes in a namespace only what the whole machine allows to
		// everybody; a route does not ask.
		{"-n", ns, "route", "replace", network, "dev", name, "proto", "kernel", "scope", "link", "src", addr, "congctl", l.Congestion},
	} {
		if err := ip(ctx, args...); err != nil {
			return err
		}
	}
	return l.shape(ctx, ns, name)
}

func (l *Lab) shape(ctx context.Context, ns, name string) error {
	if l.Rate == 0 {
		return nil
	}
	rate, burst, queue := strconv.FormatInt(int64(l.Rate), 10)+"bit", strconv.FormatInt(l.burst(), 10), strconv.FormatInt(l.queue(), 10)
	if l.Shaper == "tbf" {
		return tc(ctx, "-n", ns, "qdisc", "add", "dev", name, "root", "tbf", "rate", rate, "burst", burst, "limit", queue)
	}
	for _, args := range [][]string{
		{"-n", ns, "qdisc", "add", "dev", name, "root", "handle", "1:", "htb", "default", "1"},
		{"-n", ns, "class", "add", "dev", name, "parent", "1:", "classid", "1:1", "htb", "rate", rate, "burst", burst, "cburst", burst},
		{"-n", ns, "qdisc", "add", "dev", name, "parent", "1:1", "bfifo", "limit", queue},
	} {
		if err := tc(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// makeBack joins gateway and origin, with the rate of the links but no delay:
// the origin stands beside the gateway.
func (l *Lab) makeBack(ctx context.Context) error {
	if l.Hosts < 3 {
		return nil
	}
	if err := l.pair(ctx, "back", Gateway, Origin); err != nil {
		return err
	}
	if err := l.address(ctx, Gateway, "back", fmt.Sprintf("198.18.%d.1", backNet)); err != nil {
		return err
	}
	return l.address(ctx, Origin, "back", l.Addr(Origin, 0).String())
}

func (l *Lab) makeNote(ctx context.Context) error {
	return ip(ctx, "-n", l.Namespace(Load), "link", "set", "dev", "link0", "alias", l.note())
}
