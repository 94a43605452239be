package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw"
	"github.com/hanzoai/pqgw/config"
)

func init() { commands = append(commands, newEdge) }

// edgeFlags are what `pqgw edge` can be told.
type edgeFlags struct {
	to, hosts                                  []string
	listen, cert, key, pq, dataDir, log, admin string
	print                                      bool
}

func newEdge() *cobra.Command {
	var f edgeFlags
	cmd := &cobra.Command{
		Use:   "edge [--to URL]...",
		Short: "Serve HTTP/1.1 and HTTP/2 over post-quantum TLS 1.3 in front of a service",
		Long: `Serve HTTP/1.1 and HTTP/2 over post-quantum TLS 1.3 in front of a service.

Without --to the edge answers itself and tells what the connection was. Without
--cert it makes a local certificate authority once and a certificate for the hosts.
--print-config prints the configuration file that the flags amount to.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.to, "to", nil, "URL of the service: http, https, h2c or unix:/path; several are balanced")
	fl.StringVar(&f.listen, "listen", ":8443", "address to listen on, host:port")
	fl.StringArrayVar(&f.hosts, "host", nil, "host name to serve, for the made certificate; may be repeated")
	fl.StringVar(&f.cert, "cert", "", "PEM file of the certificate chain")
	fl.StringVar(&f.key, "key", "", "PEM file of its key")
	fl.StringVar(&f.pq, "pq", "prefer", "require: refuse clients without post-quantum key exchange; prefer: serve them too")
	fl.StringVar(&f.dataDir, "data-dir", "", "folder for the local certificate authority (default: the user's data folder)")
	fl.StringVar(&f.log, "access-log", "stdout", "off, stdout, or a file")
	fl.StringVar(&f.admin, "admin", "", "address of the admin page, unix:/path or host:port (default: none)")
	fl.BoolVar(&f.print, "print-config", false, "print the configuration and end")
	return cmd
}

func (f *edgeFlags) run(cmd *cobra.Command) error {
	tree, warnings, err := f.tree()
	if err != nil {
		return err
	}
	if f.print {
		_, err := cmd.OutOrStdout().Write(config.Marshal(tree))
		return err
	}
	load := func() (*pqgw.Loaded, error) {
		return &pqgw.Loaded{Tree: tree, Warnings: warnings}, nil
	}
	return serve(cmd, load, func(s *pqgw.Server) { f.greet(cmd.ErrOrStderr(), tree, s) })
}

// tree is the configuration that the flags amount to.
func (f *edgeFlags) tree() (*config.Tree, config.Warnings, error) {
	if (f.cert == "") != (f.key == "") {
		return nil, nil, withCode(exitUsage, errors.New("--cert and --key go together"))
	}
	t := config.New()
	t.AccessLog = config.LogFile(f.log)
	t.DataDir = config.File(f.dataDir)
	tls := config.Default[config.TLS]()
	tls.PQ = config.PQ(f.pq)
	if f.pq != string(config.PQRequire) && f.pq != string(config.PQPrefer) {
		return nil, nil, withCode(exitUsage, fmt.Errorf("--pq is require or prefer, not %q", f.pq))
	}
	if f.cert != "" {
		tls.Certificates.Files = []config.CertFiles{{Cert: config.File(f.cert), Key: config.File(f.key)}}
	} else {
		tls.Certificates.Dev = &config.DevCertificates{Hosts: f.hosts}
	}
	t.TLS = map[string]*config.TLS{"edge": tls}
	if err := f.listener(t); err != nil {
		return nil, nil, withCode(exitUsage, err)
	}
	warnings, err := t.Resolve()
	if err != nil {
		return nil, nil, withCode(exitUsage, err)
	}
	return t, warnings, nil
}

func (f *edgeFlags) listener(t *config.Tree) error {
	address, err := config.ParseAddress(f.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	l := config.Default[config.Listener]()
	l.Name, l.Address, l.TLS = "edge", address, "edge"
	t.Listeners = []*config.Listener{l}
	if f.admin != "" {
		t.Admin = &config.Admin{}
		if t.Admin.Address, err = config.ParseAddress(f.admin); err != nil {
			return fmt.Errorf("--admin: %w", err)
		}
	}
	route := config.Default[config.Route]()
	route.Name, route.To = "all", config.Trace
	t.Routes = []*config.Route{route}
	if len(f.to) == 0 {
		return nil
	}
	u := config.Default[config.Upstream]()
	for _, url := range f.to {
		e, err := config.ParseEndpoint(url)
		if err != nil {
			return fmt.Errorf("--to: %w", err)
		}
		u.Endpoints = append(u.Endpoints, e)
	}
	t.Upstreams = map[string]*config.Upstream{"service": u}
	route.To = "service"
	return nil
}

// greet tells a newcomer what runs and how to try it.
func (f *edgeFlags) greet(w io.Writer, t *config.Tree, s *pqgw.Server) {
	addr := s.Addrs()["edge"]
	what := "answers by itself with what each connection was"
	if len(f.to) > 0 {
		what = "in front of " + strings.Join(f.to, ", ")
	}
	fmt.Fprintf(w, "\npqgw edge on %s (pq: %s), %s.\n", addr, f.pq, what)
	trust := ""
	if f.cert == "" {
		ca := filepath.Join(pqgw.DataDir(t), "ca", "ca.pem")
		fmt.Fprintf(w, "Its certificate is from a local authority. To trust that, add this file to your browser or system:\n  %s\n", ca)
		trust = " --cacert " + ca
	}
	host, port := "localhost", ""
	if _, p, err := net.SplitHostPort(addr.String()); err == nil {
		port = ":" + p
	}
	if len(f.hosts) > 0 {
		trust += fmt.Sprintf(" --resolve %s%s:127.0.0.1", f.hosts[0], port)
		host = f.hosts[0]
	}
	fmt.Fprintf(w, "Try it:\n  curl%s https://%s%s/\n\n", trust, host, port)
}
