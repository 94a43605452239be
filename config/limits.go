package config

import "time"

// Limits bound what a stranger may take up. Sizes and counts of 0 are
// unlimited, durations of 0s never end, unless said otherwise.
type Limits struct {
	// HeadBytes is the longest head (start line and fields, as decoded) that is read; longer ones get 431. Also the limit on trailers. Never 0.
	HeadBytes Bytes `yaml:"head_bytes" default:"32KiB"`
	// Fields is the most header fields of a head; more get 431. Never 0.
	Fields int `yaml:"fields" default:"128"`
	// BodyBytes is the longest request body; longer ones get 413. The default lets uploads of audio and files through and still ends a body that never does.
	BodyBytes Bytes `yaml:"body_bytes" default:"1GiB"`
	// Connections is the most connections of one listener at a time. The default is 640 MiB of memory at the 20 KiB that an idle TLS connection takes.
	Connections int `yaml:"connections" default:"32768"`
	// Handshakes is the most TLS handshakes of one listener under way.
	Handshakes int `yaml:"handshakes" default:"4096"`
	// HandshakesPerAddress is the most TLS handshakes of one client address (IPv6: of its /64) under way.
	HandshakesPerAddress int `yaml:"handshakes_per_address" default:"256"`
	// HandshakeTimeout is the longest that a TLS or QUIC handshake may take.
	HandshakeTimeout time.Duration `yaml:"handshake_timeout" default:"10s"`
	// HeadTimeout is the longest from the first byte of a head to its last.
	HeadTimeout time.Duration `yaml:"head_timeout" default:"10s"`
	// BodyMinRate is the slowest in bytes per second that a request's body may arrive, averaged over ten seconds while the gateway waits for it. It is not applied once the answer has begun.
	BodyMinRate Bytes `yaml:"body_min_rate" default:"256B"`
	// IdleTimeout closes a kept-alive connection without a request.
	IdleTimeout time.Duration `yaml:"idle_timeout" default:"2m"`
	// StreamIdleTimeout ends an answer, a tunnel or a streamed request in which nothing moves either way. Long, because SSE and WebSocket connections are quiet for minutes. A client that takes nothing of what is there for it is cut after two minutes all the same.
	StreamIdleTimeout time.Duration `yaml:"stream_idle_timeout" default:"1h"`
	// RequestsPerConnection is after how many requests a connection is closed in good order, so that clients spread anew over a fleet.
	RequestsPerConnection int `yaml:"requests_per_connection" default:"100000"`
	// Streams is the most requests at a time on one connection of HTTP/2 or of QUIC, where zap-rpc alone has calls. Never 0.
	Streams int `yaml:"streams" default:"128"`
	// Calls is the most ZAP calls in flight on one zap-rpc connection, open streams among them; more get 500. Never 0.
	Calls int `yaml:"calls" default:"256"`
	// FrameBytes is the longest frame of zap-rpc; a longer one ends its connection. The global value holds for upstreams, too. Never 0.
	FrameBytes Bytes `yaml:"frame_bytes" default:"4MiB"`
}
