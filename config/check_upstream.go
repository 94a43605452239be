package config

import (
	"fmt"
	"slices"
)

// maxRetries bounds retries: each is load on upstreams that are failing already.
const maxRetries = 10

func (c *checker) upstream(name string, u *Upstream) {
	path := join("upstreams", name)
	if name == Trace {
		c.fail(path, "trace is built in", "choose another name")
	}
	c.endpoints(u, path)
	c.upstreamTLS(u, path)
	c.calls(u, path)
	if u.Retries > maxRetries {
		c.fail(join(path, "retries"), fmt.Sprintf("is more than %d", maxRetries), "")
	}
}

func (c *checker) endpoints(u *Upstream, path string) {
	at := join(path, "endpoints")
	seen := map[Endpoint]bool{}
	rpc := 0
	for i, e := range u.Endpoints {
		if e.Scheme == "" {
			return
		}
		if seen[e] {
			c.fail(index(at, i), fmt.Sprintf("%s is given twice", e), "")
		}
		seen[e] = true
		if e.Scheme.RPC() {
			rpc++
		}
	}
	if rpc > 0 && rpc < len(u.Endpoints) {
		c.fail(at, "some take HTTP exchanges and some ZAP calls", "make two upstreams of it")
	}
}

// calls checks an upstream that takes ZAP calls for settings that only exchanges heed.
func (c *checker) calls(u *Upstream, path string) {
	if !slices.ContainsFunc(u.Endpoints, func(e Endpoint) bool { return e.Scheme.RPC() }) {
		return
	}
	if u.Retries != Default[Upstream]().Retries {
		c.fail(join(path, "retries"), "is not for zap-rpc endpoints, whose calls are never sent twice", "drop it")
	}
	if u.MaxConnections != 0 {
		c.fail(join(path, "max_connections"), "is not for zap-rpc endpoints, which have one for each client connection", "limit the listener's connections")
	}
}

func (c *checker) upstreamTLS(u *Upstream, path string) {
	at := join(path, "tls")
	if u.TLS.Settings == nil && u.TLS.Name == "" {
		return
	}
	secure := slices.ContainsFunc(u.Endpoints, func(e Endpoint) bool { return e.Scheme.Secure() })
	if !secure && len(u.Endpoints) > 0 && !c.failedBelow(join(path, "endpoints")) {
		c.fail(at, "no endpoint uses TLS", "write https:// or zap+tls://, or drop tls")
	}
	if u.TLS.Name != "" {
		if s := c.tlsNamed(u.TLS.Name, at); s != nil {
			c.upstreamIdentity(s, u, at)
		}
		return
	}
	s := u.TLS.Settings
	c.upstreamIdentity(s, u, at)
	c.tls(s, at)
	c.certificates(s, "", at)
	if s.ClientCA != "" || s.ClientAuth != ClientAuthNone {
		c.fail(at, "client_ca and client_auth are for listeners", "the CAs of an upstream are ca")
	}
}

// upstreamIdentity checks that every endpoint can be asked for its identity.
func (c *checker) upstreamIdentity(s *TLS, u *Upstream, at string) {
	if s.Identity != nil && slices.ContainsFunc(u.Endpoints, func(e Endpoint) bool { return e.Scheme == SchemeH3 }) {
		c.fail(at, "the settings have an identity, which h3 cannot carry", "write zap+tls:// or https://")
	}
}
