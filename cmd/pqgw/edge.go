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
	quick
	hosts                 []string
	listen, cert, key, pq string
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
		RunE: func(cmd *cobra.Command, _ []string) error { return f.serve(cmd) },
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.to, "to", nil, "URL of the service, as http://host:port or unix:/path; several are balanced")
	fl.StringVar(&f.listen, "listen", ":8443", "address to listen on, host:port")
	fl.StringArrayVar(&f.hosts, "host", nil, "host name to serve, for the made certificate; may be repeated")
	fl.StringVar(&f.cert, "cert", "", "PEM file of the certificate chain")
	fl.StringVar(&f.key, "key", "", "PEM file of its key")
	fl.StringVar(&f.pq, "pq", "prefer", "require: refuse clients without post-quantum key exchange; prefer: serve them too")
	f.quick.flags(cmd)
	return cmd
}

func (f *edgeFlags) serve(cmd *cobra.Command) error {
	t, err := f.config()
	if err != nil {
		return withCode(exitUsage, err)
	}
	return f.run(cmd, t, func(s *pqgw.Server) { f.greet(cmd.ErrOrStderr(), t, s) })
}

// config is the configuration that the flags amount to.
func (f *edgeFlags) config() (*config.Tree, error) {
	if (f.cert == "") != (f.key == "") {
		return nil, errors.New("--cert and --key go together")
	}
	address, err := config.ParseAddress(f.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	l := config.Default[config.Listener]()
	l.Name, l.Address, l.TLS = "edge", address, "edge"
	t, err := f.tree(l)
	if err != nil {
		return nil, err
	}
	tls := config.Default[config.TLS]()
	if tls.PQ, err = policyFlag(f.pq); err != nil {
		return nil, err
	}
	if f.cert != "" {
		tls.Certificates.Files = []config.CertFiles{{Cert: config.File(f.cert), Key: config.File(f.key)}}
	} else {
		tls.Certificates.Dev = &config.DevCertificates{Hosts: f.hosts}
	}
	t.TLS = map[string]*config.TLS{"edge": tls}
	return t, nil
}

// greet tells a newcomer what runs and how to try it.
func (f *edgeFlags) greet(w io.Writer, t *config.Tree, s *pqgw.Server) {
	addr := s.Addrs()["edge"]
	what := "answers by itself with what each connection was"
	if len(f.to) > 0 {
		what = "in front of " + strings.Join(f.to, ", ")
	}
	fmt.Fprintf(w, "\npqgw edge on %s (pq: %s), %s.\n", addr, f.pq, what)
	args := ""
	if f.cert == "" {
		ca := filepath.Join(pqgw.DataDir(t), "ca", "ca.pem")
		fmt.Fprintf(w, "Its certificate is from a local authority. To trust that, add this file to your browser or system:\n  %s\n", ca)
		args = " --cacert " + ca
	}
	host, port := "localhost", ""
	if _, p, err := net.SplitHostPort(addr.String()); err == nil {
		port = ":" + p
	}
	if len(f.hosts) > 0 {
		host = f.hosts[0]
		args += fmt.Sprintf(" --resolve %s%s:127.0.0.1", host, port)
	}
	fmt.Fprintf(w, "Try it:\n  curl%s https://%s%s/\n\n", args, host, port)
}
