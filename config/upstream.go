package config

import "time"

// Upstream is a service behind the gateway: endpoints that are all alike.
type Upstream struct {
	// Endpoints are URLs: `http`, `https`, `h2c`, `h3`, `zap`, `zap+tls`, `zap+quic`, `zap-rpc+tls` and `zap-rpc+quic` with `//host:port`; `unix:/path` (HTTP/1.1) and `zap+unix:/path`.
	Endpoints []Endpoint `yaml:"endpoints" one:"true" required:"true"`
	// TLS settings towards endpoints that speak TLS: a name under `tls`, or the settings themselves. Left out: prefer post-quantum, verify by the system's CAs.
	TLS TLSRef `yaml:"tls"`
	// Balance is how an endpoint is chosen: `p2c`, of two by chance the one with fewer requests in flight.
	Balance Balance `yaml:"balance" default:"p2c"`
	// Retries is how often a request that can be replayed is tried again on another endpoint when a connection failed before an answer. Not for zap-rpc endpoints, whose calls are never sent twice.
	Retries int `yaml:"retries" default:"1"`
	// MaxIdle is the most idle connections kept per endpoint.
	MaxIdle int `yaml:"max_idle" default:"256"`
	// MaxConnections is the most connections per endpoint; requests beyond wait for timeouts.connect, then get 503. 0: unlimited. Not for zap-rpc endpoints, which have one for each client connection.
	MaxConnections int `yaml:"max_connections" default:"0"`
	// Timeouts towards the upstream.
	Timeouts Timeouts `yaml:"timeouts"`
}

// Timeouts towards an upstream. 0s never ends.
type Timeouts struct {
	// Connect is the longest that connecting may take, TLS included; then 502, a ZAP call 500 (or another endpoint).
	Connect time.Duration `yaml:"connect" default:"5s"`
	// FirstByte is the longest from the request's end to the answer's head, or from a ZAP call to its answer; then 504, a ZAP call 500. The default allows a model to think.
	FirstByte time.Duration `yaml:"first_byte" default:"5m"`
	// IdleStream ends an answer, a tunnel or a stream of zap-rpc in which the upstream and client are silent.
	IdleStream time.Duration `yaml:"idle_stream" default:"1h"`
	// Idle closes a kept connection that is not used. Shorter than what servers commonly allow (60s to 75s), so that we close first.
	Idle time.Duration `yaml:"idle" default:"50s"`
}

// TLSRef refers to TLS settings by name, or has them inline; the zero value does neither.
type TLSRef struct {
	// Name under the tree's `tls`.
	Name string
	// Settings given inline; nil when Name is.
	Settings *TLS
}

// Balance is how an endpoint is chosen.
type Balance string

// Ways to balance.
const (
	BalanceP2C Balance = "p2c" // power of two choices on requests in flight
)
