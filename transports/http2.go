package transports

import (
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/http2"
	"github.com/hanzoai/pqgw/transports/stream"
)

// http2Options are the settings as HTTP/2 takes them.
func http2Options(s *Settings) http2.Options {
	return http2.Options{
		Handler: s.Handler, Limits: s.Limits, MaxStreams: s.Streams, HeadTimeout: s.HeadTimeout,
		IdleTimeout: s.IdleTimeout, StreamIdle: s.StreamIdle, WriteTimeout: writeTimeout,
		BodyMinRate: s.BodyMinRate, MaxRequests: s.MaxRequests,
	}
}

// writeTimeout is how long a client may leave an answer without room: on HTTP/1 and ZAP, calls among
// them, one write of it.
const writeTimeout = 2 * time.Minute

// serveHTTP2 serves a connection; read are bytes of it that were read already.
func (l *Listener) serveHTTP2(s *stream.Stream, read []byte, info *exchange.Conn, f *inForce) {
	info.Protocol = exchange.HTTP2
	c := http2.NewConn(newPlainConn(s), info, &f.h2, read)
	if !l.track(c) {
		_ = s.Close()
		return
	}
	err := c.Serve()
	l.untrack(c)
	l.ended(err, info)
}
