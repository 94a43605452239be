package telemetry

import (
	"slices"
	"time"
)

// Status is what the admin page /status shows, as JSON.
type Status struct {
	Build
	// State is "starting", "ready" or "draining".
	State     string    `json:"state"`
	StartedAt time.Time `json:"started_at"`
	// UptimeSeconds is filled in by the admin page.
	UptimeSeconds int64               `json:"uptime_seconds"`
	Configuration ConfigurationStatus `json:"configuration"`
	Listeners     []ListenerStatus    `json:"listeners"`
	Upstreams     []UpstreamStatus    `json:"upstreams"`
	Certificates  []CertificateStatus `json:"certificates"`
	// Warnings are what an operator should look at, a sentence each.
	Warnings []string `json:"warnings"`
}

// ConfigurationStatus says which configuration is in force.
type ConfigurationStatus struct {
	// Path is the file it came from, empty when it was made of flags.
	Path string `json:"path,omitempty"`
	// Version counts the configurations taken since the start, from 1.
	Version int `json:"version"`
	// Hash is the SHA-256 of the file, in hexadecimal.
	Hash     string    `json:"hash"`
	LoadedAt time.Time `json:"loaded_at"`
	// LastError is why the last reload was refused; empty when it was not.
	LastError string `json:"last_error,omitempty"`
}

// ListenerStatus is one listener.
type ListenerStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"` // as bound, with its port
	// UDPAddress is the one bound for QUIC, empty without.
	UDPAddress string   `json:"udp_address,omitempty"`
	Protocols  []string `json:"protocols"`
	// TLS names the settings it uses, empty in the clear; PQ is "require" or
	// "prefer"; MinVersion is "1.3" or "1.2".
	TLS        string `json:"tls,omitempty"`
	PQ         string `json:"pq,omitempty"`
	MinVersion string `json:"min_version,omitempty"`
	// Groups are the key-exchange groups in force.
	Groups      []string `json:"groups,omitempty"`
	Connections int64    `json:"connections"`
	Accepted    uint64   `json:"accepted"`
	Exposure    Exposure `json:"exposure"`
}

// Count fills in what the listener's series knows.
func (l *ListenerStatus) Count(s *ListenerSeries) {
	l.Connections, l.Accepted, l.Exposure = s.Open(), s.Accepted(), s.Exposure()
}

// UpstreamStatus is one upstream.
type UpstreamStatus struct {
	Name string `json:"name"`
	// PQ is "require", "prefer" or "off"; empty where no endpoint has TLS.
	PQ        string           `json:"pq,omitempty"`
	Endpoints []EndpointStatus `json:"endpoints"`
	Exposure  Exposure         `json:"exposure"`
}

// EndpointStatus is one endpoint of an upstream.
type EndpointStatus struct {
	Address string `json:"address"`
	// State is "up", or why it is not asked: "down", "ejected".
	State    string `json:"state"`
	Active   int64  `json:"active"`
	Idle     int64  `json:"idle"`
	InFlight int64  `json:"in_flight"`
	Requests uint64 `json:"requests"`
	Failures uint64 `json:"failures"`
	// TLSGroup is what the last handshake with it agreed on.
	TLSGroup string `json:"tls_group,omitempty"`
}

// Count fills in what the endpoint's series knows.
func (e *EndpointStatus) Count(s *EndpointSeries) {
	e.Active, e.Idle, e.InFlight = s.Active.Load(), s.Idle.Load(), s.InFlight.Load()
	e.Requests, e.Failures = s.Requests(), s.Failures()
}

// CertificateStatus is one certificate in use.
type CertificateStatus struct {
	// Name is what it is configured by: a file, or its first host.
	Name string `json:"name"`
	// Source is "files", "dev", "acme" or "kms".
	Source string   `json:"source"`
	Hosts  []string `json:"hosts"`
	Issuer string   `json:"issuer,omitempty"`
	// KeyType is "ECDSA P-256", "RSA 2048", ….
	KeyType   string    `json:"key_type,omitempty"`
	NotBefore time.Time `json:"not_before"`
	NotAfter  time.Time `json:"not_after"`
	// Error is why a newer one was not taken; empty when there was none.
	Error string `json:"error,omitempty"`
}

// complete returns a copy that is fit to be shown: lists are empty, not null,
// and the uptime is that of now.
func (s Status) complete() Status {
	if !s.StartedAt.IsZero() {
		s.UptimeSeconds = int64(time.Since(s.StartedAt).Seconds())
	}
	s.Listeners = orEmpty(slices.Clone(s.Listeners))
	for i := range s.Listeners {
		s.Listeners[i].Protocols = orEmpty(s.Listeners[i].Protocols)
	}
	s.Upstreams = orEmpty(slices.Clone(s.Upstreams))
	for i := range s.Upstreams {
		s.Upstreams[i].Endpoints = orEmpty(s.Upstreams[i].Endpoints)
	}
	s.Certificates = orEmpty(slices.Clone(s.Certificates))
	for i := range s.Certificates {
		s.Certificates[i].Hosts = orEmpty(s.Certificates[i].Hosts)
	}
	s.Warnings = orEmpty(s.Warnings)
	return s
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
