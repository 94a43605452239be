package handshakes

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/handshakes/byhand"
	"github.com/hanzoai/pqgw/bench/identity"
	"github.com/hanzoai/pqgw/handshake"
)

func init() { bench.RegisterRole(clientRole, openClient) }

// order tells the client to work.
type order struct {
	Task     task        `json:"task"`
	TCP      string      `json:"tcp"`
	UDP      string      `json:"udp"`
	Root     []byte      `json:"root"`
	Slice    bench.Slice `json:"slice"`
	Parallel int         `json:"parallel"` // operations at the same time
	Count    bool        `json:"count"`    // count bytes and packets, for which sockets are wrapped
}

// outcome is what the client did.
type outcome struct {
	Ops       int       `json:"ops"`
	Latencies []float64 `json:"latencies"` // ms, from connect to the whole answer
	Traffic   traffic   `json:"traffic"`   // of one operation, where counted
}

// traffic is what passed on the socket, from connect to the whole answer.
type traffic struct {
	BytesUp     float64 `json:"bytes_up"`
	BytesDown   float64 `json:"bytes_down"`
	PacketsUp   float64 `json:"packets_up"`
	PacketsDown float64 `json:"packets_down"`
}

// clientSettings are a client's.
type clientSettings struct {
	Host  string         `json:"host"` // to send from
	Proof identity.Proof `json:"proof"`
}

// client keeps a UDP socket for all its QUIC connections, and the sessions of
// each arm from one round to the next.
type client struct {
	host     string // to send from
	udp      *net.UDPConn
	quic     *quic.Transport
	proof    *handshake.Identity
	sessions map[string][]*session
}

func openClient(_ context.Context, settings json.RawMessage) (map[string]bench.Verb, func(), error) {
	var s clientSettings
	if err := json.Unmarshal(settings, &s); err != nil {
		return nil, nil, err
	}
	proof, err := s.Proof.Identity()
	if err != nil {
		return nil, nil, err
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(s.Host)})
	if err != nil {
		return nil, nil, err
	}
	c := &client{host: s.Host, udp: udp, quic: &quic.Transport{Conn: udp}, proof: proof, sessions: make(map[string][]*session)}
	return map[string]bench.Verb{"prepare": c.prepare, "run": c.run}, func() {
		_ = c.quic.Close()
		_ = c.udp.Close()
	}, nil
}

// prepare makes the connections that give workers their first tickets, which
// are no part of what is measured.
func (c *client) prepare(ctx context.Context, args json.RawMessage) (any, error) {
	workers, err := c.workers(args)
	if err != nil {
		return nil, err
	}
	for _, w := range workers {
		if w.session == nil || w.session.there() {
			continue
		}
		if _, err := w.once(ctx, full); err != nil {
			return nil, fmt.Errorf("to get a ticket: %w", err)
		}
	}
	return nil, nil
}

func (c *client) run(ctx context.Context, args json.RawMessage) (any, error) {
	workers, err := c.workers(args)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
		wg.Go(func() { errs[i] = w.loop(ctx, began) })
	}
	wg.Wait()
	var out outcome
	for _, w := range workers {
		out.Ops += len(w.latencies)
		out.Latencies = append(out.Latencies, w.latencies...)
		out.Traffic = w.traffic
	}
	return out, errors.Join(errs...)
}

// worker does one operation after the other, with a session of its own.
type worker struct {
	client    *client
	order     order
	slice     bench.Slice
	config    *tls.Config
	session   *session // nil where nothing is resumed
	latencies []float64
	traffic   traffic
}

// workers are as many as the order asks for.
func (c *client) workers(args json.RawMessage) ([]*worker, error) {
	var o order
	if err := json.Unmarshal(args, &o); err != nil {
		return nil, err
	}
	n := max(1, o.Parallel)
	sessions := c.sessionsOf(o, n)
	share := o.Slice
	if share.Ops > 0 {
		share.Ops = (share.Ops + n - 1) / n
	}
	out := make([]*worker, n)
	for i := range out {
		config, err := o.config()
		if err != nil {
			return nil, err
		}
		out[i] = &worker{client: c, order: o, slice: share, config: config}
		if sessions != nil {
			out[i].session = sessions[i]
			config.ClientSessionCache = sessions[i]
		}
	}
	return out, nil
}

// sessionsOf are those of an arm, nil for one that resumes nothing.
func (c *client) sessionsOf(o order, n int) []*session {
	if o.Task.Kind != resumed && o.Task.Kind != early {
		return nil
	}
	key := o.Task.name() + " " + o.TCP
	for len(c.sessions[key]) < n {
		c.sessions[key] = append(c.sessions[key], &session{came: make(chan struct{}, 1)})
	}
	return c.sessions[key]
}

