package telemetry

import (
	"crypto/tls"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hanzoai/pqgw/handshake"
)

// collector turns Metrics into Prometheus's metrics when a scrape comes.
type collector Metrics

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("pqgw_"+name, help, labels, nil)
}

// The metrics, in the order of Collect.
var (
	descConnections = desc("connections", "Connections at the moment.", "listener")
	descAccepted    = desc("connections_accepted_total", "Connections accepted.", "listener")
	descConnRefused = desc("connections_refused_total", "Connections turned away before a handshake.", "listener", "reason")
	descBroken      = desc("connections_broken_total", "Connections that broke off in the middle of a request, or were ended for a fault of the client's.", "listener", "reason")
	descHandshakes  = desc("tls_handshakes_total", "Handshakes that succeeded.", "listener", "group", "version", "resumed", "hrr")
	descTLSRefused  = desc("tls_refused_total", "Handshakes that were refused or failed.", "listener", "reason")
	descExposure    = desc("exposure_connections_total", "Connections by what a quantum computer could read of them later: post_quantum, classical or clear.", "listener", "class")

	descClassical      = desc("classical_connections", "Connections with a classical key exchange, by the certificate's name that was asked for; window is hour or day.", "listener", "sni", "window")
	descClassicalBytes = desc("classical_bytes", "Body bytes on connections with a classical key exchange; window is hour or day.", "listener", "sni", "window")

	descRequests  = desc("requests_total", "Requests finished; code 0 had no answer.", "listener", "protocol", "route", "code")
	descDuration  = desc("request_duration_seconds", "From a request's head to the end of its answer.", "listener", "protocol", "route")
	descBytes     = desc("request_bytes_total", "Body bytes read from clients.", "listener", "protocol", "route")
	descRespBytes = desc("response_bytes_total", "Body bytes written to clients.", "listener", "protocol", "route")

	descUpHandshakes = desc("upstream_tls_handshakes_total", "Handshakes with upstreams that succeeded.", "upstream", "group", "version", "resumed", "hrr")
	descUpConns      = desc("upstream_connections", "Connections at the moment: active or idle.", "upstream", "endpoint", "state")
	descUpInFlight   = desc("upstream_requests_in_flight", "Requests at the moment.", "upstream", "endpoint")
	descUpRequests   = desc("upstream_requests_total", "Requests that an endpoint answered.", "upstream", "endpoint", "code")
	descUpDuration   = desc("upstream_request_duration_seconds", "From the first byte sent to an endpoint to the last received.", "upstream", "endpoint")
	descUpFailures   = desc("upstream_failures_total", "Requests that an endpoint did not answer.", "upstream", "endpoint", "reason")
	descUpRetries    = desc("upstream_retries_total", "Requests that went on to another endpoint after this one had failed.", "upstream", "endpoint")

	descReloadOK    = desc("config_last_reload_successful", "1 if the last attempt to load the configuration succeeded.")
	descReloadAt    = desc("config_last_reload_timestamp_seconds", "Unix time of the last that succeeded.")
	descExpiry      = desc("certificate_expiry_seconds", "Unix time at which the certificate in use ends.", "name")
	descLogDropped  = desc("access_log_dropped_total", "Access log lines lost because the target did not take them.")
	descLogWithheld = desc("access_log_suppressed_total", "Refused handshakes and broken connections left out of the access log because there were too many.")
)

// Describe sends nothing: the collector is unchecked, its labels come and go
// with the configuration.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics as they are now.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	out := sink(ch)
	for name, s := range c.Listeners.all() {
		out.listener(name, s)
	}
	out.classical((*Metrics)(c).PQReport(), c.certificates.Load())
	for k, s := range c.Requests.all() {
		out.requests(k, s)
	}
	for name, s := range c.Upstreams.all() {
		s.handshakes.each(func(g tls.CurveID, version string, resumed, hrr bool, n uint64) {
			out.counter(descUpHandshakes, n, name, handshake.GroupName(g), version, strconv.FormatBool(resumed), strconv.FormatBool(hrr))
		})
	}
	for k, s := range c.Endpoints.all() {
		out.endpoint(k, s)
	}
	if r := c.reload.Load(); r != nil {
		out.gauge(descReloadOK, float64(bit(r.ok)))
		if !r.at.IsZero() {
			out.gauge(descReloadAt, float64(r.at.UnixMilli())/1e3)
		}
	}
	if list := c.certificates.Load(); list != nil {
		out.certificates(*list)
	}
	l := c.accessLog.Load()
	out.counter(descLogDropped, l.Dropped())
	out.counter(descLogWithheld, l.Suppressed())
}

// sink is where a scrape's metrics go.
type sink chan<- prometheus.Metric

