package transports

import (
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/handshake"
)

// TestAnIdleConnectionEndsThoughItIsKeptAlive: pings are for exchanges that take long, not
// for clients that ask for nothing.
func TestAnIdleConnectionEndsThoughItIsKeptAlive(t *testing.T) {
	for _, alpn := range QUICALPN([]string{H3, ZAP}) {
		t.Run(alpn, func(t *testing.T) {
			r := newRig(t, handshake.Prefer, facts, func(s *Settings) {
				s.IdleTimeout, s.QUIC.KeepAlive = 300*time.Millisecond, 50*time.Millisecond
			})
			cfg := r.tls.Clone()
			cfg.NextProtos = []string{alpn}
			qc, err := quic.DialAddr(t.Context(), r.UDPAddr().String(), cfg, &quic.Config{KeepAlivePeriod: 50 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = qc.CloseWithError(0, "") }()
			select {
			case <-qc.Context().Done():
			case <-time.After(10 * time.Second):
				t.Error("the connection stays")
			}
		})
	}
}
