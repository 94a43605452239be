package gateway

import (
	"slices"
	"strings"
	"time"

	"github.com/hanzoai/pqgw/telemetry"
)

// Status is the gateway as the admin page shows it.
type Status struct {
	// Upstreams by name; those that are retired and still in use are not listed.
	Upstreams []telemetry.UpstreamStatus
	// Routes is how many the configuration has.
	Routes int
	// Draining is how many endpoints of former configurations still have calls.
	Draining int
}

// Status tells how the gateway is now.
func (g *Gateway) Status() Status {
	t, now := g.tree.Load(), time.Now()
	s := Status{Routes: t.routes, Upstreams: make([]telemetry.UpstreamStatus, 0, len(t.upstreams))}
	for _, u := range t.upstreams {
		up := telemetry.UpstreamStatus{Name: u.name, PQ: u.pq, Exposure: u.series.Exposure()}
		for _, e := range u.endpoints {
			end := telemetry.EndpointStatus{Address: e.URL, State: e.State(now), TLSGroup: e.TLSGroup()}
			end.Count(e.Series)
			up.Endpoints = append(up.Endpoints, end)
		}
		s.Upstreams = append(s.Upstreams, up)
	}
	slices.SortFunc(s.Upstreams, func(a, b telemetry.UpstreamStatus) int { return strings.Compare(a.Name, b.Name) })
	g.mu.Lock()
	for e := range g.retired {
		if !e.Drained() {
			s.Draining++
		}
	}
	g.mu.Unlock()
	return s
}
