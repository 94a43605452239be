package gateway_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/gateway"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/telemetry"
)

// takesCalls is an upstream for calls that is never called.
type takesCalls struct {
	name    string
	retired *int
}

func (u *takesCalls) Lease(context.Context) (exchange.RPCConn, error) {
	return nil, exchange.ErrConnClosed
}
func (u *takesCalls) Retire() { *u.retired++ }

func callTree(t *testing.T) *config.Tree {
	t.Helper()
	tree := config.New()
	tree.Listeners = []*config.Listener{{Name: "rpc"}, {Name: "other"}}
	for _, name := range []string{"users", "ledger", "rest"} {
		u := config.Default[config.Upstream]()
		e, err := config.ParseEndpoint("zap-rpc+tls://" + name + ":9999")
		if err != nil {
			t.Fatal(err)
		}
		u.Endpoints = []config.Endpoint{e}
		tree.Upstreams[name] = u
	}
	three, four := uint32(3), uint32(4)
	tree.Routes = []*config.Route{
		{Name: "all", To: "rest", Match: config.Match{Listener: []string{"rpc"}}},
		{Name: "three", To: "users", Match: config.Match{Listener: []string{"rpc", "other"}, RPCMethod: &three}},
		{Name: "four", To: "ledger", Match: config.Match{Listener: []string{"other"}, RPCMethod: &four, Peer: []string{"svc-a"}}},
		{Name: "web", To: "rest", Match: config.Match{Path: "/v1/*"}},
	}
	return tree
}

func TestCallsAreRoutedByMethodListenerAndPeer(t *testing.T) {
	retired := 0
	var log bytes.Buffer
	access := telemetry.NewAccessLog(&log, nil)
	tree := callTree(t)
	g, err := gateway.New(tree, gateway.Options{
		AccessLog: access,
		DialRPC: func(_ *config.Tree, u *config.Upstream) (exchange.RPCUpstream, error) {
			return &takesCalls{u.Endpoints[0].Address.Addr, &retired}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		listener, peer string
		method         uint32
		want           string
		status         uint32
	}{
		{"rpc", "", 3, "users:9999", 0},
		{"other", "", 3, "users:9999", 0},
		{"rpc", "", 4, "rest:9999", 0},
		{"other", "svc-a", 4, "ledger:9999", 0},
		{"other", "svc-b", 4, "", 403},
		{"other", "", 4, "", 403},
		{"other", "", 5, "", 404},
		{"rpc", "", 5, "rest:9999", 0},
	} {
		conn := &exchange.Conn{Listener: q.listener, Facts: handshake.Facts{PeerName: q.peer}}
		r, status := g.RouteRPC(conn, q.method)
		got := ""
		if r.Upstream != nil {
			got = r.Upstream.(*takesCalls).name //nolint:forcetypeassert // the test's own
		}
		if got != q.want || status != q.status {
			t.Errorf("%+v: %q %d", q, got, status)
		}
	}
	g.RPCDone(&exchange.RPCRecord{
		Conn: &exchange.Conn{Listener: "rpc", ClientText: "192.0.2.1"}, Method: 3, Status: 200, Start: time.Now(), In: 5, Out: 7,
		Upstream: &exchange.Conn{ClientText: "zap-rpc+tls://users:9999"},
	})
	before, _ := g.RouteRPC(&exchange.Conn{Listener: "rpc"}, 3)
	if err := g.Swap(callTree(t)); err != nil {
		t.Fatal(err)
	}
	if after, _ := g.RouteRPC(&exchange.Conn{Listener: "rpc"}, 3); after != before || retired != 0 {
		t.Error("an upstream that stays as it was is made anew")
	}
	next := callTree(t)
	next.Upstreams["users"].Timeouts.FirstByte = time.Second
	next.Upstreams["rest"].MaxIdle++
	if err := g.Swap(next); err != nil {
		t.Fatal(err)
	}
	if retired != 1 {
		t.Errorf("%d upstreams retired, want the one whose connections changed", retired)
	}
	if after, _ := g.RouteRPC(&exchange.Conn{Listener: "rpc"}, 3); after.Upstream != before.Upstream || after.Timeouts.FirstByte != time.Second {
		t.Errorf("after a change of its timeouts the upstream's route is %+v", after)
	}
	if err := g.Close(context.Background()); err != nil || retired != 4 {
		t.Errorf("%v; %d retired", err, retired)
	}
	_ = access.Close()
	for _, want := range []string{`"protocol":"zap-rpc"`, `"method":"3"`, `"route":"three"`, `"upstream":"users"`, `"endpoint":"zap-rpc+tls://users:9999"`, `"status":200`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, &log)
		}
	}
}
