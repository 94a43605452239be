package config

import (
	"fmt"
	"slices"
)

func (c *checker) listeners() {
	names, addresses := map[string]int{}, map[string]string{}
	if a := c.tree.Admin; a != nil && !a.Address.IsZero() {
		addresses["tcp "+a.Address.String()] = "admin"
	}
	for i, l := range c.tree.Listeners {
		path := index("listeners", i)
		if first, twice := names[l.Name]; twice && l.Name != "" {
			c.fail(join(path, "name"), fmt.Sprintf("another listener has the name %q", l.Name), c.firstIn(index("listeners", first)))
		} else {
			names[l.Name] = i
		}
		if l.Name != "" && !nameShape.MatchString(l.Name) {
			c.fail(join(path, "name"), fmt.Sprintf("%q is not a name", l.Name), "use up to 63 letters, digits, '_', '-' and '.'")
		}
		c.address(l, path, addresses)
		c.protocols(l, path)
		c.listenerTLS(l, path)
		c.quic(l, path)
		if l.Limits != nil {
			c.limits(l.Limits, join(path, "limits"))
		}
	}
}

// firstIn is a hint at where the other one stands.
func (c *checker) firstIn(path string) string {
	if at := c.where(path); at.line > 0 {
		return fmt.Sprintf("the first is in line %d", at.line)
	}
	return "the first is " + path
}

// address checks that a listener has its address for itself.
func (c *checker) address(l *Listener, path string, taken map[string]string) {
	if l.Address.IsZero() {
		return
	}
	_, port, err := splitHostPort(l.Address.Addr)
	if l.Address.IsUnix() {
		if l.Speaks(H3) {
			c.fail(join(path, "protocols"), "h3 runs over QUIC, which a unix socket cannot carry", "")
		}
	} else if err != nil || port == "0" {
		return
	}
	var uses []string
	if slices.ContainsFunc(l.Protocols, func(p Protocol) bool { return p != H3 }) {
		uses = append(uses, "tcp "+l.Address.String())
	}
	if l.Speaks(H3) || l.Speaks(ZAP) && l.TLS != "" && !l.Address.IsUnix() {
		uses = append(uses, "udp "+l.Address.String())
	}
	for _, use := range uses {
		if other, clash := taken[use]; clash {
			c.fail(join(path, "address"), fmt.Sprintf("%s is taken by %s", l.Address, other), "")
			return
		}
		taken[use] = path
	}
}

// protocols checks what is spoken against whether there is TLS.
func (c *checker) protocols(l *Listener, path string) {
	seen := map[Protocol]bool{}
	secure := l.TLS != "" || c.failed(join(path, "tls"))
	rpc := l.Speaks(ZAPRPC)
	for i, p := range l.Protocols {
		at := index(join(path, "protocols"), i)
		switch {
		case seen[p]:
			c.fail(at, fmt.Sprintf("%s is given twice", p), "")
		case p == H2 && !secure:
			c.fail(at, "h2 needs tls", "in the clear it is h2c")
		case p == H3 && !secure:
			c.fail(at, "h3 needs tls", "name settings with tls:")
		case p == H2C && l.TLS != "": // not where tls was meant but misspelt
			c.fail(at, "h2c is HTTP/2 in the clear, and the listener has tls", "with tls it is h2")
		case rpc && !secure && len(l.Protocols) > 1 && p != ZAPRPC:
			c.fail(at, fmt.Sprintf("zap-rpc cannot be told from %s without tls", p), "give it a listener of its own")
		case p == ZAP && !secure && len(l.Protocols) > 1:
			c.fail(at, "zap cannot be told from HTTP without tls", "give it a listener of its own")
		}
		seen[p] = true
	}
	if (seen[ZAP] || rpc) && !secure && !l.Address.IsZero() && !local(l.Address) {
		c.warn(join(path, "protocols"), "ZAP in the clear on an address that others reach", "add tls")
	}
}

// listenerTLS checks what serving asks of TLS settings.
func (c *checker) listenerTLS(l *Listener, path string) {
	at := join(path, "tls")
	if l.RedirectHTTPS && l.TLS != "" {
		c.fail(join(path, "redirect_https"), "is for listeners without tls", "")
	}
	if l.TLS == "" {
		if l.ECH {
			c.fail(join(path, "ech"), "needs tls", "")
		}
		if l.EarlyData == EarlyDataSafe {
			c.fail(join(path, "early_data"), "needs tls", "")
		}
		return
	}
	s := c.tlsNamed(l.TLS, at)
	if s == nil {
		return
	}
	if s.PQ == PQOff {
		c.fail(at, fmt.Sprintf("the settings %q have pq: off, which is for upstreams only", l.TLS), "a listener requires or prefers")
	}
	if s.Identity != nil && l.Speaks(H3) {
		c.fail(at, fmt.Sprintf("the settings %q have an identity, which h3 cannot carry", l.TLS), "give h3 a listener of its own")
	}
	if s.Identity != nil && l.EarlyData == EarlyDataSafe {
		c.fail(join(path, "early_data"), "comes before the client has proven its identity", "leave it off")
	}
	if s.Certificates.None() && !c.failedBelow(join("tls", l.TLS)) {
		c.fail(at, fmt.Sprintf("the settings %q have no certificates to serve with", l.TLS), "add certificates: {dev: {}} to try it out, or files")
	}
	if l.EarlyData == EarlyDataSafe && !l.Speaks(H3) && !l.Speaks(ZAP) {
		c.fail(join(path, "early_data"), "only h3 and zap over QUIC have early data", "add h3 to protocols")
	}
}

func (c *checker) quic(l *Listener, path string) {
	at := join(path, "quic")
	if l.QUIC != Default[Listener]().QUIC && !l.Speaks(H3) && !l.Speaks(ZAP) && !l.Speaks(ZAPRPC) {
		c.fail(at, "none of the protocols runs over QUIC", "add h3 to protocols")
	}
	if l.QUIC.StreamWindow == 0 {
		c.fail(join(at, "stream_window"), "must not be 0: nothing could be sent", "")
	}
	if l.QUIC.ConnectionWindow < l.QUIC.StreamWindow {
		c.fail(join(at, "connection_window"), "is less than stream_window", "")
	}
}
