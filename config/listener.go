package config

import "net/netip"

import "time"

// Listener is an address where clients arrive.
type Listener struct {
	// Name of the listener in routes, logs and metrics.
	Name string `yaml:"name" required:"true"`
	// Address is `host:port`, `:port` (all interfaces) or `unix:/path`.
	Address Address `yaml:"address" required:"true"`
	// Protocols that are spoken. Default: h1 and h2 with tls, h1 and h2c without.
	Protocols []Protocol `yaml:"protocols" one:"true"`
	// TLS names the settings under `tls` to serve by. Empty: in the clear.
	TLS string `yaml:"tls"`
	// Engine is how HTTP/1 is driven: `auto` uses the fast path where the platform has it, `portable` never does.
	Engine Engine `yaml:"engine" default:"auto"`
	// ProxyProtocol takes the client's address from a PROXY header (v1 or v2) that load balancers send. Left out: none is understood.
	ProxyProtocol *ProxyProtocol `yaml:"proxy_protocol"`
	// TrustedProxies are the networks whose X-Forwarded-* fields are believed. A client on a unix socket counts as 127.0.0.1. Empty: nobody's.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies" one:"true"`
	// Limits in place of the global ones; what is left out stays as it is there.
	Limits *Limits `yaml:"limits"`
	// EarlyData is what may be served before the handshake has ended (0-RTT), which an attacker can replay: nothing, or only safe methods.
	EarlyData EarlyData `yaml:"early_data" default:"off"`
	// QUIC tunes h3 and zap over QUIC.
	QUIC QUIC `yaml:"quic"`
	// ECH encrypts the name that clients ask for, with the keys of the key store.
	ECH bool `yaml:"ech" default:"false"`
	// RedirectHTTPS answers every request with the same URL under https, port 443; challenges of ACME apart. For listeners without tls.
	RedirectHTTPS bool `yaml:"redirect_https" default:"false"`
}

// Speaks reports whether the listener speaks p.
func (l *Listener) Speaks(p Protocol) bool {
	for _, have := range l.Protocols {
		if have == p {
			return true
		}
	}
	return false
}

// ProxyProtocol says from whom a PROXY header is taken.
type ProxyProtocol struct {
	// From are the networks that must send a PROXY header; from anyone else it is a bad request.
	From []netip.Prefix `yaml:"from" one:"true" required:"true"`
}

// QUIC tunes QUIC connections. RFC 9000.
type QUIC struct {
	// IdleTimeout closes a connection on which nothing arrives.
	IdleTimeout time.Duration `yaml:"idle_timeout" default:"30s"`
	// KeepAlive is the time after which a silent connection is pinged, so that an answer that is long in coming outlives idle_timeout. limits.idle_timeout ends a connection without a request all the same. 0s: never.
	KeepAlive time.Duration `yaml:"keep_alive" default:"15s"`
	// StreamWindow is how much a peer may send on one stream ahead of its reader.
	StreamWindow Bytes `yaml:"stream_window" default:"6MiB"`
	// ConnectionWindow is how much a peer may send on all streams ahead of their readers.
	ConnectionWindow Bytes `yaml:"connection_window" default:"15MiB"`
	// RetryAbove is the number of handshakes under way above which a client must first prove its address (Retry). 0: always.
	RetryAbove int `yaml:"retry_above" default:"256"`
}

// Protocol is what a listener speaks.
type Protocol string

// Protocols of listeners.
const (
	H1     Protocol = "h1"      // HTTP/1.1, in the clear or by ALPN
	H2     Protocol = "h2"      // HTTP/2 over TLS
	H2C    Protocol = "h2c"     // HTTP/2 in the clear, with prior knowledge
	H3     Protocol = "h3"      // HTTP/3 over QUIC
	ZAP    Protocol = "zap"     // HTTP exchanges as ZAP messages
	ZAPRPC Protocol = "zap-rpc" // ZAP calls in their envelope
)

// Engine is how HTTP/1 connections are driven.
type Engine string

// Engines.
const (
	EngineAuto     Engine = "auto"
	EnginePortable Engine = "portable"
)

// EarlyData is what may be served before the handshake has ended.
type EarlyData string

// What early data may carry.
const (
	EarlyDataOff  EarlyData = "off"
	EarlyDataSafe EarlyData = "safe" // GET, HEAD, OPTIONS, marked Early-Data: 1
)
