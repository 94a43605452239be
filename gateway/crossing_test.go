package gateway_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/exchange/mount"
	"github.com/hanzoai/pqgw/gateway"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/telemetry"
	"github.com/hanzoai/pqgw/transports"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/zap"
)

// These tests cross the gateway from each protocol to each: an origin served by
// our own listener, the gateway, and a client of the protocol.

// crossing has listeners of both sides.
type crossing struct {
	t       *testing.T
	watch   *deadline.Watch
	metrics *telemetry.Metrics
	tls     *handshake.Server
	client  *handshake.Client
}

var crossLimits = exchange.Limits{HeadBytes: 32 << 10, Fields: 128, BodyBytes: 100 << 20}

func newCrossing(t *testing.T) *crossing {
	t.Helper()
	dev, _, err := handshake.NewDev(t.TempDir(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	c := &crossing{t: t, watch: deadline.New(), metrics: telemetry.NewMetrics(telemetry.Build{})}
	t.Cleanup(c.watch.Close)
	all := transports.ALPN([]string{transports.H2, transports.H1, transports.ZAP})
	if c.tls, err = handshake.NewServer(handshake.Settings{Sources: []handshake.Source{dev}, NextProtos: all}); err != nil {
		t.Fatal(err)
	}
	if c.client, err = handshake.NewClient(handshake.ClientSettings{Insecure: true, NextProtos: []string{"h2", "http/1.1"}}); err != nil {
		t.Fatal(err)
	}
	return c
}

// listen serves h by the protocols of a scheme, and gives the address.
func (c *crossing) listen(scheme string, h exchange.Handler) string {
	c.t.Helper()
	set := transports.Settings{
		Handler: h, Limits: crossLimits, StreamIdle: time.Minute, IdleTimeout: time.Minute, HeadTimeout: time.Minute, HandshakeTimeout: time.Minute, Streams: 100,
	}
	switch scheme {
	case "zap":
		set.Protocols = []string{transports.ZAP}
	case "http", "h2c":
		set.Protocols = []string{transports.H1, transports.H2C}
	default:
		set.Protocols, set.TLS = []string{transports.H1, transports.H2, transports.ZAP}, c.tls
	}
	l, err := transports.Listen(scheme, "127.0.0.1:0", set, transports.Environment{Watch: c.watch, Metrics: c.metrics, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		c.t.Fatal(err)
	}
	l.Serve()
	c.t.Cleanup(l.Close)
	return l.Addr().String()
}

// gateway is one before an origin of that scheme.
func (c *crossing) gateway(scheme, origin string) *gateway.Gateway {
	c.t.Helper()
	tree := config.New()
	u := config.Default[config.Upstream]()
	e, err := config.ParseEndpoint(scheme + "://" + origin)
	if err != nil {
		c.t.Fatal(err)
	}
	u.Endpoints = []config.Endpoint{e}
	tree.Upstreams["app"] = u
	tree.Routes = []*config.Route{{Name: "all", To: "app"}}
	g, err := gateway.New(tree, gateway.Options{
		Metrics: c.metrics,
		Dial: func(_ *config.Tree, _ *config.Upstream, p config.Endpoint) (exchange.Dialer, error) {
			return transports.NewDialer(string(p.Scheme), p.Address.Addr, transports.DialSettings{TLS: c.client, Watch: c.watch, Limits: crossLimits})
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		if err := g.Close(ctx); err != nil {
			c.t.Error(err)
		}
	})
	return g
}

// roundTripper is a client of a scheme.
func (c *crossing) roundTripper(scheme string) http.RoundTripper {
	if strings.HasPrefix(scheme, "zap") {
		z := &zap.Client{TLS: c.client.Config("127.0.0.1:1")}
		c.t.Cleanup(z.Close)
		return z
	}
	p := new(http.Protocols)
	p.SetHTTP1(scheme == "http")
	p.SetUnencryptedHTTP2(scheme == "h2c")
	p.SetHTTP2(scheme == "https")
	tr := &http.Transport{Protocols: p, DisableCompression: true, TLSClientConfig: c.client.Config("127.0.0.1:1").Clone()}
	c.t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// crossOrigin tells what came, and answers as the target asks.
func crossOrigin(down []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Method", r.Method)
		switch r.URL.Path {
		case "/down":
			n, _ := strconv.Atoi(r.URL.Query().Get("n"))
			w.Header().Set("Content-Length", strconv.Itoa(n))
			_, _ = w.Write(down[:n])
		case "/up":
			sum := sha256.New()
			n, err := io.Copy(sum, r.Body)
			fmt.Fprintf(w, "%d %x %v %s", n, sum.Sum(nil), err, r.Trailer.Get("X-Up"))
		case "/sse":
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush() //nolint:forcetypeassert // the test's point
			}
		case "/trailers":
			w.Header().Set("Trailer", "X-Down")
			_, _ = io.WriteString(w, "body")
			w.Header().Set("X-Down", "sum")
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.Header().Set("Content-Length", "77")
			w.WriteHeader(304)
		case "/head":
			w.Header().Set("Content-Length", "4321")
		case "/early":
			w.WriteHeader(413)
			_, _ = io.WriteString(w, "too much")
		case "/hang":
			w.(http.Flusher).Flush() //nolint:forcetypeassert // as above
			<-r.Context().Done()
		case "/cut":
			_, _ = io.WriteString(w, "part")
			w.(http.Flusher).Flush() //nolint:forcetypeassert // as above
			panic(http.ErrAbortHandler)
		}
	})
}

// unknown hides the length of a reader.
type unknown struct{ io.Reader }

func TestExchangesCrossFromEveryProtocolToEvery(t *testing.T) {
	down := bytes.Repeat([]byte("0123456789abcdef"), 80<<16) // 80 MiB
	for _, up := range []string{"http", "h2c", "zap", "https", "zap+tls"} {
		t.Run("to "+up, func(t *testing.T) {
			c := newCrossing(t)
			g := c.gateway(up, c.listen(up, mount.HTTP(crossOrigin(down))))
			for _, in := range []string{"http", "h2c", "zap", "https", "zap+tls"} {
				t.Run("from "+in, func(t *testing.T) {
					if testing.Short() && in != up {
						t.Skip("the whole matrix is long")
					}
					x := &cross{t: t, c: &http.Client{Transport: c.roundTripper(in), Timeout: time.Minute}, base: strings.Replace(in, "h2c", "http", 1) + "://" + c.listen(in, g), down: down}
					x.bodies(in, up)
					x.shapes()
					x.ends()
				})
			}
		})
	}
}

// cross runs the list of exchanges.
type cross struct {
	t    *testing.T
	c    *http.Client
	base string
	down []byte
}

func (x *cross) do(method, path string, body io.Reader, trailer http.Header) (*http.Response, string, error) {
	x.t.Helper()
	req, err := http.NewRequest(method, x.base+path, body)
	if err != nil {
		x.t.Fatal(err)
	}
	req.Trailer = trailer
	resp, err := x.c.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

func (x *cross) bodies(in, up string) {
	x.t.Helper()
	sizes := []int{0, 1 << 10, 1 << 20, 80 << 20}
	if gateway.RaceEnabled && up != "zap+tls" {
		sizes = sizes[:3] // it makes the longest take minutes; ZAP is what it is for
	}
	for _, n := range sizes {
		resp, b, err := x.do("GET", "/down?n="+strconv.Itoa(n), nil, nil)
		if err != nil || b != string(x.down[:n]) || resp.ContentLength != int64(n) {
			x.t.Errorf("%d bytes down: %d came, %v", n, len(b), err)
		}
		want := fmt.Sprintf("%d %x <nil> ", n, sha256.Sum256(x.down[:n]))
		if resp, b, err := x.do("POST", "/up", bytes.NewReader(x.down[:n]), nil); err != nil || b != want {
			x.t.Errorf("%d bytes up: %q, want %q; %v, %v", n, b, want, err, resp)
		}
		if n > 1<<20 {
			continue
		}
		_, b, err = x.do("POST", "/up", unknown{bytes.NewReader(x.down[:n])}, http.Header{"X-Up": {"tr"}})
		if err != nil || b != want+"tr" && n > 0 {
			x.t.Errorf("%d bytes of unknown length up: %q, want %q; %v", n, b, want+"tr", err)
		}
	}
}

func (x *cross) shapes() {
	x.t.Helper()
	if _, b, err := x.do("GET", "/sse", nil, nil); err != nil || b != "data: 0\n\ndata: 1\n\ndata: 2\n\n" {
		x.t.Errorf("events: %q, %v", b, err)
	}
	if resp, b, err := x.do("GET", "/trailers", nil, nil); err != nil || b != "body" || resp.Trailer.Get("X-Down") != "sum" {
		x.t.Errorf("trailers: %q, %v, %v", b, resp, err)
	}
	for path, status := range map[string]int{"/204": 204, "/304": 304} {
		if resp, b, err := x.do("GET", path, nil, nil); err != nil || b != "" || resp.StatusCode != status {
			x.t.Errorf("%s: %q, %v", path, b, err)
		}
	}
	if resp, _, err := x.do("HEAD", "/head", nil, nil); err != nil || resp.Header.Get("X-Method") != "HEAD" || resp.ContentLength != 4321 {
		x.t.Errorf("HEAD: %v, %v", resp, err)
	}
}

func (x *cross) ends() {
	x.t.Helper()
	r, w := io.Pipe()
	go func() {
		for {
			if _, err := w.Write(x.down[:64<<10]); err != nil {
				return
			}
		}
	}()
	resp, b, err := x.do("POST", "/early", r, nil)
	_ = r.Close()
	if err != nil || resp.StatusCode != 413 || b != "too much" {
		x.t.Errorf("early answer: %q, %v", b, err)
	}
	if _, b, err := x.do("GET", "/cut", nil, nil); err == nil {
		x.t.Errorf("an answer that was cut passes for whole: %q", b)
	}
	ctx, stop := context.WithCancel(context.Background())
	req, _ := http.NewRequestWithContext(ctx, "GET", x.base+"/hang", nil)
	if resp, err = x.c.Do(req); err != nil {
		x.t.Fatal(err)
	}
	stop() // the origin's handler returns, or its listener does not close
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
		x.t.Errorf("cancelled: %v", err)
	}
	_ = resp.Body.Close()
}
