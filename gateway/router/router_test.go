package router

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
)

func TestNormalizeHost(t *testing.T) {
	long := strings.Repeat("a", 256)
	for _, c := range []struct{ in, want string }{
		{"example.com", "example.com"},
		{"EXAMPLE.com", "example.com"},
		{"example.com:8443", "example.com"},
		{"example.com.", "example.com"},
		{"Example.COM.:443", "example.com"},
		{"example.com:", "example.com"},
		{"127.0.0.1:80", "127.0.0.1"},
		{"[::1]:8443", "::1"},
		{"[::1]", "::1"},
		{"[2001:DB8:0:0::1]", "2001:db8::1"},
		{"2001:DB8::1", "2001:db8::1"},
		{"[FE80::1%25eth0]", "fe80::1%25eth0"},
		{"[::1", ""},
		{".", "."},
		{"", ""},
		{long, ""},
		{long + ":80", ""},
	} {
		if got := string(NormalizeHost(nil, []byte(c.in))); got != c.want {
			t.Errorf("NormalizeHost(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestHasDotSegment(t *testing.T) {
	for _, path := range []string{
		"/..", "/.", "/a/../b", "/a/./b", "/a/..", "/%2e%2e/x", "/%2E./x", "/a/.%2e", "/a/..;x=y/b", "/..\\x", "/a/%2e",
	} {
		if !HasDotSegment([]byte(path)) {
			t.Errorf("%q has a dot segment", path)
		}
	}
	for _, path := range []string{
		"", "*", "/", "/a", "/...", "/.well-known/x", "/a/..b", "/a/b..", "/%2e%2e%2e", "/a/.git", "/%2ea", "/%2f..", "//", "/a%2f..%2fb",
	} {
		if HasDotSegment([]byte(path)) {
			t.Errorf("%q has no dot segment", path)
		}
	}
}

func TestAPathIsResolvedAsUpstreamsMay(t *testing.T) {
	for path, want := range map[string]string{
		"/admin":               "/admin",
		"/%61dmin":             "/admin",
		"//admin///x":          "/admin/x",
		"/admin%2fx":           "/admin/x",
		"/admin%2F%2fx":        "/admin/x",
		`/admin\x`:             "/admin/x",
		"/admin%5cx":           "/admin/x",
		"/admin;a=b/x;c/y":     "/admin/x/y",
		"/admin%3Ba/x":         "/admin/x",
		"/a/..%2fb":            "/a/../b",
		"/%252e":               "/%2e",
		"/50%":                 "/50%",
		"/5%2":                 "/5%2",
		"/%zz%2":               "/%zz%2",
		"/%e2%82%ac":           "/\u20ac",
		"/http://example.com/": "/http:/example.com/",
	} {
		if got := string(AppendResolved(nil, []byte(path))); got != want {
			t.Errorf("%s is resolved to %s, want %s", path, got, want)
		}
		if Plain([]byte(path)) && path != want {
			t.Errorf("%s is not plain", path)
		}
	}
}

func head(t testing.TB, method string, fields ...string) *exchange.Head {
	t.Helper()
	h := &exchange.Head{}
	h.Reset(nil)
	h.SetMethod([]byte(method))
	for i := 0; i < len(fields); i += 2 {
		h.AddString(fields[i], fields[i+1])
	}
	return h
}

// world is the alphabet of the property test: small, so that rules collide.
var (
	hosts      = []string{"", "a.test", "b.a.test", "*.a.test", "*.b.a.test", "*.test", "[::1]", "A.Test"}
	asked      = []string{"a.test", "b.a.test", "c.b.a.test", "x.test", "test", "::1", "", ".a.test", "a..a.test"}
	routePaths = []string{"", "/*", "/", "/v1", "/v1/*", "/v1/x", "/v1/x/*", "/v1//*", "/v1/", "/v2/*"}
	urls       = []string{"/", "/v1", "/v1/", "/v1/x", "/v1/x/", "/v1/x/y", "/v1//", "/v1//x", "/v10", "/v2/a", "/v", "*", ""}
	methods    = []string{"GET", "POST", "BREW"}
	peers      = []string{"", "spiffe://a", "b"}
)

func genRoute(t *rapid.T) *config.Route {
	m := config.Match{
		Path:   rapid.SampledFrom(routePaths).Draw(t, "path"),
		Method: rapid.SliceOfNDistinct(rapid.SampledFrom(methods), 0, 2, rapid.ID[string]).Draw(t, "method"),
	}
	if rapid.IntRange(0, 3).Draw(t, "bound") == 0 {
		m.Listener = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"one", "two"}), 1, 2, rapid.ID[string]).Draw(t, "listener")
	}
	for _, h := range rapid.SliceOfNDistinct(rapid.SampledFrom(hosts), 0, 3, rapid.ID[string]).Draw(t, "hosts") {
		if h != "" {
			m.Host = append(m.Host, h)
		}
	}
	if rapid.Bool().Draw(t, "peered") {
		m.Peer = []string{rapid.SampledFrom(peers[1:]).Draw(t, "peer")}
	}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"Accept", "x-Tenant"}), 0, 2, rapid.ID[string]).Draw(t, "fields") {
		m.Header = append(m.Header, config.Field{Name: name, Value: rapid.SampledFrom([]string{"*", "1", "2"}).Draw(t, "value")})
	}
	return &config.Route{Match: m}
}

