package telemetry

import (
	"crypto/tls"
	"time"

	"github.com/hanzoai/pqgw/handshake"
)

// Record is one finished request as the access log tells it. It holds plain
// values only and may live on the caller's stack; nothing of it is kept after
// AccessLog.Request returns, so byte slices may point into pooled memory.
//
// Every field named by a JSON key without "when set" is on every line, empty
// or zero where there was nothing; strings are cut at 4 KiB.
type Record struct {
	// Time is when the request's head had been read: "time", UTC, RFC 3339
	// with milliseconds.
	Time time.Time
	// RequestID is "request_id".
	RequestID []byte
	// Listener is the configured name: "listener".
	Listener string
	// Protocol is "h1", "h2", "h3" or "zap": "protocol".
	Protocol string
	// Client is the address that the request is held to come from, with its
	// port where known, after PROXY protocol and trusted proxies: "client".
	Client string
	// Remote is the address at the other end of the socket: "remote", when
	// set and not equal to Client.
	Remote string
	// Method, Host and Path are what the client asked for: "method", "host",
	// "path". The log cuts Path at its query: query strings hold keys.
	Method, Host, Path []byte
	// Route is the configured name or pattern: "route", when set.
	Route string
	// Status is the code sent to the client, 0 when none was: "status".
	Status int
	// BytesIn and BytesOut count body bytes read from and written to the
	// client: "bytes_in", "bytes_out".
	BytesIn, BytesOut int64
	// Duration is from Time to the last byte of the answer: "duration_ms",
	// with three decimals.
	Duration time.Duration
	// Upstream is the configured name, Endpoint the address that answered:
	// "upstream"; "endpoint", when set.
	Upstream, Endpoint string
	// UpstreamDuration is from the first byte sent upstream to the last
	// received: "upstream_ms".
	UpstreamDuration time.Duration
	// UpstreamTLSGroup is the key-exchange group of the upstream's connection,
	// 0 in the clear: "upstream_tls_group".
	UpstreamTLSGroup tls.CurveID
	// TLS is what the client's handshake agreed on; zero in the clear:
	// "tls_version" ("1.3"), "tls_group" ("X25519MLKEM768"), "tls_pq",
	// "tls_hrr", "tls_resumed", "tls_sni", "tls_alpn".
	TLS handshake.Facts
	// Peer is the verified name of the client: "peer", when set. PQIdentity
	// says that a post-quantum signature proved it: "pq_identity", when true.
	Peer       string
	PQIdentity bool
	// Error is the typed reason when the exchange did not go well: "error".
	Error string
}

// BrokenRecord is one connection that broke off in the middle of a request, or was ended for
// a fault of the client's, with "event":"connection_broken". Its lines are limited in rate
// together with those of refused handshakes.
type BrokenRecord struct {
	// Time is when the connection ended: "time".
	Time time.Time
	// Listener is the configured name: "listener".
	Listener string
	// Client is the peer's address: "client".
	Client string
	// Protocol is as in a Record: "protocol".
	Protocol string
	// Reason is why, one of a fixed set: "error".
	Reason string
	// Detail is what to tell an operator besides: "detail".
	Detail string
}

// HandshakeRecord is one refused handshake as the access log tells it, with
// "event":"handshake_refused". Lines are limited in rate: under a flood most
// are left out, and the next line says how many in "suppressed".
type HandshakeRecord struct {
	// Time is when the handshake was refused: "time".
	Time time.Time
	// Listener is the configured name: "listener".
	Listener string
	// Client is the peer's address: "client".
	Client string
	// Reason is why: "error".
	Reason handshake.Reason
	// Detail is what to tell an operator besides: "detail", when set.
	Detail string
	// SNI is the server name that was asked for: "tls_sni".
	SNI string
	// ALPN are the protocols offered: "alpn_offered", at most 16 of them.
	ALPN []string
	// Groups are the groups offered: "groups_offered", at most 32 of them.
	Groups []tls.CurveID
}
