package gateway

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/telemetry"
)

// smooth is a transport without costs of its own, so that what is counted is
// the gateway's.
type smooth struct {
	info      exchange.Conn
	body      exchange.Bytes
	canceller exchange.Canceller
}

var smoothBody = make([]byte, 1024)

func (s *smooth) Dial(context.Context) (exchange.ClientConn, error) { return s, nil }
func (s *smooth) Call() (exchange.Call, error)                      { return s, nil }
func (s *smooth) Capacity() int                                     { return 1 }
func (s *smooth) Usable() bool                                      { return true }
func (s *smooth) Info() *exchange.Conn                              { return &s.info }
func (s *smooth) Close()                                            {}
func (s *smooth) SendBody(exchange.Source) error                    { return nil }
func (s *smooth) Tunnel() (exchange.Tunnel, error)                  { return nil, exchange.ErrTunnel }
func (s *smooth) Canceller() *exchange.Canceller                    { return &s.canceller }
func (s *smooth) Finish() bool                                      { return true }
func (s *smooth) Body() exchange.Source                             { return &s.body }
func (s *smooth) Send(*exchange.Exchange, exchange.Source, exchange.Timeouts) error {
	s.body.Reset(smoothBody)
	return nil
}

func (s *smooth) ReadHead(h *exchange.Head) error {
	h.Reset(nil)
	h.Status = 200
	h.AddKnownString(exchange.ContentType, "text/plain")
	return nil
}

func (s *smooth) Interim(*exchange.Head) error                       { return nil }
func (s *smooth) Start(*exchange.Head, int64) (exchange.Sink, error) { return nil, io.EOF }
func (s *smooth) Abort(error)                                        {}
func (s *smooth) Started() bool                                      { return false }
func (s *smooth) Respond(_ *exchange.Head, _ exchange.Source) error  { return nil }

type smoothClient struct{ smooth }

func (s *smoothClient) Tunnel(*exchange.Head) (exchange.Tunnel, error) {
	return nil, exchange.ErrTunnel
}

// loop serves the same request again and again.
func loop(tb testing.TB, log *telemetry.AccessLog) (serve func()) {
	tree := treeTo(1)
	s := &smooth{}
	s.canceller.Cancel = func(error) {}
	g, err := New(tree, Options{Dial: anyDialer(s), AccessLog: log})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = g.Close(context.Background()) })
	c := request("GET", "/v1/models?x=1", "Accept", "*/*", "User-Agent", "test")
	conn := c.x.Conn
	responder := &smoothClient{}
	return func() {
		c.x.Reset(conn)
		c.x.Start = time.Now()
		c.x.Responder = responder
		h := &c.x.Request
		h.Reset(nil)
		h.SetMethod(get)
		h.SetTarget(target)
		h.SetAuthority(authority)
		h.AddKnownString(exchange.Accept, "*/*")
		h.AddKnownString(exchange.UserAgent, "test")
		g.Serve(&c.x)
	}
}

var get, target, authority = []byte("GET"), []byte("/v1/models?x=1"), []byte("api.test:8443")

func TestExchangeAllocatesNothing(t *testing.T) {
	for name, log := range map[string]*telemetry.AccessLog{"without log": nil, "with log": telemetry.NewAccessLog(io.Discard, nil)} {
		serve := loop(t, log)
		for range 100 {
			serve()
		}
		if raceEnabled {
			serve() // the detector lets pools forget
		} else if n := testing.AllocsPerRun(1000, serve); n >= 0.5 {
			t.Errorf("%s: %v allocations an exchange", name, n)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkExchange(b *testing.B) {
	serve := loop(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		serve()
	}
}

func BenchmarkExchangeLogged(b *testing.B) {
	log := telemetry.NewAccessLog(io.Discard, nil)
	serve := loop(b, log)
	b.ReportAllocs()
	for b.Loop() {
		serve()
	}
	_ = log.Close()
}
