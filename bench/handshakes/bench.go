package handshakes

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/identity"
	"github.com/hanzoai/pqgw/bench/link"
	"github.com/hanzoai/pqgw/bench/load"
	"github.com/hanzoai/pqgw/handshake"
)

// Bench is what `bench handshake` runs.
var Bench = bench.Bench{
	Name: "handshake", Title: "What a handshake costs", Order: 10,
	Quick: 40 * time.Second, Full: 8 * time.Minute, Linkable: true, Run: run,
}

func init() { bench.Register(Bench) }

// Metrics of a handshake.
const (
	serverCPU = "server_cpu"
	clientCPU = "client_cpu"
	trips     = "round_trips"
)

// parallel is how many connections are under way at once where CPU is
// measured: both sides always have work, as a busy server has.
const parallel = 4

// How the time is shared out; the rest is for starting and for warming up.
const (
	sharePrimitives = 0.14
	shareMatrix     = 0.56
	shareTimes      = 0.22
)

func run(ctx context.Context, s *bench.Session) error {
	l, err := newLab(ctx, s)
	if err != nil {
		return err
	}
	s.Note("%s", l.site.Describe())
	if s.Link != "" {
		return l.acrossLink(ctx)
	}
	parts, err := s.Measure(ctx, primitiveExperiment(s))
	if err != nil {
		return err
	}
	whole, err := s.Measure(ctx, l.matrixExperiment(matrix()))
	if err != nil {
		return err
	}
	if _, err := s.Measure(ctx, l.timeExperiment()); err != nil {
		return err
	}
	sumOfParts(s, parts, whole)
	postQuantumPart(s, whole)
	return nil
}

// acrossLink leaves out what a link does not change: the primitives, and how the
// certificate's key weighs.
func (l *lab) acrossLink(ctx context.Context) error {
	e := l.matrixExperiment(slices.DeleteFunc(matrix(), func(t task) bool { return t.Auth != authECDSA }))
	e.Share += sharePrimitives
	if _, err := l.session.Measure(ctx, e); err != nil {
		return err
	}
	_, err := l.session.Measure(ctx, l.timeExperiment())
	return err
}

// Few is a short bench of full and resumed handshakes alone, with one
// authentication over one transport ("tls" or "quic"), for who needs no more.
func Few(transport, auth string, only ...tls.CurveID) bench.Bench {
	b := Bench
	b.Quick, b.Full = 12*time.Second, time.Minute
	b.Run = func(ctx context.Context, s *bench.Session) error {
		var tasks []task
		for _, t := range matrix() {
			if t.Transport == transport && t.Auth == auth && slices.Contains(only, t.Group) && (t.Kind == full || t.Kind == resumed) {
				tasks = append(tasks, t)
			}
		}
		l, err := newLab(ctx, s)
		if err != nil {
			return err
		}
		e := l.matrixExperiment(tasks)
		e.Share, e.Rounds = 0.9, 0
		_, err = s.Measure(ctx, e)
		return err
	}
	return b
}

// lab is the processes that the handshakes pass between.
type lab struct {
	session    *bench.Session
	site       *load.Site
	server     *bench.Child
	client     *bench.Child
	relay      *bench.Child
	identities map[string]identity.Identity
	places     map[tls.CurveID]map[string]place
}

