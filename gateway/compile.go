package gateway

import (
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/exchange/mount"
	"github.com/hanzoai/pqgw/gateway/pool"
	"github.com/hanzoai/pqgw/gateway/router"
	"github.com/hanzoai/pqgw/telemetry"
)

// tree is a configuration made ready to serve. It is not changed once in force.
type tree struct {
	listeners map[string]*listener
	other     *listener // for exchanges of a listener that the tree does not have
	upstreams []*upstream
	routes    int
}

// listener is what is served on one of them.
type listener struct {
	name   string
	routes *router.Table[*binding]
	calls  callTable
	none   binding  // of requests that no route matches
	proof  binding  // of challenges that are answered
	https  *binding // redirects all to https; nil where routes rule
}

func (t *tree) listener(name string) *listener {
	if l := t.listeners[name]; l != nil {
		return l
	}
	return t.other
}

// binding is a route on a listener, with its counters.
type binding struct {
	route    *route
	listener string
	counters [len(protocols)]atomic.Pointer[telemetry.RequestSeries]
}

var protocols = [...]exchange.Protocol{exchange.HTTP1, exchange.HTTP2, exchange.HTTP3, exchange.ZAP}

// series is made at first use: of ten thousand routes on three protocols most
// are never asked for.
func (b *binding) series(m *telemetry.Metrics, p exchange.Protocol) *telemetry.RequestSeries {
	s := b.counters[p].Load()
	if s == nil {
		s = m.Requests.Series(b.listener, p.String(), b.route.name)
		b.counters[p].Store(s)
	}
	return s
}

// upstream is a set of endpoints that are all alike.
type upstream struct {
	name      string
	pq        string // policy towards it, "" where no endpoint has TLS
	endpoints []*pool.Endpoint
	series    *telemetry.UpstreamSeries
	config    *config.Upstream
	retries   int
	calls     exchange.RPCUpstream // nil where the endpoints take exchanges
}

// endpointKey tells which endpoints of two configurations are the same: those
// whose connections serve for both.
type endpointKey struct {
	upstream, url string
	tls           int // which of the TLS settings seen under that name and URL
}

// plan is what an endpoint is to be, put in force once the whole tree is good.
type plan struct {
	dialer   exchange.Dialer
	settings pool.Settings
}

// compiled is a tree with the endpoints that it uses, old ones among them.
type compiled struct {
	tree  *tree
	ends  map[endpointKey]*pool.Endpoint
	plans map[endpointKey]plan
	calls map[string]*rpcUpstream
}

// compile makes the tree ready beside the one in force, and changes nothing of
// that. It reports all problems at once.
func (g *Gateway) compile(t *config.Tree) (*compiled, error) {
	c := &compiled{
		tree:  &tree{listeners: map[string]*listener{}, routes: len(t.Routes)},
		ends:  map[endpointKey]*pool.Endpoint{},
		plans: map[endpointKey]plan{},
		calls: map[string]*rpcUpstream{},
	}
	ups, err := g.compileUpstreams(t, c)
	if err != nil {
		return nil, err
	}
	routes := make([]*route, len(t.Routes))
	var problems []error
	for i, r := range t.Routes {
		if routes[i], err = g.compileRoute(t, r, ups); err != nil {
			problems = append(problems, fmt.Errorf("route %q: %w", r.Name, err))
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	for _, l := range t.Listeners {
		c.tree.listeners[l.Name] = bindListener(t, l, routes)
	}
	c.tree.other = bindListener(t, &config.Listener{}, routes)
	return c, nil
}

func bindListener(t *config.Tree, l *config.Listener, routes []*route) *listener {
	b := &listener{
		name: l.Name, none: binding{route: &route{}, listener: l.Name},
		proof: binding{route: &route{name: "acme-challenge"}, listener: l.Name},
	}
	if l.RedirectHTTPS {
		b.https = &binding{route: redirectHTTPS, listener: l.Name}
	}
	bound := map[int]*binding{} // a route with several hosts is one binding
	b.routes = router.Build(t, l, func(r config.Rule) *binding {
		if bound[r.Index] == nil {
			bound[r.Index] = &binding{route: routes[r.Index], listener: l.Name}
		}
		return bound[r.Index]
	})
	b.calls = compileCalls(t, l, routes)
	return b
}

func (g *Gateway) compileUpstreams(t *config.Tree, c *compiled) (map[string]*upstream, error) {
	ups := make(map[string]*upstream, len(t.Upstreams))
	var problems []error
	for name, u := range t.Upstreams {
		if g.mounted(name) != nil {
			continue
		}
		up, err := g.compileUpstream(t, c, name, u)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		ups[name] = up
		c.tree.upstreams = append(c.tree.upstreams, up)
	}
	return ups, errors.Join(problems...)
}

func (g *Gateway) compileUpstream(t *config.Tree, c *compiled, name string, u *config.Upstream) (*upstream, error) {
	up := &upstream{name: name, config: u, retries: u.Retries, series: g.metrics.Upstreams.Series(name)}
	settings := pool.Settings{
		MaxIdle: u.MaxIdle, MaxConnections: u.MaxConnections,
		Connect: u.Timeouts.Connect, Idle: u.Timeouts.Idle,
	}
	if len(u.Endpoints) > 0 && u.Endpoints[0].Scheme.RPC() {
		return up, g.compileCallUpstream(t, c, up)
	}
	for _, e := range u.Endpoints {
		if g.opts.Dial == nil {
			return nil, fmt.Errorf("upstream %q: no dialer for %s", name, e)
		}
		d, err := g.opts.Dial(t, u, e)
		if err != nil {
			return nil, fmt.Errorf("upstream %q: endpoint %s: %w", name, e, err)
		}
		key := endpointKey{upstream: name, url: e.String()}
		if e.Scheme.Secure() {
			key.tls = g.tlsNumber(name, t, t.UpstreamTLS(u))
			up.pq = string(t.UpstreamTLS(u).PQ)
		}
		end := g.ends[key]
		if end == nil {
			end = c.ends[key] // named twice
		}
		if end == nil {
			end = pool.NewEndpoint(key.url, d, settings, up.series, g.metrics.Endpoints.Series(name, key.url))
		}
		c.ends[key], c.plans[key] = end, plan{d, settings}
		up.endpoints = append(up.endpoints, end)
	}
	return up, nil
}

// seenTLS are TLS settings with the store that they draw on.
type seenTLS struct {
	*config.TLS
	dir    config.File
	master config.Master
}

// tlsNumber numbers the TLS settings that an upstream has had, so that
// connections made under other ones are not used again.
func (g *Gateway) tlsNumber(upstream string, t *config.Tree, s *config.TLS) int {
	seen := seenTLS{TLS: s}
	if k := t.StoreFor(s); k != nil {
		seen.dir, seen.master = k.Dir, k.Master
	}
	for i, have := range g.tlsSeen[upstream] {
		if reflect.DeepEqual(have, seen) {
			return i
		}
	}
	if g.tlsSeen == nil {
		g.tlsSeen = map[string][]seenTLS{}
	}
	g.tlsSeen[upstream] = append(g.tlsSeen[upstream], seen)
	return len(g.tlsSeen[upstream]) - 1
}

// mounted is the handler of that name in this process, nil when there is none.
func (g *Gateway) mounted(name string) exchange.Handler {
	if h := g.opts.Mounts[name]; h != nil {
		return h
	}
	if name == config.Trace {
		return mount.Trace()
	}
	return nil
}
