// Package lifetime measures what a connection costs by the number of requests
// that are made on it: how the bill of its handshake is spread over them, and
// after how many requests or bytes the post-quantum part of the bill is below
// a share.
//
// The server is the gateway, answering from a route without an upstream: what
// a request costs is as small as it gets, so the crossings are late ones. The
// client speaks HTTP/1.1 over TLS from a process of its own.
package lifetime

import (
	"context"
	"crypto/tls"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/link"
	"github.com/hanzoai/pqgw/bench/load"
	"github.com/hanzoai/pqgw/handshake"
)

// Bench is what `bench lifetime` runs.
var Bench = bench.Bench{
	Name: "lifetime", Title: "After how many requests a handshake is paid", Order: 20,
	Quick: 35 * time.Second, Full: 5 * time.Minute, Linkable: true, Run: run,
}

func init() { bench.Register(Bench) }

// Metrics, for each request.
const (
	ServerCPU = "server_cpu"
	ClientCPU = "client_cpu"
	// perConnection is what a whole connection costs, its requests included.
	perConnection = "connection_"
)

const (
	// parallel is how many connections are at work at a time, the same for every
	// life: a server that always has something to do sleeps and wakes less, and
	// a request costs it half as much as one alone.
	parallel = 4
	small    = 1 << 10
	large    = 64 << 10
)

// Groups that are compared; the first is the classical one.
var Groups = []tls.CurveID{tls.X25519, tls.X25519MLKEM768}

// lives are how many requests are made on a connection, by the size of the
// answers: the ends give what a handshake and a request cost.
var lives = map[int][]int{
	small: {1, 10, 100, 1000, 10000},
	large: {1, 100},
}

func run(ctx context.Context, s *bench.Session) error {
	l, err := newLab(ctx, s)
	if err != nil {
		return err
	}
	defer l.Close()
	s.Note("%s", l.Describe())
	requests, err := s.Measure(ctx, l.experiment("requests", "CPU for each request, by requests on a connection (answers of 1 KiB)", small, 0.75))
	if err != nil {
		return err
	}
	bytes, err := s.Measure(ctx, l.experiment("bytes", "CPU for each request, by requests on a connection (answers of 64 KiB)", large, 0.2))
	if err != nil {
		return err
	}
	crossings(s, requests, bytes)
	shareCurve(s, requests, bytes)
	return nil
}

// lab is a gateway with a listener for each group, and the client.
type lab struct {
	*load.Lab
	session *bench.Session
	gateway *bench.Gateway
	client  *bench.Child
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
	config, err := l.config()
	if err != nil {
		return err
	}
	if l.gateway, err = l.Gateway(ctx, config); err != nil {
		return err
	}
	l.client, err = l.Spawn(link.Load)(clientRole, nil)
	return err
}

// config serves each group on a listener of its own name.
func (l *lab) config() (string, error) {
	cert, key, err := l.Files()
	if err != nil {
		return "", err
	}
	var policies, listeners, routes strings.Builder
	for _, g := range Groups {
		name := handshake.GroupName(g)
		fmt.Fprintf(&policies, "  %s: {certificates: {files: {cert: %q, key: %q}}, groups: [%s]}\n", name, cert, key, name)
		fmt.Fprintf(&listeners, "  - {name: %s, address: \"%s:0\", protocols: [h1], tls: %s, limits: {requests_per_connection: 0}}\n", name, l.Host(), name)
	}
	for body := range lives {
		fmt.Fprintf(&routes, "  - {match: {path: %s}, respond: {body: %q}}\n", path(body), strings.Repeat(letter, body))
	}
	return "version: 1\ntls:\n" + policies.String() + "listeners:\n" + listeners.String() + "routes:\n" + routes.String(), nil
}

func path(body int) string { return "/" + strconv.Itoa(body) }

func (l *lab) experiment(name, title string, body int, share float64) bench.Experiment {
	e := bench.Experiment{
		Name: name, Title: title, Share: share,
		Metrics: []bench.Metric{
			{Name: ServerCPU, Title: "server CPU", Unit: "µs/request", Kind: bench.CPU, Headline: true},
			{Name: ClientCPU, Title: "client CPU", Unit: "µs/request", Kind: bench.CPU},
			{Name: perConnection + ServerCPU, Title: "server CPU of a connection", Unit: "µs", Kind: bench.CPU},
			{Name: perConnection + ClientCPU, Title: "client CPU of a connection", Unit: "µs", Kind: bench.CPU},
		},
		Plots:  []bench.Plot{{Kind: bench.Curve, Title: title + " (µs)", Metric: ServerCPU, X: "requests", Series: "group"}},
		Versus: &bench.Versus{Subject: "group", Ours: handshake.GroupName(tls.X25519MLKEM768), Match: []string{"requests", "body"}},
	}
	if l.session.Quick {
		e.Rounds = 4
	}
	for _, n := range lives[body] {
		for _, g := range Groups {
			e.Arms = append(e.Arms, l.arm(g, body, n))
		}
	}
	return e
}

func (l *lab) arm(g tls.CurveID, body, n int) bench.Arm {
	name := handshake.GroupName(g)
	o := order{Address: l.Reach(link.Gateway, l.gateway.Addrs[name])[0], Root: l.Identity.Root, Group: g, Path: path(body), Body: body, Requests: n, Parallel: parallel}
	weight := 1.0
	if n == 1 {
		weight = 4 // what is calculated from differences of these needs them exact
	}
	return bench.Arm{
		Weight: weight,
		Name:   fmt.Sprintf("%s, %d requests", name, n), Labels: map[string]string{"group": name, "requests": strconv.Itoa(n), "body": strconv.Itoa(body)},
		Open: func(context.Context) (bench.Runner, error) {
			return bench.RunnerFunc(func(ctx context.Context, s bench.Slice) (bench.Sample, error) {
				o.Slice = s
				return l.cost(ctx, o)
			}), nil
		},
	}
}

// cost reads both sides' CPU around a run. The gateway may still be closing
// the last connections when the client is done with them; that is a part of
// one in hundreds.
func (l *lab) cost(ctx context.Context, o order) (bench.Sample, error) {
	var connections int
	spent, err := bench.Spent(func() error { return l.client.Call(ctx, "run", o, &connections) }, l.gateway, l.client)
	if err != nil {
		return bench.Sample{}, err
	}
	out := bench.Sample{Ops: connections * o.Requests, Values: make(map[string]float64)}
	for i, name := range []string{ServerCPU, ClientCPU} {
		each := bench.Micros(spent[i], connections)
		out.Values[perConnection+name] = each
		out.Values[name] = each / float64(o.Requests)
	}
	return out, nil
}