// The table finds what config's own matcher, which tries rule by rule, finds.
func TestTableAgreesWithNaiveMatcher(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := &config.Tree{Routes: rapid.SliceOfN(rapid.Custom(genRoute), 0, 12).Draw(t, "routes")}
		rules := tree.Rules()
		for _, name := range []string{"one", "two", "other"} {
			table := Build(tree, &config.Listener{Name: name}, func(r config.Rule) int { return r.Index })
			checkAgreement(t, tree, rules, name, table)
		}
	})
}

func checkAgreement(t *rapid.T, tree *config.Tree, rules []config.Rule, listener string, table *Table[int]) {
	q := config.Request{
		Listener: listener,
		Host:     rapid.SampledFrom(asked).Draw(t, "host"),
		Path:     rapid.SampledFrom(urls).Draw(t, "url"),
		Method:   rapid.SampledFrom(methods).Draw(t, "method"),
	}
	h := &exchange.Head{}
	h.Reset(nil)
	h.SetMethod([]byte(q.Method))
	for _, name := range []string{"accept", "X-Tenant", "x-tenant"} {
		if v := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "value"); v != "" {
			q.Header = append(q.Header, config.Field{Name: name, Value: v})
			h.AddString(name, v)
		}
	}
	peer := rapid.SampledFrom(peers).Draw(t, "peer")
	if peer != "" {
		q.Peers = []string{peer}
	}
	// The naive matcher knows no literals: give it the pattern's own form.
	if q.Host == "::1" {
		q.Host = "[::1]"
	}
	want, ok := config.Winner(rules, &q)
	got, found := table.Lookup(&Query{
		Host: NormalizeHost(nil, []byte(q.Host)), Path: []byte(q.Path), Request: h, Peer: peer,
	})
	// Two rules that neither wins over the other may both be right.
	if ok != found || found && want.Index != got && !tied(rules, want, got, q.Host) {
		t.Fatalf("%+v:\nnaive %v %v %+v\ntable %v %v %+v", q, ok, want.Index, want.Route, found, got, tree.Routes[max(got, 0)])
	}
}

func tied(rules []config.Rule, want config.Rule, got int, host string) bool {
	for _, r := range rules {
		if r.Index == got && config.CompareRules(want, r) == 0 && config.HostMatches(r.Host, host) {
			return true
		}
	}
	return false
}

