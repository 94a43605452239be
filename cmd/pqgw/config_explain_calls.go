package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/hanzoai/pqgw/config"
)

// callLimits are what a listener allows callers of ZAP.
type callLimits struct {
	InFlight   int          `json:"in_flight"`
	FrameBytes config.Bytes `json:"frame_bytes"`
}

// callTimeouts are how long a route lets a call take.
type callTimeouts struct {
	Answer     duration `json:"answer"`
	IdleStream duration `json:"idle_stream"`
}

// duration is written as in the file.
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d *duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = duration(v)
	return err
}

func (d duration) String() string { return time.Duration(d).String() }

// callLimitsOf is nil for a listener that takes no calls.
func callLimitsOf(t *config.Tree, l *config.Listener) *callLimits {
	if !slices.Contains(l.Protocols, config.ZAPRPC) {
		return nil
	}
	lim := t.LimitsFor(l)
	return &callLimits{lim.Calls, lim.FrameBytes}
}

// callTimeoutsOf is nil for a route that sends no calls anywhere.
func callTimeoutsOf(t *config.Tree, r *config.Route) *callTimeouts {
	u := t.Upstreams[r.To]
	if u == nil || !u.Endpoints[0].Scheme.RPC() {
		return nil
	}
	limits := t.TimeoutsFor(r, u)
	return &callTimeouts{duration(limits.FirstByte), duration(limits.IdleStream)}
}

func (l *callLimits) String() string {
	return fmt.Sprintf("up to %d calls in flight on a connection, frames up to %s", l.InFlight, l.FrameBytes)
}

func (c *callTimeouts) String() string {
	return "an answer may take " + orEver(c.Answer) + ", a stream may stand still for " + orEver(c.IdleStream)
}

func orEver(d duration) string {
	if d == 0 {
		return "ever"
	}
	return d.String()
}
