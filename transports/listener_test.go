package transports

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	proxyproto "github.com/pires/go-proxyproto"
	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/telemetry"
	"github.com/hanzoai/pqgw/transports/deadline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type handlerFunc func(x *exchange.Exchange)

func (f handlerFunc) Serve(x *exchange.Exchange) { f(x) }

// tell answers with what is known of the connection.
func tell(x *exchange.Exchange) {
	x.Response.Reset(nil)
	x.Response.Status = 200
	text := fmt.Sprintf("%s %s trusted=%v secure=%v alpn=%s", x.Conn.Protocol, x.Conn.ClientText, x.Conn.Trusted, x.Conn.Secure, x.Conn.Facts.ALPN)
	_ = x.Responder.Respond(&x.Response, exchange.NewBytes([]byte(text)))
}

// listen starts a listener until the end of the test.
func listen(t *testing.T, address string, s Settings) (*Listener, *telemetry.Metrics, *bytes.Buffer) {
	t.Helper()
	w := deadline.New()
	m := telemetry.NewMetrics(telemetry.Build{})
	var log bytes.Buffer
	access := telemetry.NewAccessLog(&log, slog.New(slog.DiscardHandler))
	if s.Handler == nil {
		s.Handler = handlerFunc(tell)
	}
	s.Limits = exchange.Limits{HeadBytes: 8 << 10, Fields: 64}
	if s.HandshakeTimeout == 0 {
		s.HandshakeTimeout = 10 * time.Second
	}
	s.IdleTimeout, s.HeadTimeout, s.StreamIdle = time.Minute, 10*time.Second, time.Minute
	l, err := Listen("l", address, s, Environment{Watch: w, Metrics: m, Log: access, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l.Serve()
	t.Cleanup(func() {
		l.Close()
		_ = access.Close()
		w.Close()
	})
	return l, m, &log
}

func serverTLS(t *testing.T, protocols ...string) *handshake.Server {
	t.Helper()
	d, _, err := handshake.NewDev(t.TempDir(), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	s, err := handshake.NewServer(handshake.Settings{Sources: []handshake.Source{d}, PQ: handshake.Require, NextProtos: ALPN(protocols)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask sends one request over HTTP/1 and gives the answer's body, or the error.
func ask(c net.Conn, prefix string) (string, error) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, prefix+"GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func dial(t *testing.T, l *Listener) net.Conn {
	t.Helper()
	c, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheProtocolIsTheOneAgreedOn(t *testing.T) {
	l, _, _ := listen(t, "127.0.0.1:0", Settings{Protocols: []string{H1, H2}, TLS: serverTLS(t, H1, H2)})
	for _, proto := range []string{"h2", "http/1.1"} {
		tr := &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{proto}}, //nolint:gosec // the test's own
			Protocols:       new(http.Protocols),
		}
		tr.Protocols.SetHTTP1(proto != "h2")
		tr.Protocols.SetHTTP2(proto == "h2")
		resp, err := (&http.Client{Transport: tr}).Get("https://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		tr.CloseIdleConnections()
		if !strings.Contains(string(b), "secure=true alpn="+proto) {
			t.Errorf("%s: %s", proto, b)
		}
	}
	c := tls.Client(dial(t, l), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // as above
	if got, err := ask(c, ""); err != nil || !strings.HasPrefix(got, "h1 ") {
		t.Errorf("without ALPN: %q %v", got, err)
	}
}

func TestClearListenersTellHTTP2ByItsPreface(t *testing.T) {
	l, _, _ := listen(t, "127.0.0.1:0", Settings{Protocols: []string{H1, H2C}})
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	resp, err := (&http.Client{Transport: tr}).Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	tr.CloseIdleConnections()
	if !strings.HasPrefix(string(b), "h2 ") {
		t.Errorf("with prior knowledge: %q", b)
	}
	if got, err := ask(dial(t, l), ""); err != nil || !strings.HasPrefix(got, "h1 ") {
		t.Errorf("HTTP/1: %q %v", got, err)
	}
}

func TestAPROXYHeaderIsTakenFromItsNetworksAlone(t *testing.T) {
	v1 := "PROXY TCP4 203.0.113.7 192.0.2.1 5555 443\r\n"
	var v2 bytes.Buffer
	h := proxyproto.HeaderProxyFromAddrs(2, &net.TCPAddr{IP: net.ParseIP("2001:db8::7"), Port: 5}, &net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 443})
	if _, err := h.WriteTo(&v2); err != nil {
		t.Fatal(err)
	}
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	from, _, _ := listen(t, "127.0.0.1:0", Settings{Protocols: []string{H1}, ProxyFrom: loopback, Trusted: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}})
	other, _, _ := listen(t, "127.0.0.1:0", Settings{Protocols: []string{H1}, ProxyFrom: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	for _, c := range []struct {
		name, prefix, want string
		l                  *Listener
	}{
		{"v1", v1, "h1 203.0.113.7 trusted=true", from},
		{"v2", v2.String(), "h1 2001:db8::7 trusted=false", from},
		{"v1 of an unknown client", "PROXY UNKNOWN\r\n", "h1 127.0.0.1", from},
		{"v2 of the balancer itself", "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00", "h1 127.0.0.1", from},
		{"none where one must come", "", "", from},
		{"half of one", "PROXY TCP4 203.0\r\n", "", from},
		{"one from elsewhere", v1, "h1 127.0.0.1", other},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ask(dial(t, c.l), c.prefix)
			if c.l == other {
				if err == nil && strings.Contains(got, "203.0.113.7") {
					t.Errorf("believed: %q", got)
				}
				return
			}
			if (c.want == "") != (err != nil) || !strings.HasPrefix(got, c.want) {
				t.Errorf("%q %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestAPROXYHeaderMayComeBeforeTLS(t *testing.T) {
	l, _, _ := listen(t, "127.0.0.1:0", Settings{
		Protocols: []string{H1}, TLS: serverTLS(t, H1), ProxyFrom: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	})
	c := dial(t, l)
	_, _ = io.WriteString(c, "PROXY TCP4 203.0.113.7 192.0.2.1 5555 443\r\n")
	got, err := ask(tls.Client(c, &tls.Config{InsecureSkipVerify: true}), "") //nolint:gosec // the test's own
	if err != nil || !strings.HasPrefix(got, "h1 203.0.113.7") || !strings.Contains(got, "secure=true") {
		t.Errorf("%q %v", got, err)
	}
}

func TestRefusedHandshakesAreCountedAndLoggedWithTheirReason(t *testing.T) {
	l, m, _ := listen(t, "127.0.0.1:0", Settings{Protocols: []string{H1}, TLS: serverTLS(t, H1), HandshakeTimeout: 300 * time.Millisecond})
	c := tls.Client(dial(t, l), &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}}) //nolint:gosec // as above
	if err := c.Handshake(); err == nil {
		t.Error("a classical client was let in")
	}
	_ = c.Close()
	silent := dial(t, l)
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("a silent client was answered")
	}
	_ = silent.Close()
	for _, reason := range []string{"no_shared_pq_group", "timeout"} {
		want := fmt.Sprintf(`pqgw_tls_refused_total{listener="l",reason=%q} 1`, reason)
		awaitMetric(t, m, want)
	}
}

func awaitMetric(t *testing.T, m *telemetry.Metrics, want string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text := scrape(m)
		if strings.Contains(text, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no %s in\n%s", want, text)
		}
	}
}

func scrape(m *telemetry.Metrics) string {
	r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil)
	w := &recorder{header: http.Header{}}
	m.Handler().ServeHTTP(w, r)
	return w.String()
}

type recorder struct {
	bytes.Buffer
	header http.Header
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(int)     {}

func TestConnectionsBeyondTheLimitAreClosedAndCounted(t *testing.T) {
	l, m, _ := listen(t, "127.0.0.1:0", Settings{Protocols: []string{H1}, Connections: 1})
	first := dial(t, l)
	_, _ = io.WriteString(first, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, err := http.ReadResponse(bufio.NewReader(first), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(dial(t, l), ""); err == nil {
		t.Error("a second connection was served")
	}
	_ = first.Close()
	awaitMetric(t, m, `pqgw_connections_refused_total{listener="l",reason="too_many_connections"} 1`)
	awaitMetric(t, m, `pqgw_connections{listener="l"} 0`)
	if _, err := ask(dial(t, l), ""); err != nil {
		t.Errorf("after the first had gone: %v", err)
	}
}

func TestAUnixSocketServesAndGoesAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, _, _ := listen(t, "unix:"+path, Settings{Protocols: []string{H1}})
	if got, err := ask(dial(t, l), ""); err != nil || !strings.HasPrefix(got, "h1 unix") {
		t.Errorf("%q %v", got, err)
	}
	l.Close()
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("the socket still answers")
	}
}

func TestAnAddressThatIsTakenIsABindErrorWithAHint(t *testing.T) {
	l, _, _ := listen(t, "127.0.0.1:0", Settings{Protocols: []string{H1}})
	_, err := Listen("second", l.Addr().String(), Settings{}, Environment{Metrics: telemetry.NewMetrics(telemetry.Build{})})
	var be *BindError
	if !errors.As(err, &be) || !strings.Contains(err.Error(), "another process has it") {
		t.Errorf("%v", err)
	}
}

func TestDrainLetsExchangesEndAndCutsThemAfterItsTime(t *testing.T) {
	begun, release := make(chan struct{}, 2), make(chan struct{})
	s := Settings{Protocols: []string{H1}, Handler: handlerFunc(func(x *exchange.Exchange) {
		begun <- struct{}{}
		select {
		case <-release:
			tell(x)
		case <-cancelled(x):
			x.Responder.Abort(x.Cancelled())
		}
	})}
	l, _, _ := listen(t, "127.0.0.1:0", s)
	answer := make(chan error, 1)
	go func() {
		_, err := ask(dial(t, l), "")
		answer <- err
	}()
	<-begun
	drained := make(chan error, 1)
	go func() { drained <- l.Drain(context.Background()) }()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if c, err := net.Dial("tcp", l.Addr().String()); err != nil {
			break
		} else {
			_ = c.Close()
		}
	}
	close(release)
	if err := <-answer; err != nil {
		t.Errorf("the exchange under way: %v", err)
	}
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}

	release = make(chan struct{})
	l, _, _ = listen(t, "127.0.0.1:0", s)
	go func() {
		_, err := ask(dial(t, l), "")
		answer <- err
	}()
	<-begun
	cut := errors.New("cut")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 50*time.Millisecond, cut)
	defer cancel()
	if err := l.Drain(ctx); !errors.Is(err, cut) {
		t.Errorf("drain past its time: %v", err)
	}
	if err := <-answer; err == nil {
		t.Error("the exchange outlived the drain")
	}
}

// cancelled is closed when the client is given up.
func cancelled(x *exchange.Exchange) <-chan struct{} {
	done := make(chan struct{})
	if x.OnCancel(&exchange.Canceller{Cancel: func(error) { close(done) }}) != nil {
		close(done)
	}
	return done
}
