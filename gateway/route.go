package gateway

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/gateway/router"
)

// route is a config.Route made ready. It has one of upstream, mount, redirect
// and respond.
type route struct {
	name string
	to   string // name of the upstream or mount
	// verbatim: the route's own path is one that can be read in several ways.
	verbatim bool

	upstream *upstream
	mount    exchange.Handler
	redirect *redirect
	respond  *respond

	rewrite     *rewrite
	requestOps  *fieldOps
	responseOps *fieldOps
	timeouts    exchange.Timeouts
}

func (g *Gateway) compileRoute(t *config.Tree, r *config.Route, ups map[string]*upstream) (*route, error) {
	c := &route{name: cmp.Or(r.Name, routeName(&r.Match)), to: r.To}
	c.verbatim = !router.Plain([]byte(r.Match.Path))
	var err error
	if c.requestOps, err = compileOps(r.RequestHeaders, true); err != nil {
		return nil, err
	}
	if c.responseOps, err = compileOps(r.ResponseHeaders, false); err != nil {
		return nil, err
	}
	if from, to, ok := r.PathRewrite(); ok {
		c.rewrite = &rewrite{from: from, to: to}
	}
	switch {
	case r.Redirect != nil:
		c.redirect, err = compileRedirect(r.Redirect)
	case r.Respond != nil:
		c.respond, err = compileRespond(r.Respond)
	case g.mounted(r.To) != nil:
		c.mount = g.mounted(r.To)
	case ups[r.To] != nil:
		c.upstream = ups[r.To]
		limits := t.TimeoutsFor(r, c.upstream.config)
		c.timeouts = exchange.Timeouts{FirstByte: limits.FirstByte, Idle: limits.IdleStream}
	default:
		err = fmt.Errorf("there is no upstream %q", r.To)
	}
	return c, err
}

// routeName is what a route without a name is called: its host and path.
func routeName(m *config.Match) string {
	name := strings.Join(m.Host, ",") + m.Path
	return cmp.Or(name, "*")
}

// rewrite changes the beginning of a path. A nil one changes nothing.
type rewrite struct{ from, to string }

// apply changes the target on its way to the upstream. What stands for a prefix is
// whole segments.
func (r *rewrite) apply(f *flow) {
	if r == nil {
		return
	}
	target := f.x.Request.Target()
	rest, ok := bytes.CutPrefix(target, unsafeBytes(r.from))
	if !ok || len(rest) > 0 && rest[0] != '/' && rest[0] != '?' && r.from != "" {
		return
	}
	b := append(f.scratch[:0], r.to...)
	if len(b) > 0 && b[len(b)-1] == '/' && len(rest) > 0 && rest[0] == '/' {
		b = b[:len(b)-1]
	}
	b = append(b, rest...)
	if len(b) == 0 || b[0] != '/' {
		b = append(b, 0)
		copy(b[1:], b)
		b[0] = '/'
	}
	f.scratch = b
	f.x.Request.SetTarget(b)
}
