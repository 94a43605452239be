package handshakes

import (
	"context"
	"net"
	"time"

	"github.com/quic-go/quic-go"
)

func (w *worker) onceQUIC(ctx context.Context, kind string) (took time.Duration, err error) {
	began := time.Now()
	transport, counted, end, err := w.quicTransport()
	if err != nil {
		return 0, err
	}
	defer end()
	c, s, err := w.openQUIC(ctx, transport, kind)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.CloseWithError(0, "") }()
	if err := ask(closingWrite{s}); err != nil {
		return 0, err
	}
	took = time.Since(began)
	if counted != nil {
		w.traffic = counted.traffic()
	}
	select { // 0-RTT may have its answer before the handshake is done
	case <-c.HandshakeComplete():
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	cs := c.ConnectionState()
	if err := w.check(&cs.TLS, kind, cs.Used0RTT); err != nil {
		return 0, err
	}
	return took, w.session.await(ctx)
}

// quicTransport is the client's, or one of this operation's own that counts.
func (w *worker) quicTransport() (t *quic.Transport, counted *countedPackets, end func(), err error) {
	if !w.order.Count {
		return w.client.quic, nil, func() {}, nil
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(w.client.host)})
	if err != nil {
		return nil, nil, nil, err
	}
	counted = &countedPackets{PacketConn: udp}
	t = &quic.Transport{Conn: counted}
	return t, counted, func() {
		_ = t.Close()
		_ = udp.Close()
	}, nil
}

func (w *worker) openQUIC(ctx context.Context, t *quic.Transport, kind string) (*quic.Conn, *quic.Stream, error) {
	to, err := net.ResolveUDPAddr("udp", w.order.UDP)
	if err != nil {
		return nil, nil, err
	}
	dial := t.Dial
	if kind == early {
		dial = t.DialEarly
	}
	c, err := dial(ctx, to, w.config, nil)
	if err != nil {
		return nil, nil, err
	}
	s, err := w.firstStream(ctx, c)
	if err != nil {
		_ = c.CloseWithError(0, "")
		return nil, nil, err
	}
	return c, s, nil
}

// firstStream is that for the request: identities are exchanged on one before.
func (w *worker) firstStream(ctx context.Context, c *quic.Conn) (*quic.Stream, error) {
	s, err := c.OpenStreamSync(ctx)
	if err != nil || w.order.Task.Auth != authMLDSA {
		return s, err
	}
	cs := c.ConnectionState().TLS
	if err := w.prove(ctx, s, &cs); err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return c.OpenStreamSync(ctx)
}

// closingWrite ends the stream with the request.
type closingWrite struct{ *quic.Stream }

func (c closingWrite) Write(p []byte) (int, error) {
	n, err := c.Stream.Write(p)
	if err == nil {
		err = c.Stream.Close()
	}
	return n, err
}
