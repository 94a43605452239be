package transports

import (
	"context"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports/http3"
)

// identify lets both sides of a QUIC connection prove who they are, on the first
// stream that the client opens, before any other is taken. False where that came to
// nothing; the connection has then been closed. It does nothing where no identity is
// asked for.
func (a *quicAttempt) identify(qc *quic.Conn) bool {
	side := a.f.QUIC.TLS
	if side.Identity() == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(qc.Context(), a.f.HandshakeTimeout)
	defer cancel()
	str, err := qc.AcceptStream(ctx)
	if err == nil {
		defer str.ReleaseStreamCredit()
		_ = str.SetDeadline(time.Now().Add(a.f.HandshakeTimeout))
		state := qc.ConnectionState().TLS
		facts := handshake.FactsOf(&state)
		if err = side.Identify(str, &state, &facts); err == nil {
			a.peer.Store(&facts.PeerName)
			_ = str.Close()
			return true
		}
		_ = str.Close() // behind the refusal, which the client should learn
		str.CancelRead(zapCancelled)
		http3.Settle(qc, qc.Context().Done())
	}
	a.q.l.handshakeRefused(side.Refuse(a.ctx, err), a.info())
	_ = qc.CloseWithError(0, "")
	return false
}

// identify is the client's part.
func (d *quicDialer) identify(ctx context.Context, qc *quic.Conn, info *exchange.Conn) error {
	side := d.settings.TLS
	if side.Identity() == nil {
		return nil
	}
	str, err := qc.OpenStreamSync(ctx)
	if err == nil {
		state := qc.ConnectionState().TLS
		err = side.Identify(ctx, str, &state, d.address, &info.Facts)
	}
	if err == nil {
		return str.Close()
	}
	_ = qc.CloseWithError(0, "")
	return side.Refuse(err)
}