func (ch sink) counter(d *prometheus.Desc, n uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func (ch sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// histogram sends h unless it is empty: of ten thousand routes most are quiet.
func (ch sink) histogram(d *prometheus.Desc, h *histogram, labels ...string) {
	if count, sum, buckets := h.snapshot(); count > 0 {
		ch <- prometheus.MustNewConstHistogram(d, count, sum, buckets, labels...)
	}
}

func (ch sink) reasons(d *prometheus.Desc, r *reasons, labels ...string) {
	for reason, n := range r.all() {
		ch.counter(d, n.Load(), append(labels, reason)...)
	}
}

func (ch sink) listener(name string, s *ListenerSeries) {
	ch.gauge(descConnections, float64(s.open.Load()), name)
	ch.counter(descAccepted, s.accepted.Load(), name)
	ch.reasons(descConnRefused, &s.refused, name)
	ch.reasons(descBroken, &s.broken, name)
	s.handshakes.each(func(g tls.CurveID, version string, resumed, hrr bool, n uint64) {
		ch.counter(descHandshakes, n, name, handshake.GroupName(g), version, strconv.FormatBool(resumed), strconv.FormatBool(hrr))
	})
	ch.reasons(descTLSRefused, &s.tlsRefused, name)
	e := s.Exposure()
	ch.counter(descExposure, e.PostQuantum, name, "post_quantum")
	ch.counter(descExposure, e.Classical, name, "classical")
	ch.counter(descExposure, e.Clear, name, "clear")
}

func (ch sink) requests(k requestKey, s *RequestSeries) {
	seen := false
	s.codes.each(func(code int, n uint64) {
		seen = true
		ch.counter(descRequests, n, k.listener, k.protocol, k.route, strconv.Itoa(code))
	})
	ch.histogram(descDuration, &s.durations, k.listener, k.protocol, k.route)
	if seen {
		ch.counter(descBytes, s.in.Load(), k.listener, k.protocol, k.route)
		ch.counter(descRespBytes, s.out.Load(), k.listener, k.protocol, k.route)
	}
}

func (ch sink) endpoint(k endpointKey, s *EndpointSeries) {
	ch.gauge(descUpConns, float64(s.Active.Load()), k.upstream, k.endpoint, "active")
	ch.gauge(descUpConns, float64(s.Idle.Load()), k.upstream, k.endpoint, "idle")
	ch.gauge(descUpInFlight, float64(s.InFlight.Load()), k.upstream, k.endpoint)
	s.codes.each(func(code int, n uint64) {
		ch.counter(descUpRequests, n, k.upstream, k.endpoint, strconv.Itoa(code))
	})
	ch.histogram(descUpDuration, &s.durations, k.upstream, k.endpoint)
	ch.reasons(descUpFailures, &s.failures, k.upstream, k.endpoint)
	ch.counter(descUpRetries, s.retries.Load(), k.upstream, k.endpoint)
}

func (ch sink) certificates(list []CertificateStatus) {
	ends := make(map[string]int64, len(list))
	for i := range list {
		name, end := label(list[i].Name), list[i].NotAfter.Unix()
		if first, ok := ends[name]; !ok || end < first {
			ends[name] = end
		}
	}
	for name, end := range ends {
		ch.gauge(descExpiry, float64(end), name)
	}
}

// classical sends the account of classical connections. Its names are those of
// certificates, a wildcard standing for what it covers: what a stranger asks for
// besides is "other".
func (ch sink) classical(reports []PQReport, list *[]CertificateStatus) {
	names := map[string]bool{}
	if list != nil {
		for i := range *list {
			for _, h := range (*list)[i].Hosts {
				names[h] = true
			}
		}
	}
	for _, r := range reports {
		hour, day := map[string]Use{}, map[string]Use{}
		for _, p := range r.Clients {
			name := knownName(names, p.SNI)
			h, d := hour[name], day[name]
			h.add(p.Hour)
			d.add(p.Day)
			hour[name], day[name] = h, d
		}
		for window, uses := range map[string]map[string]Use{"hour": hour, "day": day} {
			for name, u := range uses {
				ch.gauge(descClassical, float64(u.Connections), r.Listener, label(name), window)
				ch.gauge(descClassicalBytes, float64(u.Bytes), r.Listener, label(name), window)
			}
		}
	}
}

// knownName is the name of a certificate that covers sni, or "other".
func knownName(names map[string]bool, sni string) string {
	sni = handshake.NormalName(sni)
	if names[sni] {
		return sni
	}
	if _, parent, ok := strings.Cut(sni, "."); ok && names["*."+parent] {
		return "*." + parent
	}
	return "other"
}
