package scenario

// Promise: any protocol in, any protocol out. The same exchanges give the same
// results on every way through the gateway, byte for byte; cancelling on one side
// reaches the other.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"

	"github.com/hanzoai/pqgw/transports/zap"
)

// stage is the service at the far end, over every protocol, and what it learned.
type stage struct {
	mu    sync.Mutex
	gates map[string]chan struct{} // by id: what an exchange waits for, or tells
}

// gate is the channel that the two sides of an exchange share.
func (s *stage) gate(id string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[id] == nil {
		s.gates[id] = make(chan struct{}, 8)
	}
	return s.gates[id]
}

// pattern is n bytes that do not repeat in step with any buffer.
type pattern struct{ off, n int64 }

func (p *pattern) Read(b []byte) (int, error) {
	if p.off == p.n {
		return 0, io.EOF
	}
	b = b[:min(int64(len(b)), p.n-p.off)]
	for i := range b {
		x := p.off + int64(i)
		b[i] = byte(x ^ x>>8*31 ^ x>>16*7)
	}
	p.off += int64(len(b))
	return len(b), nil
}

func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	flush := func() { _ = http.NewResponseController(w).Flush() }
	var n int64
	_, _ = fmt.Sscan(r.URL.Query().Get("n"), &n)
	switch r.URL.Path {
	case "/empty":
	case "/down":
		if r.URL.Query().Has("length") {
			w.Header().Set("Content-Length", fmt.Sprint(n))
		}
		_, _ = io.Copy(w, &pattern{n: n})
	case "/up":
		sum := sha256.New()
		got, err := io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%d %x %v %s", got, sum.Sum(nil), err, r.Trailer.Get("X-Up"))
	case "/sse":
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		flush()
		for i := range 3 {
			<-s.gate(id) // the client has what came before
			fmt.Fprintf(w, "data: %d\n\n", i)
			flush()
		}
	case "/trailers":
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "body")
		flush()
		w.Header().Set("X-Sum", "42")
	case "/head":
		w.Header().Set("Content-Length", "12345")
	case "/204":
		w.WriteHeader(http.StatusNoContent)
	case "/304":
		w.Header().Set("Etag", `"x"`)
		w.WriteHeader(http.StatusNotModified)
	case "/early":
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "enough")
	case "/hang":
		_, _ = io.WriteString(w, "begun")
		flush()
		<-r.Context().Done()
		s.gate(id) <- struct{}{}
	case "/cut":
		w.Header().Set("Content-Length", "100000")
		_, _ = io.Copy(w, &pattern{n: 50000})
		flush()
		panic(http.ErrAbortHandler)
	default:
		http.NotFound(w, r)
	}
}

// act is one exchange and what must come of it.
type act struct {
	name string
	run  func(ctx context.Context, c *http.Client, base, id string, s *stage) error
}

func fetch(ctx context.Context, c *http.Client, method, url string, body io.Reader, length int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	if body != nil && length >= 0 {
		req.ContentLength = length
	}
	return c.Do(req)
}

// expect fetches and compares status and body.
func expect(ctx context.Context, c *http.Client, method, url string, status int, want io.Reader) error {
	resp, err := fetch(ctx, c, method, url, nil, 0)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != status {
		return fmt.Errorf("status %d, want %d", resp.StatusCode, status)
	}
	return same(resp.Body, want)
}

// same compares two streams.
func same(got, want io.Reader) error {
	a, b := make([]byte, 64<<10), make([]byte, 64<<10)
	for off := 0; ; {
		n, errA := io.ReadFull(got, a)
		m, errB := io.ReadFull(want, b)
		if errA != nil && errA != io.EOF && errA != io.ErrUnexpectedEOF { //nolint:errorlint // of ReadFull
			return fmt.Errorf("behind %d bytes: %w", off+n, errA)
		}
		if n != m || !bytes.Equal(a[:n], b[:m]) {
			return fmt.Errorf("the bytes differ from %d on (%d and %d)", off, n, m)
		}
		if off += n; errA != nil && errB != nil {
			return nil //nolint:nilerr // both ended
		}
	}
}

func down(n int64, query string) func(context.Context, *http.Client, string, string, *stage) error {
	return func(ctx context.Context, c *http.Client, base, _ string, _ *stage) error {
		return expect(ctx, c, http.MethodGet, fmt.Sprintf("%s/down?n=%d%s", base, n, query), 200, &pattern{n: n})
	}
}

func up(n int64, known bool) func(context.Context, *http.Client, string, string, *stage) error {
	return func(ctx context.Context, c *http.Client, base, _ string, _ *stage) error {
		length := int64(-1)
		if known {
			length = n
		}
		resp, err := fetch(ctx, c, http.MethodPost, base+"/up", struct{ io.Reader }{&pattern{n: n}}, length)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		sum := sha256.New()
		_, _ = io.Copy(sum, &pattern{n: n})
		return same(resp.Body, strings.NewReader(fmt.Sprintf("%d %x <nil> ", n, sum.Sum(nil))))
	}
}

