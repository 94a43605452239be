package gateway

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/gateway/pool"
	"github.com/hanzoai/pqgw/telemetry"
)

// rpcProtocol is what log and metrics call the calls of ZAP RPC.
const rpcProtocol = "zap-rpc"

// rpcUpstream is an upstream that takes calls, with what it was made of.
type rpcUpstream struct {
	exchange.RPCUpstream
	endpoints []config.Endpoint
	rpcSettings
}

// rpcSettings are what its connections are made by; other settings are asked for with
// each call.
type rpcSettings struct {
	tls           int // see tlsNumber
	frame         config.Bytes
	maxIdle       int
	connect, idle time.Duration
}

// compileCallUpstream makes an upstream whose endpoints take calls, or goes on with
// the one that is like it.
func (g *Gateway) compileCallUpstream(t *config.Tree, c *compiled, up *upstream) error {
	u := up.config
	settings := rpcSettings{frame: t.Limits.FrameBytes, maxIdle: u.MaxIdle, connect: u.Timeouts.Connect, idle: u.Timeouts.Idle}
	if tls := t.UpstreamTLS(u); u.Endpoints[0].Scheme.Secure() {
		settings.tls, up.pq = g.tlsNumber(up.name, t, tls), string(tls.PQ)
	}
	made := g.calls[up.name]
	if made == nil || made.rpcSettings != settings || !slices.Equal(made.endpoints, u.Endpoints) {
		if g.opts.DialRPC == nil {
			return fmt.Errorf("upstream %q: no dialer for %s", up.name, u.Endpoints[0])
		}
		calls, err := g.opts.DialRPC(t, u)
		if err != nil {
			return fmt.Errorf("upstream %q: %w", up.name, err)
		}
		made = &rpcUpstream{RPCUpstream: calls, endpoints: u.Endpoints, rpcSettings: settings}
	}
	c.calls[up.name] = made
	up.calls = made.RPCUpstream
	return nil
}

// retireCalls puts other upstreams in the place of those that take calls; g.mu is
// held.
func (g *Gateway) retireCalls(next map[string]*rpcUpstream) {
	for name, old := range g.calls {
		if next[name] != old {
			old.Retire()
		}
	}
	g.calls = next
}

// callRule is a route that calls may take.
type callRule struct {
	route *route
	peers []string // any of them; nil for everyone
}

// callTable has the rules for the methods that some rule names, and for all others, the
// most specific first.
type callTable struct {
	byMethod map[uint32][]callRule
	others   []callRule
}

func (t *callTable) rules(method uint32) []callRule {
	if r, ok := t.byMethod[method]; ok {
		return r
	}
	return t.others
}

// compileCalls finds the routes on l that lead to upstreams that take calls. A
// rule that asks for what a call does not have (a host, a path, an HTTP method, a
// field) is for none.
func compileCalls(t *config.Tree, l *config.Listener, routes []*route) callTable {
	table := callTable{byMethod: map[uint32][]callRule{}}
	var rules []config.Rule
	for _, r := range t.Rules() {
		m := &r.Route.Match
		up := routes[r.Index].upstream
		if up == nil || up.calls == nil || r.Host != "" || m.Path != "" || len(m.Method) > 0 || len(m.Header) > 0 ||
			len(m.Listener) > 0 && !slices.Contains(m.Listener, l.Name) {
			continue
		}
		rules = append(rules, r)
		if m.RPCMethod != nil {
			table.byMethod[*m.RPCMethod] = nil
		}
	}
	for _, r := range rules {
		rule := callRule{route: routes[r.Index], peers: r.Route.Match.Peer}
		if only := r.Route.Match.RPCMethod; only != nil {
			table.byMethod[*only] = append(table.byMethod[*only], rule)
			continue
		}
		table.others = append(table.others, rule)
		for method := range table.byMethod {
			table.byMethod[method] = append(table.byMethod[method], rule)
		}
	}
	return table
}

// callRoute is the route of a call, nil where there is none; denied tells that one is
// there for other peers.
func (g *Gateway) callRoute(c *exchange.Conn, method uint32) (r *route, denied bool) {
	for _, rule := range g.tree.Load().listener(c.Listener).calls.rules(method) {
		if rule.peers == nil || c.Facts.PeerName != "" && slices.Contains(rule.peers, c.Facts.PeerName) {
			return rule.route, false
		}
		denied = true
	}
	return nil, denied
}

// RouteRPC implements exchange.RPCRouter.
func (g *Gateway) RouteRPC(c *exchange.Conn, method uint32) (exchange.RPCRoute, uint32) {
	r, denied := g.callRoute(c, method)
	switch {
	case r != nil:
		return exchange.RPCRoute{Upstream: r.upstream.calls, Timeouts: r.timeouts}, 0
	case denied:
		return exchange.RPCRoute{}, 403
	}
	return exchange.RPCRoute{}, 404
}

// RPCDone implements exchange.RPCRouter: calls are counted and logged as exchanges
// are, their method being its number.
func (g *Gateway) RPCDone(r *exchange.RPCRecord) {
	var name, to string
	if route, _ := g.callRoute(r.Conn, r.Method); route != nil {
		name, to = route.name, route.to
	}
	series := g.metrics.Requests.Series(r.Conn.Listener, rpcProtocol, name)
	series.Observe(int(r.Status), r.Duration)
	series.Bytes(r.In, r.Out)
	if facts := &r.Conn.Facts; facts.TLS() && !facts.PQ() {
		g.metrics.Listeners.Series(r.Conn.Listener).ClassicalBytes(facts, r.In+r.Out)
	}
	log := g.log.Load()
	if !log.Enabled() {
		return
	}
	line := telemetry.Record{
		Time: r.Start, Listener: r.Conn.Listener, Protocol: rpcProtocol, Client: r.Conn.ClientText, Remote: r.Conn.ClientText,
		TLS: r.Conn.Facts, Peer: r.Conn.Facts.PeerName, PQIdentity: r.Conn.Facts.PQIdentity, Method: strconv.AppendUint(nil, uint64(r.Method), 10), Route: name,
		Status: int(r.Status), BytesIn: r.In, BytesOut: r.Out, Duration: r.Duration, Upstream: to,
	}
	if r.Upstream != nil {
		line.Endpoint, line.UpstreamTLSGroup, line.UpstreamDuration = r.Upstream.ClientText, r.Upstream.Facts.Group, r.Duration
	}
	line.Error = callReason(r)
	log.Request(&line)
}

// callReason says in the log why a call failed on the way, as that of an exchange does.
func callReason(r *exchange.RPCRecord) string {
	switch {
	case r.Status == 0:
		return reasonClientGone
	case r.Err == nil:
		return ""
	case r.Upstream == nil && isUpstreamError(r.Err):
		return "upstream_" + pool.DialReason(r.Err)
	case errors.Is(r.Err, exchange.ErrTimeout):
		return reasonTimeout
	}
	return "rpc_failed"
}
