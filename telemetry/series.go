package telemetry

import (
	"crypto/tls"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/handshake"
)

// Listeners are the series of all listeners. The zero value is empty.
type Listeners struct{ set[string, ListenerSeries] }

// Series returns the handle for the listener of this configured name.
func (l *Listeners) Series(name string) *ListenerSeries { return l.get(label(name)) }

// ListenerSeries counts one listener's connections and handshakes. Its
// methods only add to atomics, but for the account of classical connections.
type ListenerSeries struct {
	open       atomic.Int64
	accepted   atomic.Uint64
	clear      atomic.Uint64
	handshakes handshakes
	tlsRefused reasons
	refused    reasons
	broken     reasons
	classical  classical
}

// Opened counts an accepted connection.
func (s *ListenerSeries) Opened() {
	s.accepted.Add(1)
	s.open.Add(1)
}

// Closed counts the end of a connection that Opened has counted.
func (s *ListenerSeries) Closed() { s.open.Add(-1) }

// Clear counts a connection that is served without TLS, for the exposure.
func (s *ListenerSeries) Clear() { s.clear.Add(1) }

// Refused counts a connection that was turned away before its handshake, by
// one of our own fixed reasons ("limit", "not_ready", …).
func (s *ListenerSeries) Refused(reason string) { s.refused.add(reason) }

// Broken counts a connection that broke off in the middle of a request or that we ended
// for a fault of the client's, by one of our own fixed reasons ("head_cut", …).
func (s *ListenerSeries) Broken(reason string) { s.broken.add(reason) }

// Handshake counts a handshake that succeeded.
func (s *ListenerSeries) Handshake(f *handshake.Facts) {
	s.handshakes.add(f)
	s.classical.connection(f)
}

// HandshakeRefused counts one that did not.
func (s *ListenerSeries) HandshakeRefused(reason handshake.Reason) { s.tlsRefused.add(string(reason)) }

// Open is the number of connections at the moment.
func (s *ListenerSeries) Open() int64 { return s.open.Load() }

// Accepted is the number of connections since the start.
func (s *ListenerSeries) Accepted() uint64 { return s.accepted.Load() }

// Exposure is how many connections, since the start, can be read once a
// quantum computer is there, and how many can not.
type Exposure struct {
	// PostQuantum connections agreed on a hybrid or post-quantum group,
	// Classical ones on another, Clear ones had no TLS.
	PostQuantum uint64 `json:"post_quantum"`
	Classical   uint64 `json:"classical"`
	Clear       uint64 `json:"clear"`
}

// Exposure returns the listener's.
func (s *ListenerSeries) Exposure() Exposure {
	e := s.handshakes.exposure()
	e.Clear = s.clear.Load()
	return e
}

// handshakes counts by group, version, resumption and HelloRetryRequest. The
// zero value is empty.
type handshakes [len(groups)][len(versions)][2][2]atomic.Uint64

func (h *handshakes) add(f *handshake.Facts) {
	h[groupIndex(f.Group)][versionIndex(f.Version)][bit(f.Resumed)][bit(f.HRR)].Add(1)
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// each calls f for every combination that was counted.
func (h *handshakes) each(f func(g tls.CurveID, version string, resumed, hrr bool, n uint64)) {
	for g := range h {
		for v := range h[g] {
			for i := range 4 {
				if n := h[g][v][i>>1][i&1].Load(); n > 0 {
					f(groups[g], versions[v], i>>1 == 1, i&1 == 1, n)
				}
			}
		}
	}
}

func (h *handshakes) exposure() (e Exposure) {
	h.each(func(g tls.CurveID, _ string, _, _ bool, n uint64) {
		if handshake.PQGroup(g) {
			e.PostQuantum += n
		} else {
			e.Classical += n
		}
	})
	return e
}

// Requests are the series of all requests. The zero value is empty.
type Requests struct{ set[requestKey, RequestSeries] }

type requestKey struct{ listener, protocol, route string }

// Series returns the handle for requests by these configured names; protocol
// is one of "h1", "h2", "h3", "zap". Requests that match no route go by the
// route "".
func (r *Requests) Series(listener, protocol, route string) *RequestSeries {
	return r.get(requestKey{label(listener), label(protocol), label(route)})
}

// RequestSeries counts one kind of request. Its methods only add to atomics.
type RequestSeries struct {
	codes     codes
	durations histogram
	in, out   atomic.Uint64
}

// Observe counts a finished request: its status code, 0 when no answer was
// sent, and the time from its head to the end of its answer.
func (s *RequestSeries) Observe(code int, d time.Duration) {
	s.codes.add(code)
	s.durations.observe(d)
}

// Bytes adds body bytes read from and written to the client.
func (s *RequestSeries) Bytes(in, out int64) {
	s.in.Add(uint64(max(in, 0)))
	s.out.Add(uint64(max(out, 0)))
}

// Upstreams are the series of all upstreams. The zero value is empty.
type Upstreams struct{ set[string, UpstreamSeries] }

// Series returns the handle for the upstream of this configured name.
func (u *Upstreams) Series(name string) *UpstreamSeries { return u.get(label(name)) }

// UpstreamSeries counts what concerns an upstream as a whole.
type UpstreamSeries struct{ handshakes handshakes }

// Handshake counts a handshake of ours, as the client, that succeeded.
func (s *UpstreamSeries) Handshake(f *handshake.Facts) { s.handshakes.add(f) }

// Exposure returns the upstream's; connections in the clear are not counted.
func (s *UpstreamSeries) Exposure() Exposure {
	return s.handshakes.exposure()
}

// Endpoints are the series of all endpoints. The zero value is empty.
type Endpoints struct {
	set[endpointKey, EndpointSeries]
}

type endpointKey struct{ upstream, endpoint string }

// Series returns the handle for the endpoint of this configured address.
func (e *Endpoints) Series(upstream, endpoint string) *EndpointSeries {
	return e.get(endpointKey{label(upstream), label(endpoint)})
}

// EndpointSeries counts one endpoint's connections, requests and failures.
type EndpointSeries struct {
	// Active are connections with a request on them now, Idle those that are
	// kept; add 1 and −1 as they change. InFlight are requests now.
	Active, Idle, InFlight atomic.Int64

	codes     codes
	durations histogram
	failures  reasons
	retries   atomic.Uint64
}

// Observe counts a request that the endpoint answered, and the time from the
// first byte sent to the last received.
func (s *EndpointSeries) Observe(code int, d time.Duration) {
	s.codes.add(code)
	s.durations.observe(d)
}

// Failed counts a request that it did not answer, by one of our own fixed
// reasons ("connect", "timeout", "reset", "tls", …).
func (s *EndpointSeries) Failed(reason string) { s.failures.add(reason) }

// Retried counts a request that went on to another endpoint after this one
// had failed.
func (s *EndpointSeries) Retried() { s.retries.Add(1) }

// Requests is the number of answers since the start.
func (s *EndpointSeries) Requests() (n uint64) {
	s.codes.each(func(_ int, c uint64) { n += c })
	return n
}

// Failures is the number of requests since the start that it did not answer.
func (s *EndpointSeries) Failures() (n uint64) {
	for _, v := range s.failures.all() {
		n += v.Load()
	}
	return n
}
