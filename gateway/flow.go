package gateway

import (
	"crypto/tls"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/gateway/pool"
	"github.com/hanzoai/pqgw/gateway/router"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/telemetry"
)

// flow is one exchange on its way through the gateway. Flows are pooled: what is
// needed once an exchange lies here, so that nothing is allocated for it.
type flow struct {
	g *Gateway
	x *exchange.Exchange
	t *tree
	b *binding // the route that won, or the listener's own for none

	// The request as it was asked for; rules may change what is sent on.
	host, path, authority, method []byte
	client                        string
	id                            []byte
	idKept                        bool

	status   int    // of the answer, 0 while there is none
	reason   string // why it did not go well
	err      error  // with what happened
	endpoint *pool.Endpoint
	group    tls.CurveID // TLS group of the upstream's connection, 0 in the clear
	sent     time.Time   // when the request was first sent on; zero for x.Start
	ended    time.Time   // when the upstream had ended; zero when not asked

	attempts
	upload uploader
	mount  mountResponder
	text   exchange.Bytes

	hostBuf [router.MaxHost + 1]byte
	scratch []byte
	query   router.Query
}

var flows = sync.Pool{New: func() any {
	f := &flow{id: make([]byte, 0, 128), scratch: make([]byte, 0, 512)}
	f.upload.init(f)
	return f
}}

func newFlow(g *Gateway, x *exchange.Exchange) *flow {
	f := flows.Get().(*flow) //nolint:forcetypeassert // nothing else is put there
	f.g, f.x, f.t = g, x, g.tree.Load()
	h := &x.Request
	f.authority, f.method = h.Authority(), h.MethodName()
	f.path = h.Path()
	f.host = router.NormalizeHost(f.hostBuf[:0], f.authority)
	f.idKept = false
	f.identify()
	return f
}

// run decides and carries the exchange out.
func (f *flow) run() {
	l := f.t.listener(f.x.Conn.Listener)
	f.b = &l.none
	if r := f.x.Refusal; r != nil {
		f.refuse(r)
		return
	}
	if !f.x.Conn.Secure && f.challenge(l) {
		return
	}
	resolved := f.resolvedPath()
	if router.HasDotSegment(resolved) {
		f.refuse(refuseDotSegments)
		return
	}
	if f.x.Conn.Secure && l.routes.Misdirected(f.host, f.x.Conn.Facts.SNI) {
		f.refuse(exchange.RefuseMisdirect)
		return
	}
	if l.https != nil && len(f.host) > 0 {
		f.b = l.https
		f.act(l.https.route)
		return
	}
	f.query = router.Query{Host: f.host, Path: f.path, Request: &f.x.Request, Peer: f.x.Conn.Facts.PeerName}
	b, ok := l.routes.Lookup(&f.query)
	if !ok {
		r := f.x.Absorb()
		if r == nil {
			r = refuseNoRoute
		}
		f.refuse(r)
		return
	}
	if string(resolved) != string(f.path) && !b.route.verbatim && !f.leadsTo(l, b, resolved) {
		f.refuse(refuseAmbiguous)
		return
	}
	f.b = b
	f.act(b.route)
}

// resolvedPath is the path as upstreams may read it that resolve all that can be: the
// path itself where there is nothing to resolve. It lies in the scratch memory.
func (f *flow) resolvedPath() []byte {
	if router.Plain(f.path) {
		return f.path
	}
	f.scratch = router.AppendResolved(f.scratch[:0], f.path)
	return f.scratch
}

// leadsTo tells whether a path leads to the same route. Where a path and what an upstream may
// make of it do not, the one would evade what the other is held to.
func (f *flow) leadsTo(l *listener, b *binding, path []byte) bool {
	f.query.Path = path
	other, ok := l.routes.Lookup(&f.query)
	return ok && other == b
}

