package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

func (c *checker) route(r *Route, path string) {
	c.action(r, path)
	c.match(&r.Match, join(path, "match"))
	if r.Rewrite != nil {
		c.rewrite(r, join(path, "rewrite"))
	}
	if r.RequestHeaders != nil {
		c.headerOps(r.RequestHeaders, join(path, "request_headers"), true)
	}
	if r.ResponseHeaders != nil {
		c.headerOps(r.ResponseHeaders, join(path, "response_headers"), false)
	}
}

// maxRouteName bounds a route's name, in bytes, as it labels metrics.
const maxRouteName = 200

func (c *checker) routeName(r *Route, path string) {
	if len(r.Name) > maxRouteName {
		c.fail(join(path, "name"), fmt.Sprintf("is longer than %d bytes", maxRouteName), "")
	}
	if strings.ContainsFunc(r.Name, unicode.IsControl) || !utf8.ValidString(r.Name) {
		c.fail(join(path, "name"), "has a control character", "")
	}
	if first, twice := c.routeNames[r.Name]; twice {
		c.fail(join(path, "name"), fmt.Sprintf("another route has the name %q", r.Name), c.firstIn(first))
		return
	}
	c.routeNames[r.Name] = path
}

// action checks that a route does one thing, and that thing.
func (c *checker) action(r *Route, path string) {
	var given []string
	for _, a := range []struct {
		key   string
		given bool
	}{{"to", r.To != ""}, {"redirect", r.Redirect != nil}, {"respond", r.Respond != nil}} {
		if a.given || c.failedBelow(join(path, a.key)) {
			given = append(given, a.key)
		}
	}
	switch {
	case len(given) == 0:
		c.fail(path, "does nothing", "give it to, redirect or respond")
	case len(given) > 1:
		c.fail(path, "has "+strings.Join(given, " and ")+", of which a route has one", "")
	}
	if r.To != "" {
		c.destination(r, path)
	} else if r.Timeouts != nil {
		c.fail(join(path, "timeouts"), "a route without to waits for nobody", "")
	} else if r.RequestHeaders != nil {
		c.fail(join(path, "request_headers"), "a route without to sends no request on", "")
	}
	if r.Redirect != nil {
		c.redirect(r.Redirect, join(path, "redirect"))
	}
	if r.Respond != nil {
		c.respond(r.Respond, join(path, "respond"))
	}
}

func (c *checker) destination(r *Route, path string) {
	if c.tree.mounted(r.To) {
		if r.Timeouts != nil {
			c.fail(join(path, "timeouts"), r.To+" is part of this process: there is no connection to time", "")
		}
		return
	}
	u, ok := c.tree.Upstreams[r.To]
	if !ok {
		if !c.failedBelow(join("upstreams", r.To)) {
			c.fail(join(path, "to"), fmt.Sprintf("no upstream is named %q", r.To), suggest(r.To, append(sortedKeys(c.tree.Upstreams), Trace)))
		}
		return
	}
	c.usedUpstreams[r.To] = true
	rpc := len(u.Endpoints) > 0 && u.Endpoints[0].Scheme.RPC()
	if r.Match.RPCMethod != nil && !rpc && len(u.Endpoints) > 0 {
		c.fail(join(path, "to"), fmt.Sprintf("the upstream %q takes no ZAP calls, which rpc_method matches", r.To), "its endpoints must be zap-rpc+tls or zap-rpc+quic")
	}
}

func (c *checker) redirect(d *Redirect, path string) {
	if !slices.Contains([]int{301, 302, 303, 307, 308}, d.Status) {
		c.fail(join(path, "status"), fmt.Sprintf("%d is not a redirection", d.Status), "known: 301, 302, 303, 307, 308")
	}
	to := d.To
	for _, token := range []string{"{scheme}", "{host}", "{path}", "{query}"} {
		to = strings.ReplaceAll(to, token, "")
	}
	if strings.ContainsAny(to, "{}") {
		c.fail(join(path, "to"), "an unknown placeholder", "known: {scheme}, {host}, {path}, {query}")
	}
	if !validValue(d.To) || strings.ContainsAny(d.To, " \t") {
		c.fail(join(path, "to"), "is not a URL", "")
	}
}

