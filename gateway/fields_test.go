package gateway

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
)

// seen serves one request and returns the fields that the upstream saw, and
// the head itself.
func seen(t *testing.T, change func(*client)) (string, *client) {
	t.Helper()
	var got string
	u := &fakeUpstream{serve: func(c *fakeCall) error {
		got = fields(&c.x.Request)
		c.answer(200)
		return nil
	}}
	g := newGateway(t, treeTo(1), u)
	c := request("GET", "/")
	change(c)
	g.Serve(&c.x)
	if c.r.status != 200 {
		t.Fatalf("%d %s", c.r.status, c.r.body.String())
	}
	return got, c
}

// forged is what a client may send to pass for something else.
var forged = []string{
	"X-Forwarded-For", "10.0.0.1", "x-forwarded-for", "10.0.0.2",
	"X-Forwarded-Proto", "https", "X-Forwarded-Host", "evil.test", "Forwarded", "for=10.0.0.1",
	"X-Forwarded-Port", "1", "X-Forwarded-Client-Cert", "Hash=1", "X_Forwarded_For", "10.0.0.3",
	"X-Real-IP", "10.0.0.4", "X_Real_Ip", "10.0.0.5",
	"X-Request-Id", "forged", "X_Request_ID", "forged",
	"X-PQ", "1", "x-pq-group", "X25519MLKEM768", "X_PQ", "1", "x_pq_group", "a", "X-Peer-Identity", "root", "X_Peer_Identity", "root",
	"Early_Data", "1",
	"X-Pqx", "kept", "Xx", "kept", "X-Forwarded", "kept", "Traceparent", "kept", "E", "kept",
}

func TestForgedFieldsAreReplaced(t *testing.T) {
	got, c := seen(t, func(c *client) {
		for i := 0; i < len(forged); i += 2 {
			c.x.Request.AddString(forged[i], forged[i+1])
		}
	})
	id := requestID(got)
	want := fmt.Sprintf(`X-Pqx: kept
Xx: kept
X-Forwarded: kept
Traceparent: kept
E: kept
X-Forwarded-For: 192.0.2.7
X-Forwarded-Proto: http
X-Forwarded-Host: api.test
X-Real-Ip: 192.0.2.7
X-Request-Id: %s
X-PQ: 0
X-PQ-Group: none
`, id)
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	if len(id) != 32 || id == "forged" {
		t.Errorf("request id %q", id)
	}
	_ = c
}

func requestID(fields string) string {
	_, rest, _ := strings.Cut(fields, "X-Request-Id: ")
	id, _, _ := strings.Cut(rest, "\n")
	return id
}

