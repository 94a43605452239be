package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/config"
)

func init() { commands = append(commands, newHop) }

// hopFlags are what `pqgw hop` can be told.
type hopFlags struct {
	quick
	listen, pq, cert, key, ca, serverName string
	peers                                 []string
	id                                    identityFlags
}

func newHop() *cobra.Command {
	var f hopFlags
	cmd := &cobra.Command{
		Use:   "hop --listen URL --to URL",
		Short: "Carry HTTP between services as ZAP over post-quantum, mutually authenticated TLS or QUIC",
		Long: `Carry HTTP between services as ZAP over post-quantum, mutually authenticated TLS or QUIC.

Beside a service:
  pqgw hop --listen zap+tls://:9999 --to http://127.0.0.1:8000 --cert b.pem --key b-key.pem --ca ca.pem
Beside its client:
  pqgw hop --listen http://127.0.0.1:7000 --to zap+tls://peer:9999 --cert a.pem --key a-key.pem --ca ca.pem

'pqgw cert ca DIR' and 'pqgw cert issue DIR --name N' make such files at once. With
--identity-cert, --identity-key and --identity-ca, made by the same commands with
--alg ml-dsa-65 in a folder of its own, both sides prove who they are by post-quantum
signatures as well, and whoever cannot is refused.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := f.config()
			if err != nil {
				return withCode(exitUsage, err)
			}
			return f.run(cmd, t, nil)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", "", "what to accept: zap+tls://, zap+quic://, zap://, https://, http:// with host:port; zap+unix:/path, unix:/path (required)")
	fl.StringArrayVar(&f.to, "to", nil, "where to: a URL of the same schemes; several are balanced (required)")
	fl.StringVar(&f.cert, "cert", "", "PEM file of our certificate chain")
	fl.StringVar(&f.key, "key", "", "PEM file of its key")
	fl.StringVar(&f.ca, "ca", "", "PEM file of the authority that vouches for the peers")
	fl.StringVar(&f.pq, "pq", "require", "require: post-quantum key exchange alone; prefer: classical peers too")
	fl.StringVar(&f.serverName, "server-name", "", "name that the peer's certificate must bear (default: the host of --to)")
	fl.StringArrayVar(&f.peers, "peer", nil, "identity that a client must have, a DNS name or spiffe:// URI; may be repeated (default: any that the authority vouches for)")
	f.id.flags(cmd)
	f.quick.flags(cmd)
	return cmd
}

// hopListen are the schemes of --listen: the protocols they stand for, and whether
// they are secure.
var hopListen = map[string]struct {
	protocols []config.Protocol
	secure    bool
}{
	"zap+tls":  {[]config.Protocol{config.ZAP}, true},
	"zap+quic": {[]config.Protocol{config.ZAP}, true},
	"zap":      {[]config.Protocol{config.ZAP}, false},
	"zap+unix": {[]config.Protocol{config.ZAP}, false},
	"https":    {[]config.Protocol{config.H1, config.H2}, true},
	"http":     {[]config.Protocol{config.H1, config.H2C}, false},
	"unix":     {[]config.Protocol{config.H1, config.H2C}, false},
}

// config is the configuration that the flags amount to.
func (f *hopFlags) config() (*config.Tree, error) {
	if f.listen == "" || len(f.to) == 0 {
		return nil, errors.New("hop needs --listen and --to")
	}
	l, secure, err := f.listener()
	if err != nil {
		return nil, err
	}
	t, err := f.tree(l)
	if err != nil {
		return nil, err
	}
	for _, e := range t.Upstreams["service"].Endpoints {
		secure = secure || e.Scheme.Secure()
		if e.Scheme.Secure() {
			t.Upstreams["service"].TLS.Name = "hop"
		}
	}
	if len(f.peers) > 0 {
		if l.TLS == "" {
			return nil, errors.New("--peer needs a secure --listen: in the clear nobody has an identity")
		}
		t.Routes[0].Match.Peer = f.peers
	}
	if !secure {
		if f.id != (identityFlags{}) {
			return nil, errors.New("--identity-cert and its like need a secure --listen or --to: an identity is bound to a TLS connection")
		}
		return t, nil
	}
	tls, err := f.tls()
	if err != nil {
		return nil, err
	}
	t.TLS = map[string]*config.TLS{"hop": tls}
	return t, nil
}

func (f *hopFlags) listener() (l *config.Listener, secure bool, err error) {
	scheme, rest, ok := strings.Cut(f.listen, ":")
	kind, known := hopListen[scheme]
	if !ok || !known {
		return nil, false, fmt.Errorf("--listen: %q begins with no scheme that hop accepts: zap+tls, zap+quic, zap, zap+unix, https, http, unix", f.listen)
	}
	address := strings.TrimPrefix(rest, "//")
	if strings.HasSuffix(scheme, "unix") {
		address = "unix:" + address
	}
	l = config.Default[config.Listener]()
	l.Name, l.Protocols = "hop", kind.protocols
	if l.Address, err = config.ParseAddress(address); err != nil {
		return nil, false, fmt.Errorf("--listen: %w", err)
	}
	l.TrustedProxies = neighbours
	if kind.secure {
		l.TLS, l.TrustedProxies = "hop", anywhere
	}
	return l, kind.secure, nil
}

// Whose request id, trace context and X-Forwarded fields pass on: in the clear those of this
// machine; over TLS those of any peer, since it has shown a certificate of our authority.
var (
	neighbours = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	anywhere   = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
)

// tls are the settings of both directions: each side shows its certificate and
// demands the other's.
func (f *hopFlags) tls() (*config.TLS, error) {
	if f.cert == "" || f.key == "" || f.ca == "" {
		return nil, errors.New("a secure hop is mutually authenticated: it needs --cert, --key and --ca ('pqgw cert ca DIR' and 'pqgw cert issue DIR --name N' make them)")
	}
	tls := config.Default[config.TLS]()
	var err error
	if tls.PQ, err = policyFlag(f.pq); err != nil {
		return nil, err
	}
	tls.Certificates.Files = []config.CertFiles{{Cert: config.File(f.cert), Key: config.File(f.key)}}
	tls.ClientCA, tls.CA = config.File(f.ca), config.File(f.ca)
	tls.ClientAuth = config.ClientAuthRequire
	tls.ServerName = f.serverName
	return tls, f.identity(tls)
}

// identity adds the post-quantum identity, where the flags have one.
func (f *hopFlags) identity(tls *config.TLS) error {
	if given, err := f.id.given(); !given {
		return err
	}
	tls.Identity = &config.Identity{Cert: config.File(f.id.cert), Key: config.File(f.id.key), CA: config.File(f.id.ca)}
	return nil
}
