// Package layers shows where a request's time goes: the same request and the
// same 1 KiB of answer over ZAP, served by programs each of which does one
// thing more than the one before: a socket that echoes, frames, the codec, TLS,
// the transport with its checks, routing and policies, an upstream.
//
// What each adds is the difference between two runs of the same rounds. That
// chain has TLS in it from the fourth on; its later steps are measured once
// more in the clear, and what the whole takes beyond the sum of the parts
// measured apart is a row as well.
package layers

import (
	"context"
	"fmt"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/link"
	"github.com/hanzoai/pqgw/bench/load"
	"github.com/hanzoai/pqgw/handshake"
)

// Bench is what `bench layers` runs.
var Bench = bench.Bench{
	Name: "layers", Title: "Where a request's time goes, layer by layer", Order: 40,
	Quick: 25 * time.Second, Full: 4 * time.Minute, Linkable: true, Run: run,
}

func init() { bench.Register(Bench) }

// Metrics.
const (
	ServerCPU = "server_cpu"
	ClientCPU = "client_cpu"
	Median    = "median"
)

// layer is one program of the chain.
type layer struct {
	name, listener string
	secure         bool
	gateway        bool
}

// chain in its order, each with one layer more than the one before.
var chain = []layer{
	{name: "socket echo", listener: "echo"},
	{name: "+ frames", listener: "frames"},
	{name: "+ codec", listener: "codec"},
	{name: "+ TLS", listener: "tls", secure: true},
	{name: "+ transport and checks", listener: "server-tls", secure: true},
	{name: "+ routing and policies", listener: "answer-tls", secure: true, gateway: true},
	{name: "+ upstream", listener: "forward-tls", secure: true, gateway: true},
}

// inClear are the last steps without TLS.
var inClear = []layer{
	{name: "transport and checks, in the clear", listener: "server"},
	{name: "routing and policies, in the clear", listener: "answer", gateway: true},
	{name: "upstream, in the clear", listener: "forward", gateway: true},
	{name: bareRelay, listener: "relay"},
}

// bareRelay passes the same bytes on to another socket and back, and looks at
// none: what any proxy takes.
const bareRelay = "socket relay"

func run(ctx context.Context, s *bench.Session) error {
	l, err := newLab(ctx, s)
	if err != nil {
		return err
	}
	defer l.Close()
	s.Note("%s %d connections ask one request after the other for the CPU, one connection for the median.", l.Describe(), manyConns)
	data, err := s.Measure(ctx, l.experiment())
	if err != nil {
		return err
	}
	addDifferences(data)
	s.Table(waterfall(data))
	return nil
}

// lab is the plain servers, the gateway, an upstream and the client.
type lab struct {
	*load.Lab
	plain   *bench.Child // beside the gateway, on its CPU
	origin  *bench.Child // the upstream
	gateway *bench.Gateway
	client  *bench.Child
	addrs   map[string]string // of plain
}

func newLab(ctx context.Context, s *bench.Session) (*lab, error) {
	l := new(lab)
	_, err := load.NewLab(ctx, s, func(base *load.Lab) error {
		l.Lab = base
		return l.start(ctx)
	})
	return l, err
}

func (l *lab) start(ctx context.Context) (err error) {
	settings := serverSettings{Host: l.Host(), Identity: l.Identity}
	if l.origin, err = l.Spawn(link.Origin)(serverRole, settings); err != nil {
		return err
	}
	var origin map[string]string
	if err = l.origin.Call(ctx, "addrs", nil, &origin); err != nil {
		return err
	}
	settings.Upstream = l.Reach(link.Origin, origin["echo"])[0]
	if l.plain, err = l.Spawn(link.Gateway)(serverRole, settings); err != nil {
		return err
	}
	if err = l.plain.Call(ctx, "addrs", nil, &l.addrs); err != nil {
		return err
	}
	config, err := l.config(l.Reach(link.Origin, origin["server"])[0])
	if err != nil {
		return err
	}
	if l.gateway, err = l.Gateway(ctx, config); err != nil {
		return err
	}
	l.client, err = l.Spawn(link.Load)(clientRole, nil)
	return err
}

// config has a route that answers and one that forwards, both with the same
// conditions and changes of fields, among others that do not match.
func (l *lab) config(upstream string) (string, error) {
	cert, key, err := l.Files()
	if err != nil {
		return "", err
	}
	const policies = `host: bench.test, method: [GET, POST], header: {X-Tenant: "*"}}, response_headers: {set: {Cache-Control: no-store}}`
	text := fmt.Sprintf("version: 1\ntls:\n  public: {certificates: {files: {cert: %q, key: %q}}, groups: [%s]}\nlisteners:\n", cert, key, handshake.GroupName(load.Group))
	for _, name := range []string{"answer", "forward"} {
		for suffix, more := range map[string]string{"": "", "-tls": ", tls: public"} {
			text += fmt.Sprintf("  - {name: %s%s, address: \"%s:0\", protocols: [zap]%s, limits: {requests_per_connection: 0}}\n", name, suffix, l.Host(), more)
		}
	}
	text += "routes:\n"
	for i := range otherRoutes {
		text += fmt.Sprintf("  - {match: {path: /v%d/other, host: bench.test}, respond: {status: 404}}\n", i+2)
	}
	text += fmt.Sprintf("  - {match: {listener: [answer, answer-tls], path: /v1/*, %s, respond: {body: %q}}\n", policies, answerBody)
	text += fmt.Sprintf("  - {match: {listener: [forward, forward-tls], path: /v1/*, %s, to: origin, request_headers: {set: {X-Via: bench}, remove: X-Internal}}\n", policies)
	return text + fmt.Sprintf("upstreams:\n  origin: {endpoints: [\"zap://%s\"]}\n", upstream), nil
}

// otherRoutes are in the table beside the one that matches.
const otherRoutes = 20
