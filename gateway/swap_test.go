package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
)

// until polls for a state.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestSwapKeepsConnectionsOfSameEndpoints(t *testing.T) {
	a, b := &fakeUpstream{serve: ok("a")}, &fakeUpstream{serve: ok("b")}
	g := newGateway(t, treeTo(1), a, b)
	serve := func() {
		t.Helper()
		r := request("GET", "/")
		if g.Serve(&r.x); r.r.status != 200 {
			t.Fatalf("%d", r.r.status)
		}
	}
	serve()
	next := treeTo(2) // one more endpoint, and other limits
	next.Upstreams["app"].MaxIdle = 3
	if err := g.Swap(next); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		serve()
	}
	if a.dials.Load() != 1 || b.dials.Load() != 1 {
		t.Errorf("%d and %d dials", a.dials.Load(), b.dials.Load())
	}
	if err := g.Swap(treeTo(1)); err != nil {
		t.Fatal(err)
	}
	until(t, "the connection of the endpoint that is gone is closed", func() bool { return b.open.Load() == 0 })
	if a.open.Load() != 1 {
		t.Error("the other's connection was closed as well")
	}
	serve()
	if a.dials.Load() != 1 {
		t.Error("it was not used again")
	}
}

// What runs keeps its connection until it ends, though its endpoint is gone.
func TestSwapLetsRunningExchangesEnd(t *testing.T) {
	began, finish := make(chan bool), make(chan bool)
	a := &fakeUpstream{serve: func(c *fakeCall) error {
		go func() {
			began <- true
			<-finish
			c.body = exchange.NewBytes([]byte("whole"))
			c.answer(200)
		}()
		return nil
	}}
	g := newGateway(t, treeTo(1), a)
	r := request("GET", "/")
	done := make(chan bool)
	go func() {
		g.Serve(&r.x)
		close(done)
	}()
	<-began
	next := treeTo(0, &config.Route{Respond: &config.Respond{Status: 200, Body: "new"}})
	next.Routes = next.Routes[:1]
	if err := g.Swap(next); err != nil {
		t.Fatal(err)
	}
	if g.Status().Draining != 1 || a.open.Load() != 1 {
		t.Errorf("%+v, %d open", g.Status(), a.open.Load())
	}
	q := request("GET", "/")
	if g.Serve(&q.x); q.r.body.String() != "new" {
		t.Errorf("%q", q.r.body.String())
	}
	finish <- true
	<-done
	if r.r.body.String() != "whole" {
		t.Errorf("%d %q", r.r.status, r.r.body.String())
	}
	until(t, "its connection is closed", func() bool { return a.open.Load() == 0 })
	if g.Status().Draining != 0 {
		t.Error("still draining")
	}
}

func TestSwapThatFailsChangesNothing(t *testing.T) {
	a := &fakeUpstream{serve: ok("a")}
	g := newGateway(t, treeTo(1), a)
	bad := treeTo(2) // there is no dialer for the second
	if err := g.Swap(bad); err == nil || !strings.Contains(err.Error(), "10.0.0.2") {
		t.Errorf("%v", err)
	}
	bad = treeTo(1, &config.Route{Name: "lost", To: "nowhere"}, &config.Route{Name: "odd", Redirect: &config.Redirect{To: "{what}"}})
	err := g.Swap(bad)
	if err == nil || !strings.Contains(err.Error(), `route "lost": there is no upstream "nowhere"`) || !strings.Contains(err.Error(), `route "odd"`) {
		t.Errorf("%v", err)
	}
	r := request("GET", "/")
	if g.Serve(&r.x); r.r.body.String() != "a" || g.Status().Routes != 1 {
		t.Errorf("%q", r.r.body.String())
	}
}

// Other TLS settings mean other connections, though the endpoint is the same.
func TestSwapDoesNotReuseConnectionsOfOtherTLSSettings(t *testing.T) {
	secure := func(pq config.PQ) *config.Tree {
		tree := treeTo(0)
		e, _ := config.ParseEndpoint("https://10.0.0.1:443")
		s := config.Default[config.TLS]()
		s.PQ = pq
		tree.Upstreams["app"].Endpoints = []config.Endpoint{e}
		tree.Upstreams["app"].TLS = config.TLSRef{Settings: s}
		return tree
	}
	a := &fakeUpstream{serve: ok("a")}
	g, err := New(secure(config.PQPrefer), Options{Dial: anyDialer(a)})
	if err != nil {
		t.Fatal(err)
	}
	for i, pq := range []config.PQ{config.PQPrefer, config.PQRequire, config.PQRequire, config.PQPrefer} {
		if err := g.Swap(secure(pq)); err != nil {
			t.Fatal(err)
		}
		r := request("GET", "/")
		g.Serve(&r.x)
		if want := [...]int32{1, 2, 2, 3}[i]; a.dials.Load() != want {
			t.Errorf("step %d: %d dials, want %d", i, a.dials.Load(), want)
		}
		if got := g.Status().Upstreams[0].PQ; got != string(pq) {
			t.Errorf("status says %q", got)
		}
	}
	if err := g.Close(t.Context()); err != nil || a.open.Load() != 0 {
		t.Errorf("%v, %d open", err, a.open.Load())
	}
}

func TestCloseWaitsThenCuts(t *testing.T) {
	a := &fakeUpstream{serve: func(*fakeCall) error { return nil }} // never answers
	a.url = "http://10.0.0.1:80"
	g, err := New(treeTo(1), Options{Dial: dialer(a)})
	if err != nil {
		t.Fatal(err)
	}
	r := request("GET", "/")
	done := make(chan bool)
	go func() {
		g.Serve(&r.x)
		close(done)
	}()
	until(t, "it runs", func() bool { return a.open.Load() == 1 })
	cut := errors.New("time is up")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 20*time.Millisecond, cut)
	defer cancel()
	if err := g.Close(ctx); !errors.Is(err, cut) {
		t.Errorf("%v", err)
	}
	if a.open.Load() != 0 {
		t.Error("its connection is still open")
	}
	r.x.Cancel(cut) // the fake does not notice that its connection is closed
	<-done
	q := request("GET", "/")
	if g.Serve(&q.x); q.r.status != 503 {
		t.Errorf("after Close: %d", q.r.status)
	}
	if err := g.Swap(treeTo(1)); !errors.Is(err, ErrClosed) {
		t.Errorf("Swap after Close: %v", err)
	}
}