func TestTrustedPeerIsBelieved(t *testing.T) {
	got, _ := seen(t, func(c *client) {
		c.x.Conn.Trusted = true
		for _, f := range [][2]string{
			{"X-Forwarded-For", "203.0.113.1"},
			{"X-Forwarded-For", "203.0.113.2, 203.0.113.3"},
			{"X-Forwarded-Proto", "https"},
			{"X-Forwarded-Host", "public.test"},
			{"X-Forwarded-Port", "443"},
			{"Forwarded", "for=203.0.113.1"},
			{"X-Request-Id", "abc-123"},
			{"X-PQ", "1"},
			{"X-PQ-Group", "X25519MLKEM768"},
			{"X-Peer-Identity", "root"},
		} {
			c.x.Request.AddString(f[0], f[1])
		}
	})
	const want = `X-Forwarded-Proto: https
X-Forwarded-Host: public.test
X-Forwarded-Port: 443
X-Request-Id: abc-123
X-Forwarded-For: 203.0.113.1, 203.0.113.2, 203.0.113.3, 192.0.2.7
X-Real-Ip: 203.0.113.3
Forwarded: for=203.0.113.1, for=192.0.2.7;proto=http
X-PQ: 0
X-PQ-Group: none
`
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestForwardedNamesIPv6AsTheRFCDoes(t *testing.T) {
	got, _ := seen(t, func(c *client) {
		c.x.Conn.Trusted = true
		c.x.Conn.Client, c.x.Conn.ClientText = netip.MustParseAddrPort("[2001:db8::1]:99"), "2001:db8::1"
		c.x.Request.AddString("Forwarded", "for=_a")
	})
	if !strings.Contains(got, `Forwarded: for=_a, for="[2001:db8::1]";proto=http`+"\n") {
		t.Errorf("%s", got)
	}
}

func TestTrustedPeersBadRequestIDIsReplaced(t *testing.T) {
	for _, id := range []string{"", "a b", `a"b`, strings.Repeat("x", 500)} {
		got, _ := seen(t, func(c *client) {
			c.x.Conn.Trusted = true
			c.x.Request.AddString("X-Request-Id", id)
		})
		if now := requestID(got); len(now) != 32 || strings.Count(got, "X-Request-Id") != 1 {
			t.Errorf("%q became %q", id, now)
		}
	}
}

func TestHandshakeIsToldToTheUpstream(t *testing.T) {
	got, _ := seen(t, func(c *client) {
		c.x.Conn.Secure = true
		c.x.Conn.Facts = handshake.Facts{
			Version: tls.VersionTLS13, Group: tls.X25519MLKEM768, PeerName: "spiffe://mesh/a", EarlyData: true,
		}
		c.x.Request.AddString("X-Peer-Identity", "root")
		c.x.Request.AddString("Early-Data", "0")
	})
	for _, line := range []string{
		"X-Forwarded-Proto: https\n", "X-PQ: 1\n", "X-PQ-Group: X25519MLKEM768\n", "X-Peer-Identity: spiffe://mesh/a\n", "Early-Data: 1\n",
	} {
		if strings.Count(got, line) != 1 {
			t.Errorf("%q is not there once:\n%s", line, got)
		}
	}
	kept, _ := seen(t, func(c *client) {
		c.x.Request.AddString("Early-Data", "0")
		c.x.Request.AddString("Early-Data", "1")
	})
	if strings.Count(kept, "Early-Data") != 1 || !strings.Contains(kept, "Early-Data: 1\n") {
		t.Errorf("early data of a gateway before this one is not told on:\n%s", kept)
	}
	if strings.Contains(got, "root") || strings.Contains(got, "Early-Data: 0") {
		t.Errorf("the client's own word went through:\n%s", got)
	}
	got, _ = seen(t, func(c *client) {
		c.x.Conn.Secure = true
		c.x.Conn.Facts = handshake.Facts{Version: tls.VersionTLS13, Group: tls.X25519}
	})
	if !strings.Contains(got, "X-PQ: 0\nX-PQ-Group: X25519\n") {
		t.Errorf("%s", got)
	}
}

// route serves one request by a route, and returns what the upstream saw of it:
// target, authority, fields.
func viaRoute(t *testing.T, r *config.Route, method, target string, fs ...string) (sent *exchange.Head, c *client) {
	t.Helper()
	u := &fakeUpstream{serve: func(c *fakeCall) error {
		sent = &exchange.Head{}
		sent.Reset(nil)
		sent.SetTarget(c.x.Request.Target())
		sent.SetAuthority(c.x.Request.Authority())
		sent.CopyFields(&c.x.Request)
		c.answer(200, "Server", "app", "X-Old", "1")
		return nil
	}}
	tree := treeTo(1)
	tree.Routes = []*config.Route{r}
	g := newGateway(t, tree, u)
	c = request(method, target, fs...)
	g.Serve(&c.x)
	return sent, c
}

func TestRewrite(t *testing.T) {
	for _, c := range []struct{ match, strip, replace, target, want string }{
		{"/v1/*", "", "", "/v1/models?q=/v1", "/models?q=/v1"}, // an empty rewrite strips what the route names
		{"/v1/*", "/v1", "", "/v1", "/"},
		{"/v1/*", "/v1", "", "/v1?q", "/?q"},
		{"/v1/*", "/v1", "", "/v1/", "/"},
		{"/v1/*", "/v1", "/api", "/v1/x", "/api/x"},
		{"/v1/*", "/v1", "/api/", "/v1/x", "/api/x"},
		{"/v1/*", "", "/api", "/v1", "/api"},
		{"/*", "", "/api", "/x", "/api/x"},
		{"/*", "/v1", "", "/v10/x", "/v10/x"}, // not a whole segment
		{"/*", "/v1", "", "/x/v1/y", "/x/v1/y"},
		{"/exact", "", "/other", "/exact?a=1", "/other?a=1"},
	} {
		r := &config.Route{To: "app", Match: config.Match{Path: c.match}, Rewrite: &config.Rewrite{StripPrefix: c.strip, ReplacePrefix: c.replace}}
		sent, _ := viaRoute(t, r, "GET", c.target)
		if got := string(sent.Target()); got != c.want {
			t.Errorf("%s, strip %q, replace %q: %s became %s, want %s", c.match, c.strip, c.replace, c.target, got, c.want)
		}
	}
}

func TestHeaderOps(t *testing.T) {
	r := &config.Route{
		To: "app",
		RequestHeaders: &config.HeaderOps{
			Remove: []string{"cookie", "x-b"},
			Set:    config.Fields{{Name: "Host", Value: "inside.test"}, {Name: "X-A", Value: "new"}},
			Add:    config.Fields{{Name: "X-A", Value: "more"}},
		},
		ResponseHeaders: &config.HeaderOps{Remove: []string{"server"}, Set: config.Fields{{Name: "X-Old", Value: "2"}}},
	}
	sent, c := viaRoute(t, r, "GET", "/", "X-A", "1", "x-a", "2", "Cookie", "k", "X-B", "3", "X-C", "kept")
	got := fields(sent)
	if string(sent.Authority()) != "inside.test" || !strings.HasPrefix(got, "X-C: kept\n") || !strings.HasSuffix(got, "X-A: new\nX-A: more\n") || strings.Contains(got, "Cookie") || strings.Contains(got, "X-B") {
		t.Errorf("%s\n%s", sent.Authority(), got)
	}
	if !strings.Contains(got, "X-Forwarded-Host: api.test\n") {
		t.Errorf("the client's host is not told:\n%s", got)
	}
	if got := fields(&c.r.head); got != "X-Old: 2\n" {
		t.Errorf("%s", got)
	}
}

func TestFramingCannotBeWritten(t *testing.T) {
	for _, name := range []string{"content-length", "Transfer-Encoding", "Connection", "upgrade", "TE", "Expect"} {
		tree := treeTo(1)
		tree.Routes[0].RequestHeaders = &config.HeaderOps{Set: config.Fields{{Name: name, Value: "1"}}}
		if g, err := New(tree, Options{Dial: anyDialer(&smooth{})}); err == nil {
			_ = g.Close(t.Context())
			t.Errorf("%s was taken", name)
		}
	}
}

func TestRedirect(t *testing.T) {
	for _, c := range []struct{ to, target, authority, want string }{
		{"https://{host}{path}{query}", "/a/b?c=d", "API.test:8080", "https://api.test/a/b?c=d"},
		{"https://{host}{path}{query}", "/", "[::1]:80", "https://[::1]/"},
		{"{scheme}://new.test/x", "/a", "api.test", "http://new.test/x"},
		{"{path}", "//evil.test/x", "api.test", "/evil.test/x"},
		{"{path}", `/\evil.test/x`, "api.test", "/evil.test/x"},
		{"/fixed", "/a?b", "api.test", "/fixed"},
	} {
		r := &config.Route{Redirect: &config.Redirect{To: c.to, Status: 308}}
		tree := treeTo(0)
		tree.Routes = []*config.Route{r}
		g := newGateway(t, tree)
		q := request("GET", c.target)
		q.x.Request.SetAuthority([]byte(c.authority))
		g.Serve(&q.x)
		if got := string(q.r.head.Get(exchange.Location)); q.r.status != 308 || got != c.want {
			t.Errorf("%s for %s%s: %d %s, want %s", c.to, c.authority, c.target, q.r.status, got, c.want)
		}
	}
}

func TestRespond(t *testing.T) {
	r := &config.Route{Respond: &config.Respond{Status: 503, Body: "later", Headers: config.Fields{{Name: "Retry-After", Value: "5"}}}}
	_, c := viaRoute(t, r, "GET", "/")
	if c.r.status != 503 || c.r.body.String() != "later" || fields(&c.r.head) != "Retry-After: 5\nContent-Type: text/plain; charset=utf-8\n" {
		t.Errorf("%d %q\n%s", c.r.status, c.r.body.String(), fields(&c.r.head))
	}
	_, c = viaRoute(t, r, "HEAD", "/")
	if c.r.body.Len() != 0 || c.r.head.Length != 5 {
		t.Errorf("HEAD: %q, length %d", c.r.body.String(), c.r.head.Length)
	}
}

func TestDotSegmentsAreRefused(t *testing.T) {
	r := &config.Route{To: "app"}
	if sent, c := viaRoute(t, r, "GET", "/public/%2e%2e/admin"); sent != nil || c.r.status != 400 {
		t.Errorf("%d", c.r.status)
	}
}

func TestAPathThatUpstreamsMayReadAsAnothersIsRefused(t *testing.T) {
	u := &fakeUpstream{serve: ok("fine")}
	tree := treeTo(1,
		&config.Route{To: "app"},
		&config.Route{Match: config.Match{Path: "/admin/*"}, Respond: &config.Respond{Status: 403}},
		&config.Route{Match: config.Match{Path: "/exact"}, Respond: &config.Respond{Status: 403}},
		&config.Route{Match: config.Match{Path: "/with%20space"}, Respond: &config.Respond{Status: 204}},
	)
	g := newGateway(t, tree, u)
	for target, want := range map[string]int{
		"/":                     200,
		"/admin/x":              403,
		"/exact":                403,
		"/%61dmin/x":            400,
		"//admin/x":             400,
		"/admin%2fx":            400,
		"/admin%5Cx":            400,
		`/admin\x`:              400,
		"/admin;v=1/x":          400,
		"/admin%3bv=1/x":        400,
		"/exac%74":              400,
		"/exact;v=1":            400,
		"/x/..%2fadmin":         400,
		"/x%2f..%2fadmin":       400,
		`/x\..\admin`:           400,
		"/x/%252e%252e/admin":   400,
		"/admin//x":             403, // the same route either way
		"/admin/%7Euser;v=1":    403,
		"/x/http://example.com": 200,
		"/%E2%82%AC":            200,
		"/x?y=/../%2f;//":       200, // no path
		"/with%20space":         204, // the route says it so
	} {
		q := request("GET", target)
		g.Serve(&q.x)
		if q.r.status != want {
			t.Errorf("%s: %d, want %d", target, q.r.status, want)
		}
	}
}

func TestMisdirectedConnection(t *testing.T) {
	tree := treeTo(1, &config.Route{To: "app", Match: config.Match{Host: []string{"mesh.test"}, Listener: []string{"hop"}}})
	tree.Listeners = []*config.Listener{{Name: "edge", TLS: "public"}, {Name: "hop", TLS: "mesh"}}
	g := newGateway(t, tree, &fakeUpstream{serve: ok("fine")})
	for _, c := range []struct {
		host, sni string
		secure    bool
		status    int
	}{
		{"mesh.test", "api.test", true, 421},
		{"mesh.test:443", "api.test", true, 421},
		{"api.test", "api.test", true, 200},
		{"mesh.test", "api.test", false, 200}, // in the clear there is no SNI
	} {
		q := request("GET", "/")
		q.x.Conn.Secure, q.x.Conn.Facts = c.secure, handshake.Facts{SNI: c.sni, Version: tls.VersionTLS13}
		q.x.Request.SetAuthority([]byte(c.host))
		g.Serve(&q.x)
		if q.r.status != c.status {
			t.Errorf("host %s, sni %s: %d, want %d", c.host, c.sni, q.r.status, c.status)
		}
	}
}
