package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// remoteSignBuckets begin far below a round trip between racks and end at the
// time that a handshake waits.
var remoteSignBuckets = []float64{
	50e-6, 100e-6, 150e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1, 5,
}

func newRemoteSigns() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "pqgw_remote_sign_seconds", Buckets: remoteSignBuckets,
		Help: "Signatures by signing servers, all tries in; result is ok or error.",
	}, []string{"key", "result"})
}

// RemoteSign returns what observes the signatures by a remote key of this
// configured name: the time of each, and how it ended.
func (m *Metrics) RemoteSign(key string) func(d time.Duration, err error) {
	ok, failed := m.remoteSigns.WithLabelValues(label(key), "ok"), m.remoteSigns.WithLabelValues(label(key), "error")
	return func(d time.Duration, err error) {
		if err != nil {
			failed.Observe(d.Seconds())
			return
		}
		ok.Observe(d.Seconds())
	}
}
