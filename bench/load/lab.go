package load

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/identity"
	"github.com/hanzoai/pqgw/bench/link"
	"github.com/hanzoai/pqgw/handshake"
)

// What connections are made with where a bench does not compare just that.
const (
	Auth  = "ECDSA P-256"
	Group = tls.X25519MLKEM768
)

// Lab is what every bench that puts load on a gateway begins with.
type Lab struct {
	*Site
	Identity identity.Identity // that servers have
	dir      string            // of its files; "" until they are asked for
}

// NewLab finds the site that a session asks for, makes an identity and starts the
// bench's processes. Close ends it.
func NewLab(ctx context.Context, s *bench.Session, start func(*Lab) error) (*Lab, error) {
	site, err := NewSite(ctx, s)
	if err != nil {
		return nil, err
	}
	l := &Lab{Site: site}
	if l.Identity, err = identity.New(Auth); err != nil {
		return nil, err
	}
	if err := start(l); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Close removes the lab's files; its processes are the session's.
func (l *Lab) Close() {
	if l.dir != "" {
		_ = os.RemoveAll(l.dir)
	}
}

// Files of the identity, for a gateway's configuration.
func (l *Lab) Files() (cert, key string, err error) {
	if l.dir == "" {
		if l.dir, err = os.MkdirTemp("", "pqgw-bench-"); err != nil {
			return "", "", err
		}
	}
	return l.Identity.Write(l.dir)
}

// Origin starts an origin on a host of the lab.
func (l *Lab) Origin(ctx context.Context, host string) (*Origin, error) {
	return StartOrigin(ctx, l.Spawn(host), OriginSettings{Host: l.Host(), Identity: l.Identity, Group: Group})
}

// Forwarding starts a gateway that serves all transports and passes all requests on to
// an origin over HTTP/1.1 in the clear.
func (l *Lab) Forwarding(ctx context.Context, origin *Origin) (*bench.Gateway, error) {
	cert, key, err := l.Files()
	if err != nil {
		return nil, err
	}
	return l.Gateway(ctx, Listeners(l.Host(), cert, key, handshake.GroupName(Group))+
		fmt.Sprintf("routes:\n  - {match: {path: /*}, to: origin}\nupstreams:\n  origin: {endpoints: [\"http://%s\"]}\n", l.Upstream(origin)))
}

// Upstream is an origin's address in the clear, as gateways reach it.
func (l *Lab) Upstream(origin *Origin) string { return l.Reach(link.Origin, origin.Addrs["clear"])[0] }

// Client starts a load generator.
func (l *Lab) Client() (*Client, error) { return StartClient(l.Spawn(link.Load)) }