func (o order) config() (*tls.Config, error) {
	roots, err := (identity.Identity{Root: o.Root}).Roots()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		ServerName: identity.ServerName, RootCAs: roots, MinVersion: tls.VersionTLS13,
		CurvePreferences: []tls.CurveID{o.Task.Group}, NextProtos: []string{o.Task.protocol()},
	}
	if o.Task.Kind == retried {
		config.CurvePreferences = append(config.CurvePreferences, o.Task.wrongShare())
	}
	return config, nil
}

func (w *worker) loop(ctx context.Context, began time.Time) error {
	for !w.slice.Over(began, len(w.latencies)) {
		took, err := w.once(ctx, w.order.Task.Kind)
		if err != nil {
			return err
		}
		w.latencies = append(w.latencies, float64(took)/float64(time.Millisecond))
	}
	return nil
}

// once connects, shakes hands, asks, reads the answer and closes, and fails
// unless all was as the task has it. It tells how long the answer took.
func (w *worker) once(ctx context.Context, kind string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if w.order.Task.Transport == overQUIC {
		return w.onceQUIC(ctx, kind)
	}
	return w.onceTLS(ctx, kind)
}

func (w *worker) onceTLS(ctx context.Context, kind string) (took time.Duration, err error) {
	began := time.Now()
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", w.order.TCP)
	if err != nil {
		return 0, err
	}
	defer raw.Close()
	deadline, _ := ctx.Deadline()
	_ = raw.SetDeadline(deadline)
	socket := raw
	var counted *countedConn
	if w.order.Count {
		counted = &countedConn{Conn: raw}
		socket = counted
	}
	c, err := w.secure(socket)
	if err != nil {
		return 0, err
	}
	cs := c.ConnectionState()
	if err := w.prove(ctx, c, &cs); err != nil {
		return 0, err
	}
	if err := ask(c); err != nil {
		return 0, err
	}
	took = time.Since(began)
	if counted != nil {
		if w.traffic, err = counted.traffic(); err != nil {
			return 0, err
		}
	}
	if err := w.check(&cs, kind, false); err != nil {
		return 0, err
	}
	return took, c.Close()
}

// secureConn is a connection of crypto/tls, or one made by hand.
type secureConn interface {
	io.ReadWriteCloser
	ConnectionState() tls.ConnectionState
}

// secure shakes hands over a socket.
func (w *worker) secure(socket net.Conn) (secureConn, error) {
	if w.order.Task.byHand() {
		return byhand.Client(socket, byhand.Settings{ServerName: identity.ServerName, Roots: w.config.RootCAs, ALPN: w.order.Task.protocol()})
	}
	c := tls.Client(socket, w.config)
	return c, c.Handshake()
}

// prove exchanges identities where the task asks for it.
func (w *worker) prove(ctx context.Context, rw io.ReadWriter, cs *tls.ConnectionState) error {
	if w.order.Task.Auth != authMLDSA {
		return nil
	}
	peer, err := w.client.proof.Present(ctx, rw, cs, identity.ServerName)
	if err == nil && peer != identity.ServerName {
		err = fmt.Errorf("the server is %s", peer)
	}
	return err
}

func ask(rw io.ReadWriter) error {
	if _, err := io.WriteString(rw, request); err != nil {
		return err
	}
	var got [len(answer)]byte
	if _, err := io.ReadFull(rw, got[:]); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if string(got[:]) != answer {
		return fmt.Errorf("answer %q", got)
	}
	return nil
}

// check holds what came about against what was to be measured.
func (w *worker) check(cs *tls.ConnectionState, kind string, used0RTT bool) error {
	t := w.order.Task
	if cs.Version != tls.VersionTLS13 || cs.CurveID != t.Group {
		return fmt.Errorf("TLS %s with %s, wanted 1.3 with %s", handshake.VersionName(cs.Version), handshake.GroupName(cs.CurveID), handshake.GroupName(t.Group))
	}
	if was := kind == resumed || kind == early; cs.DidResume != was {
		return fmt.Errorf("resumed: %t, in an arm of kind %s", cs.DidResume, kind)
	}
	if cs.HelloRetryRequest != (kind == retried) {
		return fmt.Errorf("HelloRetryRequest: %t, in an arm of kind %s", cs.HelloRetryRequest, kind)
	}
	if used0RTT != (kind == early) {
		return fmt.Errorf("0-RTT: %t, in an arm of kind %s", used0RTT, kind)
	}
	if len(cs.VerifiedChains) == 0 {
		return errors.New("the certificate was not verified")
	}
	if name := handshake.KeyName(cs.PeerCertificates[0].PublicKey); name != t.certificate() {
		return fmt.Errorf("authenticated by %s, wanted %s", name, t.certificate())
	}
	return nil
}
