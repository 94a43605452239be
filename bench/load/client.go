package load

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/identity"
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports"
	"github.com/hanzoai/pqgw/transports/deadline"
)

// clientRole is the name of the load generator's role.
const clientRole = "load-client"

func init() { bench.RegisterRole(clientRole, openClient) }

// Work is what a load generator does.
type Work struct {
	Transport string      `json:"transport"`
	Addresses []string    `json:"addresses"` // connections are spread over them
	Root      []byte      `json:"root"`      // vouches for the server
	Group     tls.CurveID `json:"group"`
	Size      int         `json:"size"` // bytes of the bodies
	Upload    bool        `json:"upload"`
	Workers   int         `json:"workers"` // requests at a time
	Call      *Call       `json:"call,omitempty"`
}

// Call is a request to be sent in place of those for bodies of a size.
type Call struct {
	Path   string `json:"path"`
	Body   []byte `json:"body"`   // sent by POST
	Answer []byte `json:"answer"` // that every answer is compared with
}

// perShared is how many requests run at a time on a connection that can carry
// several.
const perShared = 4

// patience bounds the connecting of a load generator, and silence.
const patience = 20 * time.Second

// Client is a load generator process.
type Client struct{ *bench.Child }

// StartClient starts one by what spawn does.
func StartClient(spawn func(role string, settings any) (*bench.Child, error)) (*Client, error) {
	c, err := spawn(clientRole, nil)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// Connect makes the connections, and on each an exchange whose body is compared.
func (c *Client) Connect(ctx context.Context, w Work) error { return c.Call(ctx, "connect", w, nil) }

// Closed lets every worker ask as soon as it is answered.
func (c *Client) Closed(ctx context.Context, s bench.Slice) (out Done, err error) {
	err = c.Call(ctx, "closed", s, &out)
	return out, err
}

// Open asks at a constant rate.
func (c *Client) Open(ctx context.Context, p Pace) (out Timed, err error) {
	err = c.Call(ctx, "open", p, &out)
	return out, err
}

// Disconnect ends the connections.
func (c *Client) Disconnect(ctx context.Context) error { return c.Call(ctx, "disconnect", nil, nil) }

// generator is the load generator in its process.
type generator struct {
	watch   *deadline.Watch
	conns   []exchange.ClientConn
	workers []*worker
}

func openClient(context.Context, json.RawMessage) (map[string]bench.Verb, func(), error) {
	g := &generator{watch: deadline.New()}
	verbs := map[string]bench.Verb{
		"connect":    verb(g.connect),
		"closed":     verb(g.closed),
		"open":       verb(g.open),
		"handshakes": verb(handshakes),
		"disconnect": func(context.Context, json.RawMessage) (any, error) { g.disconnect(); return nil, nil },
	}
	end := func() {
		g.disconnect()
		g.watch.Close()
	}
	return verbs, end, nil
}

// verb gives a method its arguments.
func verb[A, R any](f func(context.Context, A) (R, error)) bench.Verb {
	return func(ctx context.Context, args json.RawMessage) (any, error) {
		var a A
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
		return f(ctx, a)
	}
}

func (g *generator) disconnect() {
	for _, c := range g.conns {
		c.Close()
	}
	g.conns, g.workers = nil, nil
}

func (g *generator) connect(ctx context.Context, w Work) (struct{}, error) {
	g.disconnect()
	t, err := Find(w.Transport)
	if err != nil {
		return struct{}{}, err
	}
	conns := w.Workers
	if t.Shared {
		conns = (w.Workers + perShared - 1) / perShared
	}
	conns = max(conns, len(w.Addresses))
	if g.conns, err = g.dial(ctx, t, w, conns); err != nil {
		g.disconnect()
		return struct{}{}, err
	}
	for i := range w.Workers {
		g.workers = append(g.workers, newWorker(g.conns[i%conns], w))
	}
	if err := g.each(func(k *worker) error { return k.ask(true) }); err != nil {
		g.disconnect()
		return struct{}{}, fmt.Errorf("the exchange that is compared: %w", err)
	}
	return struct{}{}, nil
}

func (g *generator) dial(ctx context.Context, t Transport, w Work, n int) ([]exchange.ClientConn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	settings := transports.DialSettings{Watch: g.watch, Limits: originLimits}
	if t.Secure {
		roots, err := (identity.Identity{Root: w.Root}).Roots()
		if err != nil {
			return nil, err
		}
		settings.TLS, err = handshake.NewClient(handshake.ClientSettings{
			PQ: handshake.Prefer, Groups: []tls.CurveID{w.Group}, Roots: roots, ServerName: identity.ServerName, NextProtos: t.ALPN, Sessions: -1,
		})
		if err != nil {
			return nil, err
		}
	}
	out := make([]exchange.ClientConn, 0, n)
	for i := range n {
		d, err := transports.NewDialer(t.Scheme, w.Addresses[i%len(w.Addresses)], settings)
		if err != nil {
			return out, err
		}
		c, err := d.Dial(ctx)
		if err != nil {
			return out, err
		}
		out = append(out, c)
		if got := c.Info().Facts.Group; t.Secure && got != w.Group {
			return out, fmt.Errorf("a handshake with %v, wanted %v", got, w.Group)
		}
	}
	return out, nil
}

// each runs f for all workers at the same time.
func (g *generator) each(f func(*worker) error) error {
	errs := make([]error, len(g.workers))
	var wg sync.WaitGroup
	for i, k := range g.workers {
		wg.Go(func() { errs[i] = f(k) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
