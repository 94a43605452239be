package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

func init() { commands = append(commands, newCert) }

// defaultLeafDays is the longest that browsers take of a server certificate.
const defaultLeafDays = 397

func newCert() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cert",
		Short: "Make a small certificate authority and certificates, for trying mutual TLS",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() }, // so that an unknown word is an error
	}
	cmd.AddCommand(newCertCA(), newCertIssue())
	return cmd
}

// madeFiles is what the cert commands print.
type madeFiles struct {
	Cert     string    `json:"cert"`
	Key      string    `json:"key"`
	Created  bool      `json:"created"`
	Names    []string  `json:"names,omitempty"`
	NotAfter time.Time `json:"not_after"`
}

func (m madeFiles) print(w io.Writer, output string) error {
	if output == "json" {
		return json.NewEncoder(w).Encode(m)
	}
	_, err := fmt.Fprintf(w, "%s\n%s\n", m.Cert, m.Key)
	return err
}

func newCertCA() *cobra.Command {
	var output, alg string
	cmd := &cobra.Command{
		Use:   "ca DIR",
		Short: "Make a certificate authority: DIR/ca.pem and DIR/ca-key.pem",
		Long: "Makes a certificate authority in DIR, and DIR if need be. One that is there already is kept. Its key is ECDSA\n" +
			"P-256, which TLS takes everywhere, or with --alg ML-DSA (RFC 9881), for the identities of hops.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			made, err := makeCA(args[0], alg)
			if err != nil {
				return err
			}
			if !made.Created {
				fmt.Fprintln(cmd.ErrOrStderr(), messageStart+made.Cert+" is there already and was kept")
			}
			return made.print(cmd.OutOrStdout(), output)
		},
	}
	algFlag(cmd, &alg)
	outputFlag(cmd, &output)
	return cmd
}

func newCertIssue() *cobra.Command {
	var output, alg, name, spiffe string
	var days int
	cmd := &cobra.Command{
		Use:   "issue DIR --name NAME",
		Short: "Issue a certificate by the authority in DIR: DIR/NAME.pem and DIR/NAME-key.pem",
		Long: "Issues a certificate for NAME, localhost and 127.0.0.1, good for servers and for clients, by the\n" +
			"authority that 'pqgw cert ca DIR' made. A certificate of that name that is there already is replaced.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if name == "" {
				return withCode(exitUsage, errors.New("--name is missing: whom is the certificate for?"))
			}
			if days < 1 {
				return withCode(exitUsage, fmt.Errorf("--days is %d; it must be 1 or more", days))
			}
			issued, err := issueCert(args[0], alg, name, spiffe, time.Duration(days)*24*time.Hour)
			if err != nil {
				return err
			}
			made := madeFiles{Cert: issued.CertFile, Key: issued.KeyFile, Created: true, Names: issued.Names, NotAfter: issued.NotAfter}
			return made.print(cmd.OutOrStdout(), output)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "DNS name or IP address that the certificate is for; also the files' name")
	cmd.Flags().StringVar(&spiffe, "spiffe-id", "", "identity of the holder besides, spiffe://DOMAIN/PATH: the name that peers see and 'match: {peer:}' takes")
	algFlag(cmd, &alg)
	cmd.Flags().IntVar(&days, "days", defaultLeafDays, "how many days the certificate is good for")
	outputFlag(cmd, &output)
	return cmd
}
