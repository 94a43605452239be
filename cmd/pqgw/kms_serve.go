package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/handshake/remotesign"
	"github.com/hanzoai/pqgw/kms"
)

// serveFlags are what `pqgw kms serve` can be told.
type serveFlags struct {
	*kmsFlags
	listen, cert, key, ca, allow string
	id                           identityFlags
	token                        tokenFlags
}

func newKMSServe(k *kmsFlags) *cobra.Command {
	f := &serveFlags{kmsFlags: k}
	cmd := &cobra.Command{
		Use:   "serve --listen zap-rpc+tls://HOST:PORT",
		Short: "Sign for gateways that do not hold their keys",
		Long: `Sign with the store's keys for gateways that do not hold them, by ZAP RPC over TLS.

Post-quantum key exchange and a certificate of each peer are required. Who may use
which key, and for what, stands in the file of --allow:

  keys:
    site:
      - {peer: edge-1, for: [tls-server]}

A peer is the verified name of its certificate; purposes are tls-server and
tls-client. SIGHUP reads the file again; a bad one leaves the old one in force. Each
signature is a line in the store's audit. A gateway asks by

  tls:
    signer: {certificates: {files: {cert: edge.pem, key: edge-key.pem}}, ca: ca.pem, pq: require}
    public: {certificates: {kms: {server: "zap-rpc+tls://10.0.0.5:7443", key: site, cert: site.pem, tls: signer}}}

With --pkcs11-module the keys are those of a PKCS#11 token, by their labels, instead of a
store's; it keeps no audit of ours. This needs a build with -tags pkcs11.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.token.module != "" {
				return f.token.with(func(k kms.Keys) error { return f.run(cmd, k) })
			}
			f.ownMaster = true
			return f.withStore(func(cmd *cobra.Command, s *kms.Store, _ []string) error { return f.run(cmd, s) })(cmd, args)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", "", "where to listen: zap-rpc+tls://host:port (required)")
	fl.StringVar(&f.cert, "cert", "", "PEM file of our certificate chain (required)")
	fl.StringVar(&f.key, "key", "", "PEM file of its key (required)")
	fl.StringVar(&f.ca, "ca", "", "PEM file of the authority that vouches for peers (required)")
	fl.StringVar(&f.allow, "allow", "", "YAML file of who may use which key, and for what (required)")
	f.token.flags(cmd)
	f.id.flags(cmd)
	return cmd
}

func (f *serveFlags) address() (address string, err error) {
	for flag, value := range map[string]string{"listen": f.listen, "cert": f.cert, "key": f.key, "ca": f.ca, "allow": f.allow} {
		if value == "" {
			return "", fmt.Errorf("--%s is missing; see pqgw kms serve --help", flag)
		}
	}
	address, ok := strings.CutPrefix(f.listen, "zap-rpc+tls://")
	if _, _, err := net.SplitHostPort(address); !ok || err != nil {
		return "", fmt.Errorf("--listen is %q; write zap-rpc+tls://host:port", f.listen)
	}
	_, err = f.id.given()
	return address, err
}

// run serves until a signal ends it.
func (f *serveFlags) run(cmd *cobra.Command, keys kms.Keys) (err error) {
	address, err := f.address()
	if err != nil {
		return withCode(exitUsage, err)
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	set, closeTLS, err := f.settings(log)
	if err != nil {
		return withCode(exitConfig, err)
	}
	defer closeTLS()
	set.Keys, set.Logger = keys, log
	srv, err := remotesign.NewServer(set)
	if err != nil {
		return withCode(exitConfig, err)
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return withCode(exitBind, err)
	}
	log.Info("signing", "address", ln.Addr().String(), "keys", len(set.Allow.Keys))
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	return f.wait(cmd, srv, served, log)
}

func (f *serveFlags) wait(cmd *cobra.Command, srv *remotesign.Server, served <-chan error, log *slog.Logger) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	for {
		select {
		case err := <-served:
			return errors.Join(err, srv.Close())
		case <-cmd.Context().Done():
			return errors.Join(srv.Close(), <-served)
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				return errors.Join(srv.Close(), <-served)
			}
			allow, err := remotesign.ReadAllow(f.allow)
			if err != nil {
				log.Error("the new list was refused; the old one stays", "error", err)
				continue
			}
			srv.SetAllow(allow)
			log.Info("list read", "keys", len(allow.Keys))
		}
	}
}

// settings are the list and the TLS side; closed ends what keeps certificates fresh.
func (f *serveFlags) settings(log *slog.Logger) (set remotesign.ServerSettings, closed func(), err error) {
	if set.Allow, err = remotesign.ReadAllow(f.allow); err != nil {
		return set, nil, err
	}
	if set.ClientCAs, err = handshake.ReadCertificates(f.ca); err != nil {
		return set, nil, fmt.Errorf("--ca: %w", err)
	}
	files, err := handshake.NewFiles([]handshake.Pair{{Cert: f.cert, Key: f.key}}, handshake.FilesOptions{OnReload: func(r handshake.Reload) {
		log.Info("certificate read", "file", f.cert, "error", r.Err)
	}})
	if err != nil {
		return set, nil, err
	}
	set.Certificates = []handshake.Source{files}
	id, err := f.id.load(func(err error) { log.Info("identity read", "file", f.id.cert, "error", err) })
	if err != nil {
		_ = files.Close()
		return set, nil, err
	}
	if id == nil {
		return set, func() { _ = files.Close() }, nil
	}
	set.Identity = id.Identity
	return set, func() { _, _ = files.Close(), id.Close() }, nil
}
