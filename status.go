package pqgw

import (
	"fmt"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/telemetry"
)

// Status is the state of the running gateway.
func (s *Server) Status() telemetry.Status {
	st := s.state.Load()
	out := telemetry.Status{Build: s.o.Build, State: "ready", StartedAt: s.started}
	if !s.ready.Load() {
		out.State = "draining"
	}
	if st == nil {
		out.State = "starting"
		return out
	}
	out.Configuration = telemetry.ConfigurationStatus{
		Path: st.loaded.Path, Version: st.version, Hash: st.loaded.Hash, LoadedAt: st.at, LastError: s.refused(),
	}
	for _, l := range st.loaded.Tree.Listeners {
		out.Listeners = append(out.Listeners, s.listenerStatus(st.listeners[listenerKey{l.Name, l.Address.String()}]))
	}
	out.Upstreams = s.gateway.Status().Upstreams
	out.Certificates = certificates(st)
	out.Warnings = warnings(st)
	return out
}

func (s *Server) refused() string {
	if p := s.lastError.Load(); p != nil {
		return *p
	}
	return ""
}

func (s *Server) listenerStatus(l *running) telemetry.ListenerStatus {
	out := telemetry.ListenerStatus{Name: l.config.Name, Address: l.Addr().String(), Protocols: l.settings.Protocols, TLS: l.config.TLS}
	if udp := l.UDPAddr(); udp != nil && l.settings.QUIC != nil {
		out.UDPAddress = udp.String()
	}
	if t := l.settings.TLS; t != nil {
		out.PQ, out.Groups = t.PQ().String(), t.GroupsInForce()
		out.MinVersion = handshake.VersionName(t.MinVersion())
	}
	out.Count(s.metrics.Listeners.Series(l.config.Name))
	return out
}

func certificates(st *state) []telemetry.CertificateStatus {
	var out []telemetry.CertificateStatus
	for src := range st.sources.by {
		for _, c := range src.Describe() {
			out = append(out, certificate(c))
		}
	}
	for _, id := range st.sources.identities {
		out = append(out, certificate(id.Describe()))
	}
	return out
}

func certificate(c handshake.CertInfo) telemetry.CertificateStatus {
	name := c.Location
	if name == "" && len(c.Names) > 0 {
		name = c.Names[0]
	}
	return telemetry.CertificateStatus{
		Name: name, Source: c.Source, Hosts: c.Names, Issuer: c.Issuer, KeyType: c.Key, NotAfter: c.NotAfter,
	}
}

func warnings(st *state) []string {
	var out []string
	for _, w := range st.loaded.Warnings {
		out = append(out, w.String())
	}
	for _, l := range st.listeners {
		if t := l.settings.TLS; t != nil {
			for _, w := range t.Warnings() {
				out = append(out, fmt.Sprintf("listener %s: %s", l.config.Name, w))
			}
		}
	}
	return out
}

// announce tells at the start and after a reload what is in force, the groups above
// all: that post-quantum key exchange is off is never to be found out by accident.
func (s *Server) announce(st *state) {
	if s.o.Taken != nil {
		s.o.Taken(st.loaded)
	}
	for _, configured := range st.loaded.Tree.Listeners {
		l := st.listeners[listenerKey{configured.Name, configured.Address.String()}]
		args := []any{"listener", l.config.Name, "address", l.Addr().String(), "protocols", l.settings.Protocols}
		if udp := l.UDPAddr(); udp != nil && l.settings.QUIC != nil {
			args = append(args, "udp_address", udp.String())
		}
		if t := l.settings.TLS; t != nil {
			args = append(args, "pq", t.PQ().String(), "groups", t.GroupsInForce())
		}
		s.logger.Info("listening", args...)
	}
	for _, w := range warnings(st) {
		s.logger.Warn(w)
	}
	s.metrics.SetCertificates(certificates(st))
	s.metrics.ConfigLoaded(nil, st.at)
}
