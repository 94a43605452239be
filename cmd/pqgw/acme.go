package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw"
	"github.com/hanzoai/pqgw/telemetry"
)

func init() { commands = append(commands, newACME) }

func newACME() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "acme",
		Short: "Certificates that come by themselves: revoke one",
	}
	cmd.AddCommand(newACMERevoke())
	return cmd
}

// revocationReasons are those that a holder may give, by their codes (RFC 5280,
// section 5.3.1).
var revocationReasons = map[string]int{
	"unspecified": 0, "key-compromise": 1, "affiliation-changed": 3, "superseded": 4, "cessation": 5,
}

func newACMERevoke() *cobra.Command {
	var reason string
	names := make([]string, 0, len(revocationReasons))
	for name := range revocationReasons {
		names = append(names, name)
	}
	slices.Sort(names)
	cmd := &cobra.Command{
		Use:   "revoke -c FILE HOST",
		Short: "Revoke the certificate of a host; running gateways get another one by themselves",
		Long: "Tells the issuer that the certificate of HOST must not be trusted any more, and takes it out of the storage\n" +
			"that the configuration names. Gateways with that storage get another one, with a new key, at their next look\n" +
			"(check_every), and serve the old one until then.",
		Example: "  pqgw acme revoke -c pqgw.yaml --reason key-compromise api.example.com",
		Args:    cobra.ExactArgs(1),
	}
	var file string
	cmd.Flags().StringVarP(&file, "config", "c", "", "the configuration file (required)")
	cmd.Flags().StringVar(&reason, "reason", "unspecified", strings.Join(names, ", "))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		code, known := revocationReasons[reason]
		switch {
		case file == "":
			return withCode(exitUsage, errors.New("revoke needs -c FILE"))
		case !known:
			return withCode(exitUsage, fmt.Errorf("--reason is one of %s, not %q", strings.Join(names, ", "), reason))
		}
		tree, err := loadConfig(file, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		logger, err := telemetry.NewLogger(cmd.ErrOrStderr(), "warn", "auto")
		if err != nil {
			return err
		}
		defer stores.Close()
		err = pqgw.RevokeCertificate(cmd.Context(), tree, &stores, logger.Logger, args[0], code)
		if errors.Is(err, pqgw.ErrNoACME) {
			return withCode(exitUsage, err)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "revoked the certificate of %s\n", args[0])
		return err
	}
	return cmd
}
