package scenario

import (
	"fmt"
	"strings"
	"testing"
)

// Front is the usual setting: a gateway with one TLS listener named edge that
// speaks h1 and h2, and one in the clear named plain that speaks h1 and h2c.
type Front struct {
	*Gateway
	CA   *CA
	Leaf Leaf
	// Addr and Plain are the addresses of the two listeners.
	Addr, Plain string
	// URL and PlainURL are the same with a scheme.
	URL, PlainURL string

	h3 bool
}

// FrontOptions say how a Front differs from the usual.
type FrontOptions struct {
	PQ       string // require or prefer; prefer where empty
	Portable bool   // engine: portable, where the fast path is not wanted
	Routes   string // YAML of routes and upstreams; all to trace where empty
	Drain    string // drain.timeout; the default where empty
	H3       bool   // the TLS listener speaks h3 besides
}

// Config is the YAML of the front with these options.
func (f *Front) Config(o FrontOptions) string {
	routes, engine, pq := o.Routes, "auto", o.PQ
	if routes == "" {
		routes = "routes: [{to: trace}]"
	}
	if o.Portable {
		engine = "portable"
	}
	if pq == "" {
		pq = "prefer"
	}
	protocols := "h1, h2"
	if o.H3 {
		protocols = "h1, h2, h3"
	}
	drain := ""
	if o.Drain != "" {
		drain = "drain: {timeout: " + o.Drain + "}"
	}
	return fmt.Sprintf(`version: 1
tls:
  public:
    certificates: {files: [{cert: %q, key: %q}]}
    pq: %s
listeners:
  - {name: edge, address: %q, protocols: [%s], tls: public, engine: %s}
  - {name: plain, address: %q, protocols: [h1, h2c], engine: %s}
%s
%s
`, f.Leaf.CertFile, f.Leaf.KeyFile, pq, f.Addr, protocols, engine, f.Plain, engine, drain, routes)
}

// NewFront starts one.
func NewFront(t testing.TB, o FrontOptions) *Front {
	t.Helper()
	ca := NewCA(t)
	f := &Front{CA: ca, Leaf: ca.Leaf(t, "localhost", "127.0.0.1"), Addr: FreeAddr(t), Plain: FreeAddr(t)}
	f.h3 = o.H3
	f.URL, f.PlainURL = "https://"+f.Addr, "http://"+f.Plain
	f.Gateway = Run(t, f.Config(o))
	return f
}

// To is the YAML of one route for everything, to an upstream of endpoints.
func To(endpoints ...string) string {
	quoted := make([]string, len(endpoints))
	for i, e := range endpoints {
		quoted[i] = fmt.Sprintf("%q", e)
	}
	return "routes: [{to: origin}]\nupstreams: {origin: {endpoints: [" + strings.Join(quoted, ", ") + "]}}"
}