func acts(big int64) []act {
	return []act{
		{"empty", func(ctx context.Context, c *http.Client, base, _ string, _ *stage) error {
			return expect(ctx, c, http.MethodGet, base+"/empty", 200, strings.NewReader(""))
		}},
		{"1 KiB down", down(1<<10, "&length")},
		{"1 MiB down", down(1<<20, "&length")},
		{"1 MiB down of unknown length", down(1<<20, "")},
		{"1 KiB up", up(1<<10, true)},
		{"1 MiB up", up(1<<20, true)},
		{"1 MiB up of unknown length", up(1<<20, false)},
		{"much down", down(big, "&length")},
		{"much up", up(big, true)},
		{"much up of unknown length", up(big, false)},
		{"SSE", sse},
		{"trailers", trailers},
		{"HEAD", func(ctx context.Context, c *http.Client, base, _ string, _ *stage) error {
			resp, err := fetch(ctx, c, http.MethodHead, base+"/head", nil, 0)
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode != 200 || resp.ContentLength != 12345 {
				return fmt.Errorf("status %d, length %d", resp.StatusCode, resp.ContentLength)
			}
			return nil
		}},
		{"204", func(ctx context.Context, c *http.Client, base, _ string, _ *stage) error {
			return expect(ctx, c, http.MethodGet, base+"/204", 204, strings.NewReader(""))
		}},
		{"304", func(ctx context.Context, c *http.Client, base, _ string, _ *stage) error {
			return expect(ctx, c, http.MethodGet, base+"/304", 304, strings.NewReader(""))
		}},
		{"an early answer", func(ctx context.Context, c *http.Client, base, _ string, _ *stage) error {
			resp, err := fetch(ctx, c, http.MethodPost, base+"/early", struct{ io.Reader }{&pattern{n: 4 << 20}}, 4<<20)
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode != http.StatusRequestEntityTooLarge {
				return fmt.Errorf("status %d", resp.StatusCode)
			}
			return same(resp.Body, strings.NewReader("enough"))
		}},
		{"the client goes away", clientGoes},
		{"the upstream goes away", upstreamGoes},
	}
}

// sse: each event arrives before the next is sent.
func sse(ctx context.Context, c *http.Client, base, id string, s *stage) error {
	resp, err := fetch(ctx, c, http.MethodGet, base+"/sse?id="+id, nil, 0)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	for i := range 3 {
		s.gate(id) <- struct{}{}
		b := make([]byte, len("data: 0\n\n"))
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != fmt.Sprintf("data: %d\n\n", i) {
			return fmt.Errorf("event %d: %q %w", i, b, err)
		}
	}
	return same(resp.Body, strings.NewReader(""))
}

func trailers(ctx context.Context, c *http.Client, base, _ string, _ *stage) error {
	resp, err := fetch(ctx, c, http.MethodGet, base+"/trailers", nil, 0)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := same(resp.Body, strings.NewReader("body")); err != nil {
		return err
	}
	if got := resp.Trailer.Get("X-Sum"); got != "42" {
		return fmt.Errorf("trailer %q, want 42", got)
	}
	return nil
}

// clientGoes: the service learns that nobody listens.
func clientGoes(ctx context.Context, c *http.Client, base, id string, s *stage) error {
	mine, leave := context.WithCancel(ctx)
	resp, err := fetch(mine, c, http.MethodGet, base+"/hang?id="+id, nil, 0)
	if err != nil {
		leave()
		return err
	}
	_, err = io.ReadFull(resp.Body, make([]byte, 5))
	leave()
	_ = resp.Body.Close()
	if err != nil {
		return err
	}
	select {
	case <-s.gate(id):
		return nil
	case <-time.After(20 * time.Second):
		return errors.New("the service was not told")
	}
}

// upstreamGoes: what was cut does not pass for the whole.
func upstreamGoes(ctx context.Context, c *http.Client, base, _ string, _ *stage) error {
	resp, err := fetch(ctx, c, http.MethodGet, base+"/cut", nil, 0)
	if err != nil {
		return nil //nolint:nilerr // visibly nothing
	}
	defer func() { _ = resp.Body.Close() }()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK {
		return fmt.Errorf("status 200, %d bytes, and no error", n)
	}
	return nil
}

