package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// parseRoutes reads a list of routes; each answers with its name as the body.
func parseRoutes(t *testing.T, routes string) *Tree {
	t.Helper()
	tree, _, err := Parse("f.yaml", []byte(aVersion+`
tls: {m: {certificates: {dev: {}}, client_ca: ca.pem}}
listeners: [{name: a, address: ':80'}, {name: b, address: ':443', tls: m}, {name: r, address: ':1', protocols: zap-rpc, tls: m}]
routes: `+routes), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestTheMostSpecificRouteWins(t *testing.T) {
	const routes = `
  - {name: all, respond: {}}
  - {name: v1, respond: {}, match: {path: /v1/*}}
  - {name: v1-models, respond: {}, match: {path: /v1/models}}
  - {name: v1-models-below, respond: {}, match: {path: /v1/models/*}}
  - {name: host, respond: {}, match: {host: [api.example.com, other.example.org]}}
  - {name: host-v1, respond: {}, match: {host: api.example.com, path: /v1/*}}
  - {name: wild, respond: {}, match: {host: "*.example.com"}}
  - {name: wild-longer, respond: {}, match: {host: "*.eu.example.com"}}
  - {name: get, respond: {}, match: {host: m.example.com, method: [GET, HEAD]}}
  - {name: header, respond: {}, match: {host: m.example.com, header: {X-Beta: "*"}}}
  - {name: header-exact, respond: {}, match: {host: m.example.com, header: {X-Beta: "2"}}}
  - {name: get-header, respond: {}, match: {host: m.example.com, method: GET, header: {X-Beta: "1"}}}
  - {name: on-b, respond: {}, match: {host: m.example.com, listener: b}}
  - {name: peer, respond: {}, match: {host: m.example.com, peer: spiffe://a}}
  - {name: rpc, respond: {}, match: {listener: r}}
`
	tree := parseRoutes(t, routes)
	rules := tree.Rules()
	for name, c := range map[string]struct {
		q    Request
		want string
	}{
		"no host and no path":                       {Request{Path: "/"}, "all"},
		"an unknown host":                           {Request{Host: "nobody.example", Path: "/"}, "all"},
		"a prefix":                                  {Request{Path: "/v1/x/y"}, "v1"},
		"the prefix itself":                         {Request{Path: "/v1"}, "v1"},
		"a path that begins like the prefix":        {Request{Path: "/v1x"}, "all"},
		"an exact path before a prefix":             {Request{Path: "/v1/models"}, "v1-models"},
		"a longer prefix before a shorter":          {Request{Path: "/v1/models/x"}, "v1-models-below"},
		"a path in other case":                      {Request{Path: "/V1/models"}, "all"},
		"a host before any path":                    {Request{Host: "api.example.com", Path: "/v2"}, "host"},
		"a host with a path before it without":      {Request{Host: "api.example.com", Path: "/v1/models"}, "host-v1"},
		"the second host of a route":                {Request{Host: "other.example.org", Path: "/v1/models"}, "host"},
		"a wildcard":                                {Request{Host: "x.example.com", Path: "/v1/models"}, "wild"},
		"a wildcard over several labels":            {Request{Host: "x.y.example.com", Path: "/"}, "wild"},
		"a longer wildcard":                         {Request{Host: "x.eu.example.com", Path: "/"}, "wild-longer"},
		"the shorter wildcard for the longer's own": {Request{Host: "eu.example.com", Path: "/"}, "wild"},
		"a wildcard is not its own domain":          {Request{Host: "example.com", Path: "/"}, "all"},
		"a wildcard is whole labels":                {Request{Host: "badexample.com", Path: "/"}, "all"},
		"a host in capitals":                        {Request{Host: "API.Example.com.", Path: "/"}, "host"},
		"a method":                                  {Request{Host: "m.example.com", Method: "HEAD"}, "get"},
		"another method":                            {Request{Host: "m.example.com", Method: "POST"}, "wild"},
		"a header":                                  {Request{Host: "m.example.com", Method: "POST", Header: Fields{{"x-beta", "9"}}}, "header"},
		"a header's exact value before any":         {Request{Host: "m.example.com", Method: "POST", Header: Fields{{"X-Beta", "2"}}}, "header-exact"},
		"a method before one header":                {Request{Host: "m.example.com", Method: "GET", Header: Fields{{"X-Beta", "2"}}}, "get"},
		"two conditions before one":                 {Request{Host: "m.example.com", Method: "GET", Header: Fields{{"X-Beta", "1"}}}, "get-header"},
		"a listener before a method":                {Request{Host: "m.example.com", Method: "GET", Listener: "b"}, "on-b"},
		"two conditions before a listener":          {Request{Host: "m.example.com", Method: "GET", Listener: "b", Header: Fields{{"X-Beta", "1"}}}, "get-header"},
		"a peer before a method":                    {Request{Host: "m.example.com", Method: "GET", Peers: []string{"x", "spiffe://a"}}, "peer"},
		"a listener before a peer":                  {Request{Host: "m.example.com", Listener: "b", Peers: []string{"spiffe://a"}}, "on-b"},
		"a listener alone after a path":             {Request{Path: "/v1/x", Listener: "r"}, "v1"},
		"a listener alone":                          {Request{Path: "/x", Listener: "r"}, "rpc"},
	} {
		t.Run(name, func(t *testing.T) {
			verdicts, i := tree.Explain(c.q)
			if i < 0 || verdicts[i].Rule.Route.Name != c.want {
				t.Fatalf("the winner is %d of %+v, want %s", i, verdicts, c.want)
			}
			q := c.q
			q.Host = normalHost(q.Host)
			if r, ok := Winner(rules, &q); !ok || r.Route.Name != c.want {
				t.Errorf("Winner gives %s", r.Route.Name)
			}
		})
	}
}

func TestAVerdictNamesTheConditionThatFails(t *testing.T) {
	tree := parseRoutes(t, `
  - {respond: {}, match: {host: h.example, path: /p, listener: a, method: GET, header: {X-A: "1"}, peer: n}}`)
	q := Request{Host: "h.example", Path: "/p", Listener: "a", Method: "GET", Header: Fields{{"X-A", "1"}}, Peers: []string{"n"}}
	for why, change := range map[string]func(*Request){
		"":           func(*Request) {},
		"host":       func(q *Request) { q.Host = "g.example" },
		"path":       func(q *Request) { q.Path = "/p/" },
		"listener":   func(q *Request) { q.Listener = "b" },
		"method":     func(q *Request) { q.Method = "HEAD" },
		"header X-A": func(q *Request) { q.Header = nil },
		"peer":       func(q *Request) { q.Peers = nil },
	} {
		changed := q
		change(&changed)
		if v, _ := tree.Explain(changed); v[0].Why != why || v[0].Matches != (why == "") {
			t.Errorf("the verdict is %v, %q, want %q", v[0].Matches, v[0].Why, why)
		}
	}
}

func TestRPCRoutesMatchByNumber(t *testing.T) {
	source := aVersion + aDev + `
listeners: [{name: r, address: '127.0.0.1:1', protocols: zap-rpc, tls: dev}]
routes: [{name: seven, to: up, match: {rpc_method: 7}}, {name: rest, to: up}]
upstreams: {up: {endpoints: 'zap-rpc+tls://a:1'}}
`
	tree, _, err := Parse("f.yaml", []byte(source), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	seven, eight := uint32(7), uint32(8)
	for want, n := range map[string]*uint32{"seven": &seven, "rest": &eight} {
		if v, i := tree.Explain(Request{RPCMethod: n}); v[i].Rule.Route.Name != want {
			t.Errorf("method %d goes to %s", *n, v[i].Rule.Route.Name)
		}
	}
	if v, i := tree.Explain(Request{}); v[i].Rule.Route.Name != "rest" {
		t.Errorf("a request without a method number goes to %s", v[i].Rule.Route.Name)
	}
}

// drawRoute draws a route over few values, so that routes overlap often.
func drawRoute(t *rapid.T, name string) string {
	pick := func(label string, values ...string) string {
		if v := rapid.SampledFrom(append(values, "")).Draw(t, label); v != "" {
			return v + ", "
		}
		return ""
	}
	m := pick("host", "host: a.example", "host: '*.example'", "host: '*.a.example'", "host: [b.example, a.example]") +
		pick("path", "path: /", "path: /x", "path: /x/*", "path: /*", "path: /x/y/*") +
		pick("method", "method: GET", "method: [GET, POST]", "method: POST") +
		pick("header", "header: {h: '1'}", "header: {h: '*'}", "header: {h: '2', g: '1'}") +
		pick("listener", "listener: a", "listener: [a, b]")
	return "{name: " + name + ", respond: {}, match: {" + strings.TrimSuffix(m, ", ") + "}}"
}

// TestTheOrderInTheFileDoesNotMatter also is what makes sure that no pair of
// equal routes goes unnoticed.
func TestTheOrderInTheFileDoesNotMatter(t *testing.T) {
	checked := 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "routes")
		routes := make([]string, n)
		for i := range routes {
			routes[i] = drawRoute(t, fmt.Sprintf("r%d", i))
		}
		head := aVersion + "listeners: [{name: a, address: ':80'}, {name: b, address: ':81'}]\n"
		one, _, err := Parse("f.yaml", []byte(head+"routes: ["+strings.Join(routes, ", ")+"]\n"), testOptions())
		if err != nil {
			return // two equal ones; that is the other tests'
		}
		checked++
		slices.Reverse(routes)
		two, _, err := Parse("f.yaml", []byte(head+"routes: ["+strings.Join(routes, ", ")+"]\n"), testOptions())
		if err != nil {
			t.Fatalf("the routes are good in one order only: %v", err)
		}
		q := Request{
			Listener: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "at"),
			Host:     rapid.SampledFrom([]string{"a.example", "b.example", "c.a.example", "example"}).Draw(t, "asks"),
			Path:     rapid.SampledFrom([]string{"/", "/x", "/x/y", "/x/y/z"}).Draw(t, "for"),
			Method:   rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "by"),
		}
		if v := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "h"); v != "" {
			q.Header = Fields{{"H", v}, {"g", "1"}}
		}
		a, okA := Winner(one.Rules(), &q)
		b, okB := Winner(two.Rules(), &q)
		if okA != okB || okA && a.Route.Name != b.Route.Name {
			t.Fatalf("%+v goes to %v in one order and to %v in the other", q, a.Route, b.Route)
		}
	})
	if checked == 0 {
		t.Error("no set of routes was good")
	}
}

func TestCompareRulesIsAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rules []Rule
		for i := range 3 {
			source := aVersion + "listeners: [{name: a, address: ':80'}, {name: b, address: ':81'}]\nroutes: [" + drawRoute(t, fmt.Sprintf("r%d", i)) + "]\n"
			tree, _, err := Parse("f.yaml", []byte(source), testOptions())
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, tree.Rules()[0])
		}
		a, b, c := rules[0], rules[1], rules[2]
		if CompareRules(a, b) != -CompareRules(b, a) || CompareRules(a, a) != 0 {
			t.Errorf("%v and %v compare unlike in the two directions", a.Route, b.Route)
		}
		if CompareRules(a, b) <= 0 && CompareRules(b, c) <= 0 && CompareRules(a, c) > 0 {
			t.Errorf("%v, %v, %v: not transitive", a.Route, b.Route, c.Route)
		}
	})
}

func TestThePathRewriteOfARoute(t *testing.T) {
	for name, c := range map[string]struct {
		route    Route
		from, to string
		ok       bool
	}{
		"none":                         {Route{}, "", "", false},
		"strip":                        {Route{Rewrite: &Rewrite{StripPrefix: "/v1"}}, "/v1", "", true},
		"strip and replace":            {Route{Rewrite: &Rewrite{StripPrefix: "/v1", ReplacePrefix: "/v2"}}, "/v1", "/v2", true},
		"replace what the route names": {Route{Match: Match{Path: "/a/*"}, Rewrite: &Rewrite{ReplacePrefix: "/b"}}, "/a", "/b", true},
		"replace an exact path":        {Route{Match: Match{Path: "/a"}, Rewrite: &Rewrite{ReplacePrefix: "/b"}}, "/a", "/b", true},
		"put in front of any":          {Route{Rewrite: &Rewrite{ReplacePrefix: "/b"}}, "", "/b", true},
	} {
		if from, to, ok := c.route.PathRewrite(); from != c.from || to != c.to || ok != c.ok {
			t.Errorf("%s: %q, %q, %v", name, from, to, ok)
		}
	}
}
