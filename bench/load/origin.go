package load

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/identity"
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/telemetry"
	"github.com/hanzoai/pqgw/transports"
	"github.com/hanzoai/pqgw/transports/deadline"
)

// originRole is the name of the origin's role.
const originRole = "load-origin"

func init() { bench.RegisterRole(originRole, openOrigin) }

// OriginSettings are an origin's.
type OriginSettings struct {
	Host     string            `json:"host"` // to listen on
	Identity identity.Identity `json:"identity"`
	Group    tls.CurveID       `json:"group"`
}

// Origin is an origin process.
type Origin struct {
	*bench.Child
	// Addrs by name: "clear", "zap", "tls", and "null", the null server.
	Addrs map[string]string
}

// StartOrigin starts one by what spawn does.
func StartOrigin(ctx context.Context, spawn func(role string, settings any) (*bench.Child, error), s OriginSettings) (*Origin, error) {
	c, err := spawn(originRole, s)
	if err != nil {
		return nil, err
	}
	o := &Origin{Child: c}
	return o, c.Call(ctx, "addrs", nil, &o.Addrs)
}

// Limits of the origin are wide: what is measured is not refusing.
var originLimits = exchange.Limits{HeadBytes: 16 << 10, Fields: 64, BodyBytes: 2 * MaxBody}

func openOrigin(_ context.Context, settings json.RawMessage) (map[string]bench.Verb, func(), error) {
	var s OriginSettings
	if err := json.Unmarshal(settings, &s); err != nil {
		return nil, nil, err
	}
	addrs, end, err := s.Listen(handler{})
	if err != nil {
		return nil, nil, err
	}
	return map[string]bench.Verb{
		"addrs":  func(context.Context, json.RawMessage) (any, error) { return addrs, nil },
		"memory": bench.MemoryVerb,
	}, end, nil
}

// Listen serves every transport that there is by a handler, in this process,
// until end is called. addrs are by name as Origin.Addrs are.
func (s OriginSettings) Listen(h exchange.Handler) (addrs map[string]string, end func(), err error) {
	watch := deadline.New()
	ends := []func(){watch.Close}
	end = func() {
		for i := range ends {
			ends[len(ends)-1-i]()
		}
	}
	env := transports.Environment{
		Watch: watch, Metrics: telemetry.NewMetrics(telemetry.Build{}),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	addrs = make(map[string]string)
	for _, l := range []struct {
		name      string
		protocols []string
	}{{"clear", []string{transports.H1}}, {"zap", []string{transports.ZAP}}, {"tls", []string{transports.H1, transports.H2, transports.H3, transports.ZAP}}} {
		settings, err := s.settings(h, l.protocols, l.name == "tls")
		if err != nil {
			end()
			return nil, nil, err
		}
		listener, err := transports.Listen(l.name, net.JoinHostPort(s.Host, "0"), settings, env)
		if err != nil {
			end()
			return nil, nil, err
		}
		ends = append(ends, listener.Close)
		listener.Serve()
		addrs[l.name] = listener.Addr().String()
	}
	null, err := listenNull(net.JoinHostPort(s.Host, "0"))
	if err != nil {
		end()
		return nil, nil, err
	}
	ends = append(ends, null.close)
	addrs["null"] = null.listener.Addr().String()
	return addrs, end, nil
}

func (s OriginSettings) settings(h exchange.Handler, protocols []string, secure bool) (transports.Settings, error) {
	out := transports.Settings{
		Protocols: protocols, Handler: h, Limits: originLimits, HandshakeTimeout: 10 * time.Second,
		HeadTimeout: time.Minute, IdleTimeout: 10 * time.Minute, StreamIdle: time.Minute, Streams: 1000,
	}
	if !secure {
		return out, nil
	}
	source, err := s.Identity.Source()
	if err != nil {
		return out, err
	}
	policy := handshake.Settings{Sources: []handshake.Source{source}, PQ: handshake.Prefer, NextProtos: transports.ALPN(protocols)}
	if s.Group != 0 {
		policy.Groups = []tls.CurveID{s.Group}
	}
	if out.TLS, err = handshake.NewServer(policy); err != nil {
		return out, err
	}
	policy.NextProtos = transports.QUICALPN(protocols)
	overQUIC, err := handshake.NewServer(policy)
	out.QUIC = &transports.QUICSettings{TLS: overQUIC, RetryAbove: 1 << 20}
	return out, err
}

// handler answers GET with a body of the size that the path names, and
// anything else with the number of bytes that came.
type handler struct{}

var _ exchange.Handler = handler{}

// Begin readies an exchange for the answer 200. What the transport has refused it
// answers itself, and returns false.
func Begin(x *exchange.Exchange) bool {
	h := &x.Response
	h.Reset(nil)
	h.Status = 200
	if x.Refusal == nil {
		return true
	}
	h.Status = x.Refusal.Status
	_ = x.Responder.Respond(h, nil) // the client sees
	return false
}

// Serve implements exchange.Handler.
func (handler) Serve(x *exchange.Exchange) {
	if !Begin(x) {
		return
	}
	h := &x.Response
	size, compare, err := sizeOf(x.Request.Target())
	if err == nil && x.Request.Method == exchange.GET {
		_ = x.Responder.Respond(h, exchange.NewBytes(pattern()[:size])) // the client sees
		return
	}
	var got int64
	if err == nil {
		got, err = drain(x.Body, compare)
	}
	text := strconv.FormatInt(got, 10)
	if err != nil {
		h.Status, text = 400, err.Error()
	}
	_ = x.Responder.Respond(h, exchange.NewBytes([]byte(text))) // as above
}

var errDiffers = errors.New("the body is not the one that was sent")

// drain reads a body to its end.
func drain(body exchange.Source, compare bool) (n int64, err error) {
	if body == nil {
		return 0, nil
	}
	for {
		piece, err := body.Next()
		if compare && !same(piece, n) {
			return n, fmt.Errorf("%w: at byte %d", errDiffers, n)
		}
		n += int64(len(piece))
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
