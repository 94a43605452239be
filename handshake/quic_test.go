package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
)

// TestAServerServesQUIC takes the configuration to quic-go, which clones it
// for every connection and runs the handshake itself.
func TestAServerServesQUIC(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	srv := newServer(t, Settings{Sources: []Source{src}, PQ: Require, NextProtos: []string{"h3"}})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	refused := make(chan *RefusedError, 3)
	addr := listenQUIC(t, srv, refused)
	client := session(roots)
	client.NextProtos, client.CurvePreferences = []string{"h3"}, []tls.CurveID{tls.X25519MLKEM768}
	for _, resumed := range []bool{false, true} {
		f := dialQUIC(ctx, t, addr, client, !resumed)
		if f.Resumed != resumed || !f.PQ() || f.ALPN != "h3" {
			t.Errorf("%+v", f)
		}
	}
	client.CurvePreferences, client.ClientSessionCache = []tls.CurveID{tls.X25519}, nil
	_, err := quic.DialAddr(ctx, addr.String(), client, nil)
	var alert *quic.TransportError
	if !errors.As(err, &alert) || alert.ErrorCode != 0x100+alertHandshakeFailure {
		t.Errorf("a classical client: %v", err)
	}
	for {
		select {
		case r := <-refused:
			if r.Reason == NoSharedPQGroup && r.SNI == "example.com" {
				return
			}
		case <-ctx.Done():
			t.Fatal("the refusal was not told")
		}
	}
}

// listenQUIC serves QUIC and tells how each connection ended.
func listenQUIC(t *testing.T, srv *Server, ended chan<- *RefusedError) net.Addr {
	t.Helper()
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var told sync.WaitGroup
	tr := &quic.Transport{Conn: udp, ConnContext: func(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
		told.Add(1)
		watched := Watch(ctx)
		context.AfterFunc(ctx, func() {
			defer told.Done()
			ended <- srv.Refuse(watched, context.Cause(ctx))
		})
		return watched, nil
	}}
	l, err := tr.Listen(srv.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Close()
		_ = tr.Close()
		_ = udp.Close()
		told.Wait()
	})
	return udp.LocalAddr()
}

func dialQUIC(ctx context.Context, t *testing.T, addr net.Addr, c *tls.Config, awaitTicket bool) Facts {
	t.Helper()
	came := make(chan struct{}, 1)
	c = c.Clone()
	c.ClientSessionCache = noticed{c.ClientSessionCache, came}
	conn, err := quic.DialAddr(ctx, addr.String(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if awaitTicket {
		select {
		case <-came:
		case <-ctx.Done():
			t.Fatal("no ticket")
		}
	}
	cs := conn.ConnectionState().TLS
	_ = conn.CloseWithError(0, "")
	return FactsOf(&cs)
}
