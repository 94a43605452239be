package transports

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports/deadline"
)

// dialer makes the dialer of an endpoint that is the rig.
func (r *rig) dialer(t testing.TB, scheme string, pq handshake.PQ) exchange.Dialer {
	t.Helper()
	return r.dialerTo(t, scheme, r.UDPAddr().String(), pq)
}

func (r *rig) dialerTo(t testing.TB, scheme, address string, pq handshake.PQ) exchange.Dialer {
	t.Helper()
	c, err := handshake.NewClient(handshake.ClientSettings{PQ: pq, Roots: r.tls.RootCAs, ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	w := deadline.New()
	t.Cleanup(w.Close)
	d, err := NewDialer(scheme, address, DialSettings{TLS: c, Watch: w, Limits: exchange.Limits{HeadBytes: 8 << 10, Fields: 64}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// callOnce makes one GET and gives the body.
func callOnce(t *testing.T, c exchange.ClientConn) string {
	t.Helper()
	k, err := c.Call()
	if err != nil {
		t.Fatal(err)
	}
	defer k.Finish()
	x := new(exchange.Exchange)
	x.Request.Reset(nil)
	x.Request.SetMethod([]byte("GET"))
	x.Request.SetAuthority([]byte("localhost"))
	x.Request.SetTarget([]byte("/"))
	if err := k.Send(x, nil, exchange.Timeouts{FirstByte: 5 * time.Second, Idle: 5 * time.Second}); err != nil {
		t.Fatal(err)
	}
	var h exchange.Head
	if err := k.ReadHead(&h); err != nil {
		t.Fatal(err)
	}
	src := k.Body()
	if src == nil {
		return ""
	}
	b, err := io.ReadAll(src)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAnUpstreamIsCalledOverHTTP3(t *testing.T) {
	r := newRig(t, handshake.Require, facts, nil)
	d := r.dialer(t, "h3", handshake.Require)
	for _, resumed := range []bool{false, true} {
		c, err := d.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if body := callOnce(t, c); body != "h3 X25519MLKEM768 1.3 true h3 localhost true" {
			t.Errorf("%q", body)
		}
		f := c.Info().Facts
		if !f.PQ() || f.ALPN != "h3" || f.Resumed != resumed || c.Info().Protocol != exchange.HTTP3 {
			t.Errorf("%+v, want resumed: %v", c.Info(), resumed)
		}
		c.Close()
	}
}

func TestAnUpstreamWithoutPostQuantumIsRefused(t *testing.T) {
	classical := func(s *Settings) {
		s.QUIC.TLS = classicalServer(t)
	}
	r := newRig(t, handshake.Prefer, facts, classical)
	_, err := r.dialer(t, "h3", handshake.Require).Dial(t.Context())
	var refused *handshake.RefusedError
	if !errors.As(err, &refused) || refused.Reason != handshake.NoSharedPQGroup || !refused.Upstream {
		t.Error(err)
	}
}

func classicalServer(t *testing.T) *handshake.Server {
	t.Helper()
	d, _, err := handshake.NewDev(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := handshake.ParseGroups([]string{"X25519"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := handshake.NewServer(handshake.Settings{
		Sources: []handshake.Source{d}, PQ: handshake.Prefer, Groups: groups, NextProtos: QUICALPN([]string{H3}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAnUpstreamThatIsNotThereTimesOut(t *testing.T) {
	r := newRig(t, handshake.Prefer, facts, nil)
	silent := loopback(t)
	defer silent.Close()
	d, err := NewDialer("h3", silent.LocalAddr().String(), DialSettings{TLS: clientOf(t), Watch: r.watch})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = d.Dial(ctx)
	var up *exchange.UpstreamError
	if !errors.Is(err, exchange.ErrTimeout) || !errors.As(err, &up) || up.Op != "dial" {
		t.Error(err)
	}
}

func clientOf(t *testing.T) *handshake.Client {
	t.Helper()
	c, err := handshake.NewClient(handshake.ClientSettings{PQ: handshake.Prefer})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestATokenSparesTheNextConnectionItsRetry(t *testing.T) {
	r := newRig(t, handshake.Prefer, facts, func(s *Settings) { s.QUIC.RetryAbove = 0 })
	var retries atomic.Int32
	rl := newRelay(t, r.UDPAddr().String(), nil, func(_ int, p []byte) [][]byte {
		if p[0]&0xf0 == 0xf0 {
			retries.Add(1)
		}
		return [][]byte{p}
	})
	d := r.dialerTo(t, "h3", rl.addr(), handshake.Prefer)
	for i := range 3 {
		c, err := d.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		callOnce(t, c)
		c.Close()
		// Each datagram of a long ClientHello may be answered by a Retry of its own.
		if n := retries.Swap(0); (n > 0) != (i == 0) {
			t.Errorf("%d Retry packets for connection %d", n, i)
		}
	}
}