func newLab(ctx context.Context, s *bench.Session) (*lab, error) {
	site, err := load.NewSite(ctx, s)
	if err != nil {
		return nil, err
	}
	l := &lab{session: s, site: site, identities: make(map[string]identity.Identity), places: make(map[tls.CurveID]map[string]place)}
	for _, auth := range auths {
		id, err := identity.New(task{Auth: auth}.certificate())
		if err != nil {
			return nil, err
		}
		l.identities[auth] = id
	}
	proofs, err := identity.NewProofs(identity.ServerName, clientName)
	if err != nil {
		return nil, err
	}
	settings := serverSettings{Host: site.Host(), Identities: l.identities, Proof: proofs[0]}
	if l.server, err = site.Spawn(link.Gateway)(serverRole, settings); err != nil {
		return nil, err
	}
	if l.client, err = site.Spawn(link.Load)(clientRole, clientSettings{Host: site.Host(), Proof: proofs[1]}); err != nil {
		return nil, err
	}
	err = site.Do(link.Load, func() (err error) { // beside the client, on any CPU
		l.relay, err = s.Spawn(relayRole, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	var places []place
	if err := l.server.Call(ctx, "places", nil, &places); err != nil {
		return nil, err
	}
	for _, p := range places {
		p.TCP, p.UDP = site.Reach(link.Gateway, p.TCP)[0], site.Reach(link.Gateway, p.UDP)[0]
		if l.places[p.Group] == nil {
			l.places[p.Group] = make(map[string]place)
		}
		l.places[p.Group][p.Auth] = p
	}
	return l, nil
}

// matrixExperiment measures CPU, bytes and packets of tasks.
func (l *lab) matrixExperiment(tasks []task) bench.Experiment {
	e := bench.Experiment{
		Name: "matrix", Title: "CPU, bytes and packets of a handshake with one small request", Share: shareMatrix,
		Note: "Bytes are those of the socket: with TCP's payload, without its headers; of UDP datagrams. Packets are TCP segments " +
			"with SYN and bare acknowledgements, or datagrams. All from connect to the whole answer. With an ML-DSA-65 identity, the server's " +
			"certificate is ECDSA P-256, and both sides prove an ML-DSA-65 identity after TLS's own handshake, resumed or not, as on a hop. The client of a retry for X25519MLKEM768, which crypto/tls cannot be, is written for " +
			"that (package byhand): the server's side is the one of all other rows, the client's CPU is of other code.",
		Metrics: []bench.Metric{
			{Name: serverCPU, Title: "server CPU", Unit: "µs", Kind: bench.CPU, Headline: true},
			{Name: clientCPU, Title: "client CPU", Unit: "µs", Kind: bench.CPU, Headline: true},
			{Name: "bytes_up", Title: "bytes to server", Unit: "B", Kind: bench.Count},
			{Name: "bytes_down", Title: "bytes to client", Unit: "B", Kind: bench.Count},
			{Name: "packets_up", Title: "packets to server", Unit: "", Kind: bench.Count},
			{Name: "packets_down", Title: "packets to client", Unit: "", Kind: bench.Count},
		},
		Plots: []bench.Plot{
			{Kind: bench.Bars, Title: "Server CPU by group, ECDSA P-256, TLS over TCP (µs)", Metric: serverCPU, X: "group", Series: "kind", Where: map[string]string{"auth": authECDSA, "transport": overTCP}},
			{Kind: bench.Bars, Title: "Server CPU by group, ECDSA P-256, QUIC (µs)", Metric: serverCPU, X: "group", Series: "kind", Where: map[string]string{"auth": authECDSA, "transport": overQUIC}},
			{Kind: bench.Bars, Title: "Server CPU of a full handshake by authentication, TLS over TCP (µs)", Metric: serverCPU, X: "group", Series: "auth", Where: map[string]string{"kind": full, "transport": overTCP}},
		},
		Versus: &bench.Versus{Subject: "group", Ours: handshake.GroupName(tls.X25519MLKEM768), Match: []string{"transport", "auth", "kind"}},
	}
	if l.session.Quick {
		e.Rounds = 4
	}
	for _, t := range tasks {
		arm := bench.Arm{Name: t.name(), Labels: t.labels(), Missing: t.missing()}
		arm.Open = func(context.Context) (bench.Runner, error) {
			return bench.RunnerFunc(func(ctx context.Context, s bench.Slice) (bench.Sample, error) { return l.cost(ctx, t, s) }), nil
		}
		e.Arms = append(e.Arms, arm)
	}
	return e
}

// order is the client's for a task, to the server itself.
func (l *lab) order(t task, s bench.Slice) (order, error) {
	p, ok := l.places[t.Group][t.Auth]
	if !ok {
		return order{}, fmt.Errorf("no server for %s", t.name())
	}
	return order{Task: t, TCP: p.TCP, UDP: p.UDP, Root: l.identities[t.Auth].Root, Slice: s, Parallel: parallel}, nil
}

// cost runs a task for a slice and reads both sides' CPU, and then once more
// to count.
func (l *lab) cost(ctx context.Context, t task, s bench.Slice) (bench.Sample, error) {
	o, err := l.order(t, s)
	if err != nil {
		return bench.Sample{}, err
	}
	if err := l.both(ctx, "prepare", o, nil); err != nil {
		return bench.Sample{}, err
	}
	var did, counted outcome
	began := time.Now()
	spent, err := bench.Spent(func() error { return l.both(ctx, "run", o, &did) }, l.server, l.client)
	if err != nil {
		return bench.Sample{}, err
	}
	took := time.Since(began).Seconds()
	o.Count, o.Parallel, o.Slice = true, 1, bench.Slice{Ops: 1, For: time.Minute}
	if err := l.both(ctx, "run", o, &counted); err != nil {
		return bench.Sample{}, err
	}
	return bench.Sample{Ops: did.Ops, Seconds: took, Values: map[string]float64{
		serverCPU: bench.Micros(spent[0], did.Ops), clientCPU: bench.Micros(spent[1], did.Ops),
		"bytes_up": counted.Traffic.BytesUp, "bytes_down": counted.Traffic.BytesDown,
		"packets_up": counted.Traffic.PacketsUp, "packets_down": counted.Traffic.PacketsDown,
	}}, nil
}

// both tells the client to do something and waits until the server has done
// its part as well.
func (l *lab) both(ctx context.Context, verb string, o order, result any) error {
	err := l.client.Call(ctx, verb, o, result)
	if e := l.server.Call(ctx, "settle", nil, nil); e != nil && err != nil {
		err = fmt.Errorf("%w (server: %w)", err, e)
	} else if e != nil {
		err = e
	}
	return err
}

// primitiveExperiment measures the parts, on the server's CPU.
func primitiveExperiment(s *bench.Session) bench.Experiment {
	e := bench.Experiment{
		Name: "primitives", Title: "The primitives alone, on the server's CPU", Share: sharePrimitives,
		Note: "Encapsulation and agreement include parsing the peer's key, as a handshake does. Go's are what crypto/tls uses.",
		Metrics: []bench.Metric{
			{Name: "cpu", Title: "CPU", Unit: "µs", Kind: bench.CPU, Headline: true},
			{Name: "allocs", Title: "allocations", Unit: "", Kind: bench.Count},
		},
		Plots:  []bench.Plot{{Kind: bench.Bars, Title: "Primitives (µs)", Metric: "cpu", X: "primitive", Series: "library"}},
		Versus: &bench.Versus{Subject: "library", Ours: libGo, Match: []string{"primitive"}},
	}
	var child *bench.Child
	for _, p := range primitives() {
		e.Arms = append(e.Arms, bench.Arm{Name: p.name(), Labels: p.labels(), Open: func(context.Context) (bench.Runner, error) {
			if child == nil {
				cpu, _ := bench.Apart() // that of the handshakes' server
				var err error
				if child, err = s.SpawnOn(cpu, primitivesRole, nil); err != nil {
					return nil, err
				}
			}
			return primitiveRunner(child, p.name()), nil
		}})
	}
	return e
}

func primitiveRunner(child *bench.Child, name string) bench.Runner {
	return bench.RunnerFunc(func(ctx context.Context, s bench.Slice) (bench.Sample, error) {
		var c bench.Computed
		if err := child.Call(ctx, "run", calculation{Name: name, Slice: s}, &c); err != nil {
			return bench.Sample{}, err
		}
		return bench.Sample{Ops: c.Ops, Values: map[string]float64{"cpu": c.Nanoseconds() / 1e3, "allocs": c.Allocs}}, nil
	})
}