// act does what the route says.
func (f *flow) act(r *route) {
	switch {
	case r.redirect != nil || r.respond != nil:
		if bad := f.x.Absorb(); bad != nil {
			f.refuse(bad)
		} else if r.redirect != nil {
			f.redirect(r)
		} else {
			f.respond(r)
		}
	default:
		f.forwardFields()
		r.rewrite.apply(f)
		f.applyRequestOps(r.requestOps)
		if r.mount != nil {
			f.serveMount(r)
		} else {
			f.proxy(r)
		}
	}
}

func (f *flow) applyRequestOps(o *fieldOps) {
	if o == nil {
		return
	}
	o.apply(&f.x.Request)
	if o.host != "" {
		f.x.Request.SetAuthority([]byte(o.host))
	}
}

// end counts and logs the exchange, and gives the flow back.
func (f *flow) end() {
	x := f.x
	now := f.ended
	if now.IsZero() {
		now = time.Now()
	}
	took := max(now.Sub(x.Start), 0)
	series := f.b.series(f.g.metrics, x.Conn.Protocol)
	series.Observe(f.status, took)
	series.Bytes(x.BytesIn, x.BytesOut)
	if facts := &x.Conn.Facts; facts.TLS() && !facts.PQ() {
		f.g.metrics.Listeners.Series(x.Conn.Listener).ClassicalBytes(facts, x.BytesIn+x.BytesOut)
	}
	upstreamTime := f.noteEndpoint(now)
	x.Log.Route, x.Log.Status, x.Log.Err = f.b.route.name, f.status, f.err
	if log := f.g.log.Load(); log.Enabled() {
		f.record(log, took, upstreamTime)
	}
	f.reset()
	flows.Put(f)
}

// noteEndpoint counts the answer of the endpoint, and says how long it took.
func (f *flow) noteEndpoint(now time.Time) time.Duration {
	if f.endpoint == nil {
		return 0
	}
	from := f.sent
	if from.IsZero() {
		from = f.x.Start
	}
	took := max(now.Sub(from), 0)
	if f.answered {
		f.endpoint.Series.Observe(f.status, took)
	}
	x := f.x
	x.Log.Upstream, x.Log.UpstreamTime = f.endpoint.URL, took
	if f.group != 0 {
		x.Log.UpstreamGroup = handshake.GroupName(f.group)
	}
	return took
}

// reset lets go of everything that belongs to the exchange.
func (f *flow) reset() {
	f.g, f.x, f.t, f.b = nil, nil, nil, nil
	f.host, f.path, f.authority, f.method = nil, nil, nil, nil
	f.client, f.status, f.reason, f.err = "", 0, "", nil
	f.endpoint, f.group = nil, 0
	f.sent, f.ended = time.Time{}, time.Time{}
	f.attempts.reset()
	f.upload.begun = false
	f.mount = mountResponder{}
	f.text.Reset(nil)
	f.query = router.Query{}
	if cap(f.scratch) > 16<<10 { // a request with huge fields keeps none of it
		f.scratch = make([]byte, 0, 512)
	}
}

// record writes the line of the access log.
func (f *flow) record(log *telemetry.AccessLog, took, upstream time.Duration) {
	x, conn := f.x, f.x.Conn
	r := telemetry.Record{
		Time: x.Start, RequestID: f.id, Listener: conn.Listener, Protocol: conn.Protocol.String(),
		Client: f.client, Remote: conn.ClientText, TLS: conn.Facts, Peer: conn.Facts.PeerName, PQIdentity: conn.Facts.PQIdentity,
		Method: f.method, Host: f.authority, Path: f.path, Route: f.b.route.name,
		Status: f.status, BytesIn: x.BytesIn, BytesOut: x.BytesOut, Duration: took,
		Upstream: f.b.route.to, UpstreamDuration: upstream, UpstreamTLSGroup: f.group, Error: f.reason,
	}
	if f.endpoint != nil {
		r.Endpoint = f.endpoint.URL
	}
	log.Request(&r)
}
