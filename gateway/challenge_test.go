package gateway

import (
	"context"
	"testing"

	"github.com/hanzoai/pqgw/exchange"
)

func TestChallengesAreAnsweredAndTheRestIsLedToHTTPS(t *testing.T) {
	const path = "/.well-known/acme-challenge/token"
	for name, c := range map[string]struct {
		method, target, host      string
		secure, redirect, awaited bool
		status                    int
		body, location, route     string
	}{
		"a challenge":                      {"GET", path, "a.test:80", false, true, true, 200, "proof", "", "acme-challenge"},
		"one without a redirect":           {"GET", path, "a.test", false, false, true, 200, "proof", "", "acme-challenge"},
		"one that nobody awaits":           {"GET", path, "a.test", false, true, false, 308, "", "https://a.test" + path, "redirect-https"},
		"one of a service behind us":       {"GET", path, "a.test", false, false, false, 200, "upstream", "", "all"},
		"one over TLS":                     {"GET", path, "a.test", true, false, true, 200, "upstream", "", "all"},
		"one by another method":            {"POST", path, "a.test", false, false, true, 200, "upstream", "", "all"},
		"any other request":                {"GET", "//evil.test/a?b=c", "a.test:8080", false, true, true, 308, "", "https://a.test//evil.test/a?b=c", "redirect-https"},
		"an IPv6 address":                  {"GET", "/", "[::1]:80", false, true, true, 308, "", "https://[::1]/", "redirect-https"},
		"a request that names no host":     {"GET", "/", "", false, true, true, 200, "upstream", "", "all"},
		"dot segments are refused as ever": {"GET", "/a/../b", "a.test", false, true, true, 400, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := &fakeUpstream{serve: ok("upstream")}
			tree := treeTo(1)
			tree.Listeners[0].RedirectHTTPS = c.redirect
			u.url = "http://10.0.0.1:80"
			g, err := New(tree, Options{Dial: dialer(u), Challenge: func(host, at string) ([]byte, bool) {
				if host != "a.test" || at != path {
					t.Errorf("asked for %s%s", host, at)
				}
				return []byte("proof"), c.awaited
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close(context.Background())
			x := request(c.method, c.target)
			x.x.Request.SetAuthority([]byte(c.host))
			x.x.Conn.Secure = c.secure
			g.Serve(&x.x)
			if x.r.status != c.status || c.body != "" && x.r.body.String() != c.body || x.x.Log.Route != c.route {
				t.Errorf("%d %q by route %q", x.r.status, x.r.body.String(), x.x.Log.Route)
			}
			if got := string(x.r.head.Get(exchange.Location)); c.location != "" && got != c.location {
				t.Errorf("led to %s, want %s", got, c.location)
			}
		})
	}
}
