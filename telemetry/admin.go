package telemetry

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
)

// maxAdminBody bounds what a caller may send; no call needs any of it.
const maxAdminBody = 4 << 10

// Admin is the operator's side door: pages about the running process and two
// calls that change it. It has no authentication of its own; who may reach its
// socket is who may use it. Its functions may be called by several goroutines
// at once.
//
//	GET  /metrics       Prometheus
//	GET  /healthz       200 while the process runs
//	GET  /readyz        200, or 503 when traffic should go elsewhere
//	GET  /status        Status as JSON
//	GET  /status/pq     PQReport of each listener, as JSON
//	POST /reload        200, or 422 when the new configuration was refused
//	POST /drain         202; the process ends when its requests have
//	GET  /debug/pprof/  profiles
type Admin struct {
	// Metrics serves /metrics. Nil: 404.
	Metrics http.Handler
	// Status is asked for at each /status, with what changes already filled
	// in. Required.
	Status func() Status
	// PQ is asked for at each /status/pq. Nil: 404.
	PQ func() []PQReport
	// Reload loads the configuration again; an error means that the old one
	// stays in force. Nil: 404.
	Reload func(context.Context) error
	// Drain begins to end the process and returns at once. Nil: 404.
	Drain func()
	// Ready says whether traffic should come. Required.
	Ready func() bool
}

// ReloadAnswer is what POST /reload answers, as JSON.
type ReloadAnswer struct {
	Reloaded bool `json:"reloaded"`
	// Error is why the new configuration was refused.
	Error         string              `json:"error,omitempty"`
	Configuration ConfigurationStatus `json:"configuration"`
}

// DrainAnswer is what POST /drain answers, as JSON.
type DrainAnswer struct {
	Draining bool `json:"draining"`
}

// Handler serves the pages. Calls that a web page made in an operator's
// browser are refused with 403: those of another origin, and those that reach
// a loopback address by a name of the page's choosing (DNS rebinding).
func (a *Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answerText(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, http.StatusOK, a.Status().complete()) })
	if a.PQ != nil {
		mux.HandleFunc("GET /status/pq", func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, http.StatusOK, a.PQ()) })
	}
	if a.Metrics != nil {
		mux.Handle("GET /metrics", a.Metrics)
	}
	if a.Reload != nil {
		mux.HandleFunc("POST /reload", a.reload)
	}
	if a.Drain != nil {
		mux.HandleFunc("POST /drain", a.drain)
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return ownHost(http.NewCrossOriginProtection().Handler(limitBody(mux)))
}

func (a *Admin) readyz(w http.ResponseWriter, _ *http.Request) {
	if a.Ready() {
		answerText(w, http.StatusOK, "ready\n")
		return
	}
	answerText(w, http.StatusServiceUnavailable, "not ready\n")
}

func (a *Admin) reload(w http.ResponseWriter, r *http.Request) {
	code, answer := http.StatusOK, ReloadAnswer{Reloaded: true}
	// The one who asked may go; a reload that has begun is not left half done.
	if err := a.Reload(context.WithoutCancel(r.Context())); err != nil {
		code, answer = http.StatusUnprocessableEntity, ReloadAnswer{Error: err.Error()}
	}
	answer.Configuration = a.Status().Configuration
	answerJSON(w, code, answer)
}

func (a *Admin) drain(w http.ResponseWriter, _ *http.Request) {
	a.Drain()
	answerJSON(w, http.StatusAccepted, DrainAnswer{Draining: true})
}

func answerText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text) // the caller has gone: nobody to tell
}

func answerJSON(w http.ResponseWriter, code int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // the caller has gone: nobody to tell
}

func limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxAdminBody)
		next.ServeHTTP(w, r)
	})
}

// ownHost refuses names that a stranger's DNS may point at a loopback address.
func ownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if onLoopback(local) && !isLocalName(r.Host) {
			http.Error(w, "this address is asked by IP or as localhost only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func onLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

func isLocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || strings.EqualFold(host, "localhost")
}
