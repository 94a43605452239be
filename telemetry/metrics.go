package telemetry

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics counts what the gateway does and shows it to Prometheus. What counts
// asks for a handle once (Series, when a configuration is built) and then only
// adds to atomics; names, labels and maps are met when a scrape comes. Labels
// are configured names and fixed sets, never what a client sent.
//
// A handle asked for twice is the same one, so counters go on over reloads.
type Metrics struct {
	// Listeners counts connections and handshakes; Requests what came over
	// them; Upstreams and Endpoints what went on to whom.
	Listeners Listeners
	Requests  Requests
	Upstreams Upstreams
	Endpoints Endpoints

	reload       atomic.Pointer[reload]
	certificates atomic.Pointer[[]CertificateStatus]
	accessLog    atomic.Pointer[AccessLog]
	remoteSigns  *prometheus.HistogramVec
	registry     *prometheus.Registry
}

type reload struct {
	ok bool
	at time.Time // of the last that succeeded
}

// Build says what binary this is, for pqgw_build_info and Status.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
}

// NewMetrics makes an empty set with a registry of its own, which holds the
// figures of the Go runtime and of the process as well.
func NewMetrics(b Build) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), remoteSigns: newRemoteSigns()}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "pqgw_build_info",
		Help:        "Always 1; the labels say which build this is.",
		ConstLabels: prometheus.Labels{"version": label(b.Version), "revision": label(b.Revision), "goversion": label(b.Go)},
	})
	info.Set(1)
	m.registry.MustRegister(info, m.remoteSigns, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), (*collector)(m))
	return m
}

// Registry is where other rooms may register collectors of their own.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler serves the metrics in Prometheus's formats.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, MaxRequestsInFlight: 4, EnableOpenMetrics: true})
}

// ConfigLoaded tells of an attempt to load the configuration, the first at
// start included.
func (m *Metrics) ConfigLoaded(err error, at time.Time) {
	next := &reload{ok: err == nil, at: at}
	if old := m.reload.Load(); err != nil {
		next.at = time.Time{}
		if old != nil {
			next.at = old.at
		}
	}
	m.reload.Store(next)
}

// SetCertificates tells which certificates are in use now; of several with one
// name the one that ends first is shown.
func (m *Metrics) SetCertificates(certificates []CertificateStatus) {
	m.certificates.Store(&certificates)
}

// SetAccessLog tells whose lost lines to show; nil is none.
func (m *Metrics) SetAccessLog(l *AccessLog) { m.accessLog.Store(l) }

// label makes a configured name fit to be a label: valid UTF-8.
func label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
