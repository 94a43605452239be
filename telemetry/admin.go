package telemetry

import (
	"context"
	"net/http"
)

// Admin is the operator's side door: pages about the running process and two
// calls that change it. It has no authentication of its own; who may reach its
// socket is who may use it.
//
//	GET  /metrics       Prometheus
//	GET  /healthz       200 while the process runs
//	GET  /readyz        200, or 503 when traffic should go elsewhere
//	GET  /status        Status as JSON
//	POST /reload        200, or 422 when the new configuration was refused
//	POST /drain         202; the process ends when its requests have
//	GET  /debug/pprof/  profiles
type Admin struct {
	// Metrics serves /metrics. Nil: 404.
	Metrics http.Handler
	// Status is asked for at each /status, with what changes already filled
	// in. Required.
	Status func() Status
	// Reload loads the configuration again; an error means that the old one
	// stays in force. Nil: 404.
	Reload func(context.Context) error
	// Drain begins to end the process and returns at once. Nil: 404.
	Drain func()
	// Ready says whether traffic should come. Required.
	Ready func() bool
}
