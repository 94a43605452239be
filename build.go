package pqgw

import (
	"errors"
	"fmt"
	"time"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports"
)

// build makes the state of a configuration beside the one in force: its
// certificates are loaded and its new sockets bound, but nothing is served yet.
func (s *Server) build(loaded *Loaded, old *state) (*state, error) {
	t := loaded.Tree
	st := &state{loaded: loaded, at: time.Now(), listeners: map[listenerKey]*running{}}
	st.version = s.version + 1
	var before *sources
	if old != nil {
		before = old.sources
	}
	var err error
	if st.rings, err = s.openRings(t); err != nil {
		return nil, err
	}
	st.roots = st.rings.roots(st.at)
	if st.sources, err = s.loadSources(t, before); err != nil {
		return nil, err
	}
	s.building = st.sources
	var problems []error
	for _, l := range t.Listeners {
		if err := s.buildListener(t, l, st, old); err != nil {
			problems = append(problems, err)
		}
	}
	if len(problems) == 0 {
		return st, nil
	}
	for key, l := range st.listeners {
		if old == nil || old.listeners[key] == nil {
			l.Close()
		}
	}
	st.sources.closeBut(before)
	return nil, errors.Join(problems...)
}

func (s *Server) buildListener(t *config.Tree, l *config.Listener, st, old *state) error {
	settings, err := s.settings(t, l, st)
	if err != nil {
		return err
	}
	key := listenerKey{l.Name, l.Address.String()}
	r := &running{config: l, settings: settings}
	if old != nil && old.listeners[key] != nil {
		r.Listener = old.listeners[key].Listener
		if err := r.Prepare(settings); err != nil {
			return err
		}
	} else {
		env := transports.Environment{Watch: s.watch, Metrics: s.metrics, Log: s.log, Logger: s.logger, Early: s.early, From: former(t, old, key)}
		if r.Listener, err = transports.Listen(l.Name, key.address, settings, env); err != nil {
			return err
		}
	}
	st.listeners[key] = r
	return nil
}

// former is the listener of the configuration in force that a new one follows: it
// has the same address and goes, as one does that gets another name.
func former(t *config.Tree, old *state, key listenerKey) *transports.Listener {
	if old == nil {
		return nil
	}
	stays := map[listenerKey]bool{}
	for _, l := range t.Listeners {
		stays[listenerKey{l.Name, l.Address.String()}] = true
	}
	for have, l := range old.listeners {
		if have.address == key.address && !stays[have] {
			return l.Listener
		}
	}
	return nil
}

// served is the gateway as the listeners' handler; it is made after them.
type served struct{ s *Server }

func (h served) Serve(x *exchange.Exchange) { h.s.gateway.Serve(x) }

func (h served) RouteRPC(c *exchange.Conn, method uint32) (exchange.RPCRoute, uint32) {
	return h.s.gateway.RouteRPC(c, method)
}

func (h served) RPCDone(r *exchange.RPCRecord) { h.s.gateway.RPCDone(r) }

// settings turns a listener of the configuration into one of the transports'.
func (s *Server) settings(t *config.Tree, l *config.Listener, st *state) (transports.Settings, error) {
	lim := t.LimitsFor(l)
	set := transports.Settings{
		Handler:          served{s},
		RPC:              served{s},
		Portable:         l.Engine == config.EnginePortable,
		Trusted:          l.TrustedProxies,
		Limits:           exchange.Limits{HeadBytes: int(lim.HeadBytes), Fields: lim.Fields, BodyBytes: int64(lim.BodyBytes)},
		Connections:      lim.Connections,
		HandshakeTimeout: lim.HandshakeTimeout,
		HeadTimeout:      lim.HeadTimeout,
		IdleTimeout:      lim.IdleTimeout,
		StreamIdle:       lim.StreamIdleTimeout,
		BodyMinRate:      int64(lim.BodyMinRate),
		MaxRequests:      lim.RequestsPerConnection,
		Streams:          lim.Streams,
		RPCCalls:         lim.Calls,
		RPCFrameBytes:    int(lim.FrameBytes),
	}
	for _, p := range l.Protocols {
		set.Protocols = append(set.Protocols, string(p))
	}
	if l.ProxyProtocol != nil {
		set.ProxyFrom = l.ProxyProtocol.From
	}
	cfg := t.TLSFor(l)
	if cfg == nil {
		return set, nil
	}
	var err error
	if set.TLS, err = listenerTLS(l, cfg, st, transports.ALPN(set.Protocols)); err != nil {
		return set, fmt.Errorf("listener %s, tls %s: %w", l.Name, l.TLS, err)
	}
	if protos := transports.QUICALPN(set.Protocols); len(protos) > 0 && !l.Address.IsUnix() {
		if set.QUIC, err = quicSettings(l, cfg, st, protos); err != nil {
			return set, fmt.Errorf("listener %s, tls %s: %w", l.Name, l.TLS, err)
		}
	}
	set.Handshakes = handshake.NewLimiter(handshake.Limits{Total: lim.Handshakes, PerAddress: lim.HandshakesPerAddress})
	return set, nil
}

func quicSettings(l *config.Listener, cfg *config.TLS, st *state, protos []string) (*transports.QUICSettings, error) {
	t, err := listenerTLS(l, cfg, st, protos)
	if err != nil {
		return nil, err
	}
	return &transports.QUICSettings{
		TLS: t, IdleTimeout: l.QUIC.IdleTimeout, KeepAlive: l.QUIC.KeepAlive,
		StreamWindow: uint64(l.QUIC.StreamWindow), ConnectionWindow: uint64(l.QUIC.ConnectionWindow), //nolint:gosec // sizes
		RetryAbove: l.QUIC.RetryAbove, EarlyData: l.EarlyData == config.EarlyDataSafe,
	}, nil
}

// listenerTLS makes one of the TLS sides of a listener.
func listenerTLS(l *config.Listener, cfg *config.TLS, st *state, protos []string) (*handshake.Server, error) {
	t, err := serverTLS(cfg, st.sources, st.roots, protos)
	if err == nil && l.ECH {
		t.SetECHKeys(st.rings.echKeys(st.at))
	}
	return t, err
}

// servers are the TLS sides that a listener has: of TCP and of QUIC.
func (r *running) servers() (list []*handshake.Server) {
	if r.settings.TLS != nil {
		list = append(list, r.settings.TLS)
	}
	if r.settings.QUIC != nil {
		list = append(list, r.settings.QUIC.TLS)
	}
	return list
}