func TestAnyProtocolInAnyProtocolOut(t *testing.T) {
	ca := NewCA(t)
	leaf := ca.Leaf(t, "localhost", "127.0.0.1")
	s := &stage{gates: map[string]chan struct{}{}}
	ups := origins(t, s, leaf)
	clear, secure, zapClear := FreeAddr(t), FreeAddr(t), FreeAddr(t)
	var routes, upstreams strings.Builder
	for name, url := range ups {
		fmt.Fprintf(&routes, "  - {match: {path: /%s/*}, to: %s, rewrite: {strip_prefix: /%[1]s}}\n", tame(name), tame(name))
		secured := ""
		if strings.HasSuffix(name, "s") || strings.HasSuffix(name, "tls") || strings.HasSuffix(name, "quic") || name == "h3" {
			secured = ", tls: out"
		}
		fmt.Fprintf(&upstreams, "  %s: {endpoints: [%q]%s}\n", tame(name), url, secured)
	}
	Run(t, fmt.Sprintf(`
version: 1
access_log: off
log: {level: warn}
tls:
  t: {certificates: {files: {cert: %s, key: %s}}}
  out: {ca: %s, server_name: localhost, pq: require}
listeners:
  - {name: clear, address: %q, protocols: [h1, h2c]}
  - {name: secure, address: %q, protocols: [h1, h2, h3, zap], tls: t}
  - {name: zap, address: %q, protocols: [zap]}
routes:
%supstreams:
%s`, leaf.CertFile, leaf.KeyFile, ca.File, clear, secure, zapClear, routes.String(), upstreams.String()))

	for name, in := range doors(t, ca, leaf, clear, secure, zapClear) {
		for up := range ups {
			t.Run(name+" to "+up, func(t *testing.T) {
				t.Parallel()
				big := int64(80 << 20)
				if raceEnabled && (up != "zap+tls" || name != "h2" && name != "zap+tls") {
					big = 2 << 20 // the race detector makes the whole matrix take half an hour
				}
				for _, a := range acts(big) {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					id := strings.ReplaceAll(name+"-"+up+"-"+a.name, " ", "_")
					if err := a.run(ctx, in.client, in.url+"/"+tame(up), strings.ReplaceAll(id, "+", "_"), s); err != nil {
						t.Errorf("%s: %v", a.name, err)
					}
					cancel()
				}
			})
		}
	}
}

// tame is a name fit for paths and keys.
func tame(name string) string { return strings.ReplaceAll(name, "+", "-") }

// doors are clients of each protocol that a listener speaks.
func doors(t *testing.T, ca *CA, leaf Leaf, clear, secure, zapClear string) map[string]door {
	t.Helper()
	cfg := &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}
	h3 := &http3.Transport{TLSClientConfig: cfg.Clone()}
	zc, zs := &zap.Client{}, &zap.Client{TLS: cfg.Clone()}
	t.Cleanup(func() {
		_ = h3.Close()
		zc.Close()
		zs.Close()
	})
	return map[string]door{
		"h1":       {&http.Client{}, "http://" + clear},
		"h1 TLS":   {ca.Client(t, false), "https://" + secure},
		"h2":       {ca.Client(t, true), "https://" + secure},
		"h3":       {&http.Client{Transport: h3}, "https://" + secure},
		"zap":      {&http.Client{Transport: zc}, "zap://" + zapClear},
		"zap+tls":  {&http.Client{Transport: zs}, "zap+tls://" + secure},
		"zap+quic": {&http.Client{}, towards(t, "zap+quic://"+secure, ca)},
	}
}

// towards is the address of a second gateway that takes plain HTTP and leads to url:
// the client of what Go programs have no other client for.
func towards(t *testing.T, url string, ca *CA) string {
	t.Helper()
	addr := FreeAddr(t)
	Run(t, fmt.Sprintf(`
version: 1
access_log: off
listeners: [{name: l, address: %q, protocols: [h1]}]
routes: [{to: u}]
upstreams: {u: {endpoints: [%q], tls: {ca: %s, server_name: localhost, pq: require}}}
`, addr, url, ca.File))
	return "http://" + addr
}

// behind is the address of a second gateway that takes ZAP over QUIC for url.
func behind(t *testing.T, url string, leaf Leaf) string {
	t.Helper()
	addr := FreeAddr(t)
	Run(t, fmt.Sprintf(`
version: 1
access_log: off
tls: {t: {certificates: {files: {cert: %s, key: %s}}}}
listeners: [{name: l, address: %q, protocols: [zap], tls: t}]
routes: [{to: u}]
upstreams: {u: {endpoints: [%q]}}
`, leaf.CertFile, leaf.KeyFile, addr, url))
	return addr
}

// origins serve the stage over each protocol that an upstream may speak.
func origins(t *testing.T, s *stage, leaf Leaf) map[string]string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(leaf.CertFile, leaf.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}}
	plain := NewOrigin(t, true, s)
	secure := &http.Server{Handler: s, TLSConfig: cfg.Clone(), ReadHeaderTimeout: time.Minute}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = secure.ServeTLS(ln, "", "") }()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h3 := &http3.Server{Handler: s, TLSConfig: http3.ConfigureTLSConfig(cfg.Clone())}
	go func() { _ = h3.Serve(udp) }()
	zapAt, zapTLSAt := serveZAP(t, s, nil), serveZAP(t, s, cfg.Clone())
	t.Cleanup(func() {
		_ = secure.Close()
		_ = h3.Close()
		_ = udp.Close()
	})
	return map[string]string{
		"http": plain.URL, "h2c": "h2c://" + plain.Addr, "https": "https://" + ln.Addr().String(), "h3": "h3://" + udp.LocalAddr().String(),
		"zap": "zap://" + zapAt, "zap+tls": "zap+tls://" + zapTLSAt, "zap+quic": "zap+quic://" + behind(t, plain.URL, leaf),
	}
}
