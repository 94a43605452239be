package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeGateway is what the admin pages show and change.
type fakeGateway struct {
	reloadErr error
	reloads   int
	drained   bool
}

func (g *fakeGateway) admin() *Admin {
	m := NewMetrics(Build{Version: "v1"})
	return &Admin{
		Metrics: m.Handler(),
		Status: func() Status {
			return Status{State: "ready", Configuration: ConfigurationStatus{Version: 1 + g.reloads}, Warnings: []string{"mind the gap"}}
		},
		Reload: func(context.Context) error {
			if g.reloadErr == nil {
				g.reloads++
			}
			return g.reloadErr
		},
		Drain: func() { g.drained = true },
		Ready: func() bool { return !g.drained },
	}
}

// startAdmin serves the pages and returns a client for http://pqgw or, on
// TCP, for the address.
func startAdmin(t *testing.T, address string, a *Admin) (*AdminServer, *http.Client) {
	t.Helper()
	s, err := ServeAdmin(address, a, quiet())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, s.Addr().Network(), s.Addr().String())
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s, &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "adm") // short: an address has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "run", "admin.sock")
}

func call(t *testing.T, c *http.Client, r *http.Request) (int, string) {
	t.Helper()
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func request(t *testing.T, method, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAdminPages(t *testing.T) {
	path := socketPath(t)
	_, c := startAdmin(t, "unix:"+path, new(fakeGateway).admin())
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("socket: %v, %v", info, err)
	}
	tests := []struct {
		method, path string
		code         int
		holds        string
	}{
		{"GET", "/healthz", 200, "ok"},
		{"HEAD", "/healthz", 200, ""},
		{"GET", "/readyz", 200, "ready"},
		{"GET", "/metrics", 200, `pqgw_build_info{goversion="",revision="",version="v1"} 1`},
		{"GET", "/status", 200, `"mind the gap"`},
		{"GET", "/reload", 405, ""},
		{"GET", "/drain", 405, ""},
		{"PUT", "/drain", 405, ""},
		{"POST", "/status", 405, ""},
		{"POST", "/metrics", 405, ""},
		{"DELETE", "/healthz", 405, ""},
		{"GET", "/", 404, ""},
		{"GET", "/status/x", 404, ""},
		{"GET", "/debug/pprof/", 200, "goroutine"},
		{"GET", "/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"GET", "/debug/pprof/cmdline", 200, ""},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			code, body := call(t, c, request(t, tt.method, "http://pqgw"+tt.path))
			if code != tt.code || !strings.Contains(body, tt.holds) {
				t.Errorf("%d %q, want %d with %q", code, body, tt.code, tt.holds)
			}
		})
	}
}