func (c *checker) respond(r *Respond, path string) {
	if r.Status < 200 || r.Status > 599 {
		c.fail(join(path, "status"), fmt.Sprintf("%d is not from 200 to 599", r.Status), "")
	}
	if (r.Status == 204 || r.Status == 304) && r.Body != "" {
		c.fail(join(path, "body"), fmt.Sprintf("an answer %d has none", r.Status), "")
	}
	c.fieldList(r.Headers, join(path, "headers"), false)
}

func (c *checker) match(m *Match, path string) {
	for i, name := range m.Listener {
		if !slices.ContainsFunc(c.tree.Listeners, func(l *Listener) bool { return l.Name == name }) {
			c.fail(itemPath(c, join(path, "listener"), i), fmt.Sprintf("no listener is named %q", name), suggest(name, c.listenerNames()))
		}
	}
	for i, host := range m.Host {
		if err := checkHost(strings.TrimPrefix(host, "*.")); err != nil {
			c.failErr(itemPath(c, join(path, "host"), i), err)
		}
	}
	if m.Path != "" {
		if err := checkPath(m.Path); err != nil {
			c.failErr(join(path, "path"), err)
		}
	}
	for i, method := range m.Method {
		if err := checkMethod(method); err != nil {
			c.failErr(itemPath(c, join(path, "method"), i), err)
		}
	}
	c.fieldNames(m.Header, join(path, "header"))
	c.matchPeer(m, path)
}

// matchPeer checks conditions that only some listeners can fulfil.
func (c *checker) matchPeer(m *Match, path string) {
	serves := func(have func(*Listener) bool) bool {
		return slices.ContainsFunc(c.tree.Listeners, func(l *Listener) bool {
			return (len(m.Listener) == 0 || slices.Contains(m.Listener, l.Name)) && have(l)
		})
	}
	asks := func(l *Listener) bool {
		s := c.tree.TLS[l.TLS]
		return s != nil && s.ClientCA != ""
	}
	if len(m.Peer) > 0 && !serves(asks) {
		c.warn(join(path, "peer"), "no listener of this route asks clients for a certificate, so that it never matches", "set client_ca")
	}
	if m.RPCMethod != nil && !serves(func(l *Listener) bool { return l.Speaks(ZAPRPC) }) {
		c.fail(join(path, "rpc_method"), "no listener of this route speaks zap-rpc", "")
	}
}

func (c *checker) listenerNames() []string {
	names := make([]string, len(c.tree.Listeners))
	for i, l := range c.tree.Listeners {
		names[i] = l.Name
	}
	return names
}

// itemPath is the path of an item, which is that of the list where a single
// value stands in its place.
func itemPath(c *checker, path string, i int) string {
	if _, ok := c.at[index(path, i)]; ok || len(c.at) == 0 {
		return index(path, i)
	}
	return path
}

func (c *checker) rewrite(r *Route, path string) {
	w := r.Rewrite
	if r.To == "" || r.To == Trace {
		c.fail(path, "changes the path towards an upstream, and the route has none", "")
	}
	if w.StripPrefix == "" && w.ReplacePrefix == "" {
		c.fail(path, "changes nothing", "give it strip_prefix or replace_prefix")
	}
	c.prefix(w.StripPrefix, join(path, "strip_prefix"))
	c.prefix(w.ReplacePrefix, join(path, "replace_prefix"))
	prefix, _ := r.Match.PathPrefix()
	if w.StripPrefix != "" && !below(prefix, w.StripPrefix) && !below(w.StripPrefix, prefix) {
		c.fail(join(path, "strip_prefix"), fmt.Sprintf("no path of this route begins with it: they are %s", r.Match.Path), "")
	}
}

// prefix checks a prefix to take off or to put in its place.
func (c *checker) prefix(prefix, path string) {
	if prefix == "" {
		return
	}
	if err := checkPath(prefix); err != nil {
		c.failErr(path, err)
	} else if strings.HasSuffix(prefix, "/") || strings.HasSuffix(prefix, "*") {
		c.fail(path, "ends in / or *", "write it as /v1")
	}
}

// below reports whether path is prefix or lies below it, in whole segments.
func below(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}
