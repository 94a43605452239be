package transports

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	qhttp3 "github.com/quic-go/quic-go/http3"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/telemetry"
	"github.com/hanzoai/pqgw/transports/deadline"
)

func answer(x *exchange.Exchange, status int, text string) {
	x.Response.Reset(nil)
	x.Response.Status = status
	_ = x.Responder.Respond(&x.Response, exchange.NewBytes([]byte(text)))
}

// rig is a listener of h3, and more where the test says so.
type rig struct {
	*Listener
	settings Settings
	metrics  *telemetry.Metrics
	log      *syncBuffer
	tls      *tls.Config // for clients
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newRig(t testing.TB, pq handshake.PQ, h handlerFunc, change func(*Settings)) *rig {
	t.Helper()
	dir := t.TempDir()
	dev, _, err := handshake.NewDev(dir)
	if err != nil {
		t.Fatal(err)
	}
	server := func(protos []string) *handshake.Server {
		s, err := handshake.NewServer(handshake.Settings{Sources: []handshake.Source{dev}, PQ: pq, NextProtos: protos})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	r := &rig{metrics: telemetry.NewMetrics(telemetry.Build{}), log: new(syncBuffer)}
	r.settings = Settings{
		Protocols: []string{H3, ZAP}, TLS: server(ALPN([]string{H1, H2})), Handler: h, Streams: 100,
		Limits:           exchange.Limits{HeadBytes: 32 << 10, Fields: 128, BodyBytes: 1 << 30},
		HandshakeTimeout: 5 * time.Second, HeadTimeout: 5 * time.Second, IdleTimeout: time.Minute, StreamIdle: time.Minute,
		QUIC: &QUICSettings{TLS: server(QUICALPN([]string{H3, ZAP})), RetryAbove: 1000},
	}
	if change != nil {
		change(&r.settings)
	}
	watch := deadline.New()
	access := telemetry.NewAccessLog(r.log, nil)
	r.Listener, err = Listen("edge", "127.0.0.1:0", r.settings, Environment{
		Watch: watch, Metrics: r.metrics, Log: access, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Serve()
	t.Cleanup(func() {
		r.Close()
		watch.Close()
		_ = access.Close()
		_ = dev.Close()
	})
	pem, err := os.ReadFile(dev.Authority().CertFile())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	r.tls = &tls.Config{RootCAs: pool, NextProtos: []string{"h3"}, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	return r
}

// client is quic-go's, towards addr whatever the URL says.
func (r *rig) client(t *testing.T, addr string) *qhttp3.Transport {
	tr := &qhttp3.Transport{
		TLSClientConfig: r.tls,
		Dial: func(ctx context.Context, _ string, c *tls.Config, q *quic.Config) (*quic.Conn, error) {
			return quic.DialAddrEarly(ctx, addr, c, q)
		},
	}
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

func fetch(t *testing.T, tr http.RoundTripper, method string) (int, string) {
	t.Helper()
	status, body, err := try(t, tr, method)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

func try(t *testing.T, tr http.RoundTripper, method string) (int, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, method, "https://localhost/", nil)
	res, err := tr.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time: " + what)
		}
	}
}

func facts(x *exchange.Exchange) {
	f := &x.Conn.Facts
	answer(x, 200, fmt.Sprintf("%v %s %s %v %s %s %v", x.Conn.Protocol, f.GroupName(), f.VersionName(), f.PQ(), f.ALPN, f.SNI, x.Conn.Client.Port() > 0))
}

func TestHTTP3CarriesTheFactsOfItsHandshake(t *testing.T) {
	r := newRig(t, handshake.Require, facts, nil)
	_, body := fetch(t, r.client(t, r.UDPAddr().String()), http.MethodGet)
	if want := "h3 X25519MLKEM768 1.3 true h3 localhost true"; body != want {
		t.Errorf("%q, want %q", body, want)
	}
	series := r.metrics.Listeners.Series("edge")
	if e := series.Exposure(); e.PostQuantum != 1 || series.Open() != 1 {
		t.Errorf("%+v, %d open", e, series.Open())
	}
}

func TestAClassicalClientIsRefusedAndCounted(t *testing.T) {
	r := newRig(t, handshake.Require, facts, nil)
	r.tls.CurvePreferences = []tls.CurveID{tls.X25519}
	_, _, err := try(t, r.client(t, r.UDPAddr().String()), http.MethodGet)
	var e *quic.TransportError
	if !errors.As(err, &e) || !e.ErrorCode.IsCryptoError() {
		t.Errorf("the client: %v", err)
	}
	eventually(t, "the refusal in the log", func() bool {
		return strings.Contains(r.log.String(), `"no_shared_pq_group"`) && r.metrics.Listeners.Series("edge").Open() == 0
	})
}

func TestAClientThatDoesNotTrustUsIsCountedAsSuch(t *testing.T) {
	r := newRig(t, handshake.Prefer, facts, nil)
	r.tls.RootCAs = x509.NewCertPool()
	if _, _, err := try(t, r.client(t, r.UDPAddr().String()), http.MethodGet); err == nil {
		t.Error("served")
	}
	eventually(t, "the refusal in the log", func() bool { return strings.Contains(r.log.String(), "certificate_rejected") })
}

// orders are what can become of a ClientHello in two datagrams.
var orders = map[string]func() func(int, []byte) [][]byte{
	"in order": func() func(int, []byte) [][]byte { return nil },
	"second before first": func() func(int, []byte) [][]byte {
		var held []byte
		return func(n int, p []byte) [][]byte {
			switch n {
			case 0:
				held = p
				return nil
			case 1:
				return [][]byte{p, held}
			}
			return [][]byte{p}
		}
	},
	"first lost":  lose(0),
	"second lost": lose(1),
	"both twice": func() func(int, []byte) [][]byte {
		return func(n int, p []byte) [][]byte {
			if n < 2 {
				return [][]byte{p, p}
			}
			return [][]byte{p}
		}
	},
	"second three times, first in between": func() func(int, []byte) [][]byte {
		var held []byte
		return func(n int, p []byte) [][]byte {
			switch n {
			case 0:
				held = p
				return nil
			case 1:
				return [][]byte{p, p, held, p}
			}
			return [][]byte{p}
		}
	},
	"every third of all lost": func() func(int, []byte) [][]byte {
		return func(n int, p []byte) [][]byte {
			if n%3 == 2 {
				return nil
			}
			return [][]byte{p}
		}
	},
}

func lose(which int) func() func(int, []byte) [][]byte {
	return func() func(int, []byte) [][]byte {
		return func(n int, p []byte) [][]byte {
			if n == which {
				return nil
			}
			return [][]byte{p}
		}
	}
}

func TestALongClientHelloArrivesInAnyOrder(t *testing.T) {
	for _, retry := range []bool{false, true} {
		r := newRig(t, handshake.Require, facts, func(s *Settings) {
			if retry {
				s.QUIC.RetryAbove = 0
			}
		})
		r.tls.ClientSessionCache = nil
		for name, order := range orders {
			t.Run(fmt.Sprintf("%s, retry: %v", name, retry), func(t *testing.T) {
				datagrams := 0
				var mu sync.Mutex
				f := order()
				count := func(n int, p []byte) [][]byte {
					mu.Lock()
					if p[0]&0xf0 == 0xc0 {
						datagrams++
					}
					mu.Unlock()
					return apply(f, n, p)
				}
				rl := newRelay(t, r.UDPAddr().String(), count, nil)
				if status, body := fetch(t, r.client(t, rl.addr()), http.MethodGet); status != 200 || !strings.Contains(body, "X25519MLKEM768") {
					t.Errorf("%d %q", status, body)
				}
				mu.Lock()
				defer mu.Unlock()
				if least := 2; datagrams < least {
					t.Errorf("the ClientHello took %d datagrams: nothing was tested", datagrams)
				}
			})
		}
	}
}

func TestNoMoreThanThreeTimesGoesToAnAddressThatIsNotProved(t *testing.T) {
	r := newRig(t, handshake.Prefer, facts, func(s *Settings) { s.HandshakeTimeout = time.Second })
	// Only the first two datagrams arrive, and nothing gets back to the client.
	rl := newRelay(t, r.UDPAddr().String(), func(n int, p []byte) [][]byte {
		if n > 1 {
			return nil
		}
		return [][]byte{p}
	}, func(int, []byte) [][]byte { return nil })
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if qc, err := quic.DialAddr(ctx, rl.addr(), r.tls, nil); err == nil {
		_ = qc.CloseWithError(0, "")
		t.Fatal("connected")
	}
	up, down := rl.sentUp.Load(), rl.sentDown.Load()
	if down == 0 || down > 3*up {
		t.Errorf("%d bytes for %d", down, up)
	}
}

func TestAConnectionOutlivesItsNAT(t *testing.T) {
	const size = 3 << 20
	r := newRig(t, handshake.Prefer, func(x *exchange.Exchange) { answer(x, 200, strings.Repeat("x", size)) }, nil)
	rl := newRelay(t, r.UDPAddr().String(), nil, nil)
	tr := r.client(t, rl.addr())
	for range 3 {
		if _, body := fetch(t, tr, http.MethodGet); len(body) != size {
			t.Fatalf("%d bytes", len(body))
		}
		rl.rebind(t)
	}
	if n := r.metrics.Listeners.Series("edge").Accepted(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestADrainLetsExchangesEnd(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	r := newRig(t, handshake.Prefer, func(x *exchange.Exchange) {
		close(entered)
		<-release
		answer(x, 200, strings.Repeat("whole ", 200_000))
	}, nil)
	tr := r.client(t, r.UDPAddr().String())
	got := make(chan int, 1)
	go func() {
		_, body, _ := try(t, tr, http.MethodGet)
		got <- len(body)
	}()
	<-entered
	drained := make(chan error, 1)
	go func() { drained <- r.Drain(t.Context()) }()
	eventually(t, "draining", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.draining })
	close(release)
	if n := <-got; n != 1_200_000 {
		t.Errorf("%d bytes", n)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

func TestADrainCutsWhatDoesNotEnd(t *testing.T) {
	entered := make(chan struct{})
	r := newRig(t, handshake.Prefer, func(x *exchange.Exchange) {
		gone := make(chan struct{})
		_ = x.OnCancel(&exchange.Canceller{Cancel: func(error) { close(gone) }})
		close(entered)
		<-gone
		x.Responder.Abort(exchange.ErrClientGone)
	}, nil)
	tr := r.client(t, r.UDPAddr().String())
	failed := make(chan error, 1)
	go func() {
		_, _, err := try(t, tr, http.MethodGet)
		failed <- err
	}()
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := r.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("the client was not told")
	}
}

func TestConnectionsBeyondTheLimitAreRefused(t *testing.T) {
	r := newRig(t, handshake.Prefer, facts, func(s *Settings) { s.Connections = 1 })
	fetch(t, r.client(t, r.UDPAddr().String()), http.MethodGet)
	_, _, err := try(t, r.client(t, r.UDPAddr().String()), http.MethodGet)
	var e *quic.TransportError
	if !errors.As(err, &e) || e.ErrorCode != quic.ConnectionRefused {
		t.Error(err)
	}
}

func TestHandshakesBeyondTheLimitAreRefused(t *testing.T) {
	limiter := handshake.NewLimiter(handshake.Limits{PerAddress: 1})
	r := newRig(t, handshake.Prefer, facts, func(s *Settings) { s.Handshakes = limiter })
	held, err := limiter.Acquire(udpAddrPort(r.UDPAddr()).Addr())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := try(t, r.client(t, r.UDPAddr().String()), http.MethodGet); err == nil {
		t.Error("served")
	}
	eventually(t, "the refusal in the log", func() bool { return strings.Contains(r.log.String(), "too_many_from_address") })
	held.Release()
	fetch(t, r.client(t, r.UDPAddr().String()), http.MethodGet)
	eventually(t, "all permits back", func() bool { return limiter.UnderWay() == 0 })
}

func TestOtherSettingsHoldForConnectionsToCome(t *testing.T) {
	r := newRig(t, handshake.Prefer, func(x *exchange.Exchange) { answer(x, 200, "old") }, nil)
	old := r.client(t, r.UDPAddr().String())
	fetch(t, old, http.MethodGet)
	s := r.settings
	s.Handler = handlerFunc(func(x *exchange.Exchange) { answer(x, 200, "new") })
	r.Update(s)
	if _, body := fetch(t, old, http.MethodGet); body != "old" {
		t.Error(body)
	}
	if _, body := fetch(t, r.client(t, r.UDPAddr().String()), http.MethodGet); body != "new" {
		t.Error(body)
	}
	s.QUIC = nil
	r.Update(s)
	if _, _, err := try(t, r.client(t, r.UDPAddr().String()), http.MethodGet); err == nil {
		t.Error("served without QUIC")
	}
}

func TestTCPClientsAreToldOfHTTP3(t *testing.T) {
	r := newRig(t, handshake.Prefer, func(x *exchange.Exchange) { answer(x, 200, x.Conn.AltSvc) },
		func(s *Settings) { s.Protocols = []string{H1, H2, H3} })
	if r.Addr().Network() != "tcp" || addrPort(r.Addr()).Port() != udpAddrPort(r.UDPAddr()).Port() {
		t.Fatal(r.Addr(), r.UDPAddr())
	}
	c := r.tls.Clone()
	c.NextProtos = nil
	tr := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true, DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+r.Addr().String(), nil)
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	if want := fmt.Sprintf(`h3=":%d"; ma=86400`, udpAddrPort(r.UDPAddr()).Port()); string(b) != want {
		t.Errorf("%q, want %q", b, want)
	}
	if _, body := fetch(t, r.client(t, r.UDPAddr().String()), http.MethodGet); body != "" {
		t.Errorf("over HTTP/3 itself: %q", body)
	}
}

func TestQUICIsAddedWhileTheListenerServes(t *testing.T) {
	r := newRig(t, handshake.Prefer, facts, func(s *Settings) { s.Protocols = []string{H1, H3} })
	quicSettings := r.settings.QUIC
	s := r.settings
	s.Protocols, s.QUIC = []string{H1}, nil
	watch := deadline.New()
	l, err := Listen("later", "127.0.0.1:0", s, Environment{Watch: watch, Metrics: r.metrics})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	defer l.Close()
	l.Serve()
	if l.UDPAddr() != nil {
		t.Fatal("bound already")
	}
	s.Protocols, s.QUIC = []string{H1, H3}, quicSettings
	if err := l.Prepare(s); err != nil {
		t.Fatal(err)
	}
	l.Update(s)
	if status, _ := fetch(t, r.client(t, l.UDPAddr().String()), http.MethodGet); status != 200 {
		t.Error(status)
	}
}

func TestSmallUDPBuffersAreTold(t *testing.T) {
	r := newRig(t, handshake.Prefer, facts, nil)
	if strings.Count(r.log.String(), "UDP buffers are small") > 1 {
		t.Error("told more than once")
	}
	udp := loopback(t)
	defer udp.Close()
	_ = udp.SetReadBuffer(8 << 10)
	r.checkBuffers(udp)
	if log := r.log.String(); !strings.Contains(log, "UDP buffers are small") || !strings.Contains(log, "wanted=7340032") || !strings.Contains(log, "receive=16384") {
		t.Error(log)
	}
}