func TestStatusListsAreNeverNull(t *testing.T) {
	_, c := startAdmin(t, "unix:"+socketPath(t), &Admin{
		Status: func() Status { return Status{Upstreams: []UpstreamStatus{{}}, Certificates: []CertificateStatus{{}}} },
		Ready:  func() bool { return true },
	})
	_, body := call(t, c, request(t, "GET", "http://pqgw/status"))
	if strings.Contains(body, "null") {
		t.Errorf("a reader of %s must mind null", body)
	}
	for _, path := range []string{"/reload", "/drain"} { // without hooks
		if code, _ := call(t, c, request(t, "POST", "http://pqgw"+path)); code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func TestReload(t *testing.T) {
	g := new(fakeGateway)
	_, c := startAdmin(t, "unix:"+socketPath(t), g.admin())
	var answer ReloadAnswer
	code, body := call(t, c, request(t, "POST", "http://pqgw/reload"))
	if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 200 || !answer.Reloaded || answer.Configuration.Version != 2 {
		t.Errorf("%d %s %v", code, body, err)
	}
	g.reloadErr = errors.New("edge.yaml:3:5: routes: unknown key")
	code, body = call(t, c, request(t, "POST", "http://pqgw/reload"))
	answer = ReloadAnswer{}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 422 || answer.Reloaded || answer.Error != g.reloadErr.Error() || answer.Configuration.Version != 2 {
		t.Errorf("%d %s %v", code, body, err)
	}
}

func TestDrainMakesNotReady(t *testing.T) {
	g := new(fakeGateway)
	_, c := startAdmin(t, "127.0.0.1:0", g.admin())
	if code, body := call(t, c, request(t, "POST", "http://127.0.0.1/drain")); code != 202 || !strings.Contains(body, `"draining": true`) {
		t.Errorf("drain: %d %s", code, body)
	}
	if code, _ := call(t, c, request(t, "GET", "http://127.0.0.1/readyz")); code != 503 {
		t.Errorf("readyz: %d", code)
	}
	if code, _ := call(t, c, request(t, "GET", "http://127.0.0.1/healthz")); code != 200 {
		t.Errorf("healthz: %d", code)
	}
}

func TestAWebPageCannotUseAnOperatorsBrowser(t *testing.T) {
	g := new(fakeGateway)
	_, c := startAdmin(t, "127.0.0.1:0", g.admin())
	post := func(host, field, value string) int {
		r := request(t, "POST", "http://127.0.0.1/drain")
		r.Host = host
		if field != "" {
			r.Header.Set(field, value)
		}
		code, _ := call(t, c, r)
		return code
	}
	for name, code := range map[string]int{
		"another origin":                post("127.0.0.1:9900", "Origin", "https://evil.example"),
		"another site":                  post("127.0.0.1:9900", "Sec-Fetch-Site", "cross-site"),
		"a name of its choosing":        post("evil.example", "", ""),
		"a name and the port":           post("evil.example:9900", "Origin", "http://evil.example:9900"),
		"a name that begins as ours":    post("localhost.evil.example", "", ""),
		"a name that looks like an IP4": post("127.0.0.1.evil.example", "", ""),
	} {
		if code != 403 {
			t.Errorf("%s: %d, want 403", name, code)
		}
	}
	if g.drained {
		t.Fatal("drained")
	}
	for _, host := range []string{"127.0.0.1", "localhost:9900", "[::1]:9900"} {
		if code := post(host, "", ""); code != 202 {
			t.Errorf("host %s: %d, want 202", host, code)
		}
	}
}

func TestAdminAddressesThatCannotBeServed(t *testing.T) {
	path := socketPath(t)
	startAdmin(t, "unix:"+path, new(fakeGateway).admin())
	for address, hint := range map[string]string{
		"unix:" + path: "another process", "unix:": "a path", "nonsense": "unix:/path", "127.0.0.1:99999": "host:port",
	} {
		if s, err := ServeAdmin(address, new(fakeGateway).admin(), quiet()); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: server %v, error %v, want one that says %q", address, s, err, hint)
		}
	}
}

func TestCloseLetsCallsEndAndRemovesTheSocket(t *testing.T) {
	path := socketPath(t)
	begun, end := make(chan struct{}), make(chan struct{})
	a := new(fakeGateway).admin()
	a.Reload = func(context.Context) error {
		close(begun)
		<-end
		return nil
	}
	s, c := startAdmin(t, "unix:"+path, a)
	codes := make(chan int, 1)
	go func() {
		resp, err := c.Post("http://pqgw/reload", "", nil)
		if err != nil {
			codes <- 0
			return
		}
		resp.Body.Close()
		codes <- resp.StatusCode
	}()
	<-begun
	closed := make(chan error, 1)
	go func() { closed <- s.Close(context.Background()) }()
	eventually(t, "the socket is gone", func() bool {
		_, err := os.Stat(path)
		return errors.Is(err, os.ErrNotExist)
	})
	close(end)
	if code := <-codes; code != 200 {
		t.Errorf("the call under way got %d", code)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	<-s.Done()
}
