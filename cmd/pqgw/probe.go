package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/kms"
)

func init() { commands = append(commands, newProbe) }

// probeFlags are the flags of the probe command.
type probeFlags struct {
	requirePQ, insecure, verify bool
	scan                        bool
	output, serverName          string
	ca, cert, key, ech          string
	id                          identityFlags
	groups, alpn                []string
	timeout                     time.Duration
}

func newProbe() *cobra.Command {
	var f probeFlags
	cmd := &cobra.Command{
		Use:   "probe HOST:PORT",
		Short: "Connect to a TLS server and say what the connection was: post-quantum or not",
		Long: "Connects twice, the second time to resume the session, and prints the key exchange group, the version,\n" +
			"whether HelloRetryRequest was needed, resumption, ALPN, the certificate, and bytes and time of the\n" +
			"handshake. The port is 443 if none is given. Exits 5 with --require-pq if the key exchange was classical\n" +
			"and with --verify if the certificate does not verify.\n\n" +
			"With --scan it tries each group, each version, long hellos in pieces, and encrypted hellos as well, and\n" +
			"names weaknesses; --ech-config is what DNS publishes for the latter, the ech=… of the HTTPS record;\n" +
			"--require-pq then exits 5 if any classical connection is possible.\n\n" +
			"With --identity-cert, --identity-key and --identity-ca it proves an ML-DSA identity, as hops do, and prints\n" +
			"the one that the server has proven; the time of the handshake has the proof in it.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.requirePQ, "require-pq", false, "exit 5 unless the key exchange is post-quantum")
	fl.BoolVar(&f.scan, "scan", false, "try each group and version, and name weaknesses")
	fl.BoolVar(&f.verify, "verify", false, "exit 5 unless the certificate verifies")
	fl.BoolVar(&f.insecure, "insecure", false, "do not look at whether the certificate verifies")
	fl.StringVar(&f.serverName, "server-name", "", "name to ask for and to verify, instead of HOST")
	fl.StringVar(&f.ca, "ca", "", "PEM file of the CAs to verify by, instead of the system's")
	fl.StringVar(&f.cert, "cert", "", "PEM file of our own certificate, for a server that wants one")
	fl.StringVar(&f.key, "key", "", "PEM file of our own key")
	f.id.flags(cmd)
	fl.StringVar(&f.ech, "ech-config", "", "ECHConfigList to try with --scan: a file of it, in PEM, base64 or bytes, or the base64 itself")
	fl.StringSliceVar(&f.groups, "groups", nil, "key exchange groups to offer, instead of all")
	fl.StringSliceVar(&f.alpn, "alpn", []string{"h2", "http/1.1", "zap-http/1"}, "protocols to offer; empty for none")
	fl.DurationVar(&f.timeout, "timeout", 3*time.Second, "bound on connecting, and on each handshake")
	outputFlag(cmd, &f.output)
	return cmd
}

func (f *probeFlags) run(cmd *cobra.Command, address string) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	o, err := f.options(address)
	if err != nil {
		return err
	}
	if o.Certificate != nil {
		defer o.Certificate.Close()
	}
	id, err := f.id.load(nil)
	if err != nil {
		return withCode(exitUsage, err)
	}
	if id != nil {
		defer id.Close()
		o.Identity = id.Identity
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	var result *handshake.ProbeResult
	var scan *handshake.ScanResult
	if f.scan {
		if scan, err = handshake.Scan(ctx, o); scan != nil {
			result = scan.Probe
		}
	} else {
		result, err = handshake.Probe(ctx, o)
	}
	report := newProbeReport(o.Address, result, err)
	report.addScan(scan)
	if printErr := report.print(cmd.OutOrStdout(), f.output); printErr != nil {
		return printErr
	}
	if err := f.verdict(result, err); err != nil {
		return err
	}
	if f.requirePQ && scan != nil && scan.Classical() {
		return withCode(exitNotMet, errors.New("connections that are not post-quantum are possible"))
	}
	return nil
}

// verdict is the error that the exit code comes from.
func (f *probeFlags) verdict(r *handshake.ProbeResult, err error) error {
	if err == nil && r.Refused != nil {
		err = r.Refused
	}
	var refused *handshake.RefusedError
	switch {
	case errors.As(err, &refused):
		if hint := probeHint(refused); hint != "" {
			return fmt.Errorf("%w (%s)", err, hint)
		}
		return err
	case err != nil:
		return withCode(exitUsage, err)
	case f.requirePQ && !r.First.Facts.PQ():
		return withCode(exitNotMet, fmt.Errorf("the connection is not post-quantum: group %s, TLS %s", r.First.Facts.GroupName(), r.First.Facts.VersionName()))
	case f.verify && r.VerifyErr != nil:
		return withCode(exitNotMet, fmt.Errorf("the certificate does not verify: %w", r.VerifyErr))
	}
	return nil
}

// options checks the flags.
func (f *probeFlags) options(address string) (o handshake.ProbeOptions, err error) {
	usage := func(err error) (handshake.ProbeOptions, error) { return o, withCode(exitUsage, err) }
	o = handshake.ProbeOptions{
		Address: withPort(address), ServerName: f.serverName, NextProtos: f.alpn, NoVerify: f.insecure, Timeout: f.timeout,
	}
	if f.scan && len(f.groups) > 0 {
		return usage(errors.New("--scan tries all groups and --groups narrows them"))
	}
	if given, err := f.id.given(); err != nil {
		return usage(err)
	} else if f.scan && given {
		return usage(errors.New("--scan looks at TLS alone and proves no identity"))
	}
	if f.insecure && f.verify {
		return usage(errors.New("--insecure and --verify contradict each other"))
	}
	if (f.cert == "") != (f.key == "") {
		return usage(errors.New("--cert and --key go together"))
	}
	if f.ech != "" {
		if o.ECHConfigList, err = f.echConfig(); err != nil {
			return usage(fmt.Errorf("--ech-config: %w", err))
		}
	}
	if o.Groups, err = handshake.ParseGroups(f.groups); err != nil {
		return usage(fmt.Errorf("--groups: %w", err))
	}
	if f.ca != "" {
		cas, err := handshake.ReadCertificates(f.ca)
		if err != nil {
			return usage(fmt.Errorf("--ca: %w", err))
		}
		o.Roots = handshake.Pool(cas)
	}
	if f.cert != "" {
		if o.Certificate, err = handshake.NewFiles([]handshake.Pair{{Cert: f.cert, Key: f.key}}, handshake.FilesOptions{}); err != nil {
			return usage(err)
		}
	}
	return o, nil
}

// echConfig reads the file, or what the flag itself is.
func (f *probeFlags) echConfig() ([]byte, error) {
	if !f.scan {
		return nil, errors.New("it is tried with --scan")
	}
	text, readErr := os.ReadFile(f.ech)
	if readErr != nil {
		text = []byte(f.ech)
	}
	list, _, err := kms.ParseECHConfigList(text)
	if err != nil && readErr != nil {
		err = fmt.Errorf("neither a file (%w) nor base64: %w", readErr, err)
	}
	return list, err
}

// withPort adds the port of HTTPS where there is none.
func withPort(address string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(handshake.NormalName(address), "443")
}

// probeHint is the hint of a refusal in terms of this command's flags.
func probeHint(e *handshake.RefusedError) string {
	switch e.Reason {
	case handshake.Timeout, handshake.Reset, handshake.EOF:
		return "a firewall on the way may kill long ClientHellos: compare with --groups X25519"
	case handshake.NoSharedGroup:
		return "the server takes none of the groups offered, see --groups; or it refuses for another reason that it does not tell"
	}
	return e.Hint()
}