func TestMisdirectedByTLSSettings(t *testing.T) {
	tree := &config.Tree{
		Listeners: []*config.Listener{{Name: "edge", TLS: "public"}, {Name: "edge2", TLS: "public"}, {Name: "hop", TLS: "mesh"}},
		Routes: []*config.Route{
			{Match: config.Match{Host: []string{"api.test"}}},
			{Match: config.Match{Host: []string{"mesh.test", "*.mesh.test"}, Listener: []string{"hop"}}},
			{Match: config.Match{Host: []string{"public.mesh.test"}, Listener: []string{"edge2"}}},
			{Match: config.Match{Host: []string{"both.test"}, Listener: []string{"hop"}}},
			{Match: config.Match{Host: []string{"both.test"}, Listener: []string{"edge"}}},
			{Match: config.Match{}},
		},
	}
	edge := Build(tree, tree.Listeners[0], func(r config.Rule) int { return r.Index })
	hop := Build(tree, tree.Listeners[2], func(r config.Rule) int { return r.Index })
	for _, c := range []struct {
		on        string
		host, sni string
		want      bool
	}{
		{"edge", "api.test", "api.test", false},
		{"edge", "api.test", "other.test", false},
		{"edge", "unknown.test", "api.test", false},
		{"edge", "mesh.test", "api.test", true},
		{"edge", "mesh.test", "", true},
		{"edge", "mesh.test", "mesh.test", false}, // asked for by name: not coalesced
		{"edge", "x.y.mesh.test", "api.test", true},
		{"edge", "public.mesh.test", "api.test", false}, // same settings, another listener
		{"edge", "both.test", "api.test", false},
		{"hop", "mesh.test", "api.test", false},
		{"hop", "both.test", "", false},
		{"hop", "public.mesh.test", "mesh.test", true},
		{"hop", "api.test", "mesh.test", false}, // bound to no listener
	} {
		table := edge
		if c.on == "hop" {
			table = hop
		}
		if got := table.Misdirected([]byte(c.host), c.sni); got != c.want {
			t.Errorf("on %s: host %s, sni %s: %v", c.on, c.host, c.sni, got)
		}
	}
}

// TestLookupAllocatesNothing guards the hot path.
func TestLookupAllocatesNothing(t *testing.T) {
	table, q := large(t, 10_000)
	var buf [MaxHost + 1]byte
	authority := []byte("Host77.example.com:8443")
	if n := testing.AllocsPerRun(100, func() {
		q.Host = NormalizeHost(buf[:0], authority)
		if _, ok := table.Lookup(q); !ok || HasDotSegment(q.Path) || table.Misdirected(q.Host, "") {
			t.Fatal("lost")
		}
	}); n != 0 {
		t.Errorf("%v allocations a look-up", n)
	}
}

// large is a table of n routes over n/100 hosts, and a query of the last.
func large(t testing.TB, n int) (*Table[int], *Query) {
	tree := &config.Tree{}
	for i := range n {
		m := config.Match{Host: []string{fmt.Sprintf("host%d.example.com", i/100)}, Path: fmt.Sprintf("/v1/service%d/*", i%100)}
		if i%3 == 0 {
			m.Path = fmt.Sprintf("/v1/exact/%d", i%100)
		}
		if i%5 == 0 {
			m.Method = []string{"GET", "POST"}
		}
		tree.Routes = append(tree.Routes, &config.Route{Match: m})
	}
	tree.Routes = append(tree.Routes,
		&config.Route{Match: config.Match{Host: []string{"*.example.com"}, Path: "/v1/*"}},
		&config.Route{Match: config.Match{Path: "/*"}})
	table := Build(tree, &config.Listener{}, func(r config.Rule) int { return r.Index })
	q := &Query{Host: fmt.Appendf(nil, "host%d.example.com", (n-1)/100), Path: []byte("/v1/service98/models/gpt"), Request: head(t, "POST")}
	return table, q
}

func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("routes=%d", n), func(b *testing.B) {
			table, q := large(b, n)
			var buf [MaxHost + 1]byte
			authority := append([]byte(nil), q.Host...)
			b.ReportAllocs()
			for b.Loop() {
				q.Host = NormalizeHost(buf[:0], authority)
				if _, ok := table.Lookup(q); !ok {
					b.Fatal("lost")
				}
			}
		})
	}
}

func BenchmarkHasDotSegment(b *testing.B) {
	path := []byte("/v1/service98/models/gpt")
	for b.Loop() {
		HasDotSegment(path)
	}
}
