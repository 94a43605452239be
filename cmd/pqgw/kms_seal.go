package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/kms"
)

// maxSealed bounds what unseal and import read: PEM of the largest export.
const maxSealed = 400 << 20

func newKMSSeal(f *kmsFlags) *cobra.Command {
	var label string
	var to []string
	cmd := &cobra.Command{
		Use:   "seal",
		Short: "Seal stdin to the store's recipients, or to those given, and write it to stdout as PEM",
		Long: "Seals what it reads. With --recipient neither store nor master is needed: this is how one hands a secret to a\n" +
			"store that is elsewhere. The value is secret; who sealed it is not proved.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			recipients, err := parseRecipients(to)
			if err != nil {
				return err
			}
			if len(recipients) == 0 {
				s, err := f.open(cmd)
				if err != nil {
					return err
				}
				recipients = s.Recipients()
				if err := s.Close(); err != nil {
					return err
				}
			}
			data, err := readValue(cmd.InOrStdin(), kms.MaxValue)
			if err != nil {
				return err
			}
			value := kms.NewSecret(data)
			defer value.Close()
			blob, err := kms.SealBlob(label, value, recipients)
			if err != nil {
				return kmsError(err)
			}
			_, err = cmd.OutOrStdout().Write(blob)
			return err
		},
	}
	cmd.Flags().StringVar(&label, "label", "sealed", "name that the blob carries in clear")
	cmd.Flags().StringArrayVar(&to, "recipient", nil, "recipient to seal to; may be given again")
	return cmd
}

func newKMSUnseal(f *kmsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "unseal",
		Short: "Open what 'seal' wrote: PEM on stdin, the value on stdout",
		Args:  cobra.NoArgs,
		RunE: f.withStore(func(cmd *cobra.Command, s *kms.Store, _ []string) error {
			data, err := readValue(cmd.InOrStdin(), maxSealed)
			if err != nil {
				return err
			}
			label, value, err := s.OpenBlob(cmd.Context(), data, "unseal")
			if err != nil {
				return err
			}
			defer value.Close()
			if f.output != "json" {
				return writeSecret(cmd.OutOrStdout(), value)
			}
			shown := struct {
				Label string `json:"label"`
				Value []byte `json:"value"`
			}{label, value.Reveal()}
			defer clear(shown.Value)
			return json.NewEncoder(cmd.OutOrStdout()).Encode(shown)
		}),
	}
}

func newKMSExport(f *kmsFlags) *cobra.Command {
	var to []string
	cmd := &cobra.Command{
		Use:   "export [NAME...]",
		Short: "Write all entries, or those named, sealed to recipients, to stdout: a backup, or a way to another store",
		RunE: f.withStore(func(cmd *cobra.Command, s *kms.Store, args []string) error {
			recipients, err := parseRecipients(to)
			if err != nil {
				return err
			}
			if len(recipients) == 0 {
				recipients = s.Recipients()
			}
			data, err := s.Export(cmd.Context(), recipients, args...)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(data)
			return err
		}),
	}
	cmd.Flags().StringArrayVar(&to, "recipient", nil, "recipient to seal to, the store's own when none is given; may be given again")
	return cmd
}

func newKMSImport(f *kmsFlags) *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Put the entries of an export that is read from stdin",
		Args:  cobra.NoArgs,
		RunE: f.withStore(func(cmd *cobra.Command, s *kms.Store, _ []string) error {
			data, err := readValue(cmd.InOrStdin(), maxSealed)
			if err != nil {
				return err
			}
			infos, err := s.Import(cmd.Context(), data, replace)
			if err != nil {
				return err
			}
			return f.print(cmd.OutOrStdout(), infos, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%d entries\n", len(infos))
				return err
			})
		}),
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "put the next version of names that are taken")
	return cmd
}

func newKMSAudit(f *kmsFlags) *cobra.Command {
	var verify bool
	var anchor string
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Print the audit, or check it",
		Long: "Prints the lines of the audit: each use and each change of a key. With --verify it checks their chain and the\n" +
			"entries against it, and prints the chain's head; exit code 5 when something was changed, removed, cut off or put\n" +
			"back. A head that was kept elsewhere, given by --head, proves that nothing up to it is missing.",
		Args: cobra.NoArgs,
		RunE: f.withStore(func(cmd *cobra.Command, s *kms.Store, _ []string) error {
			if !verify && anchor == "" {
				return s.PrintAudit(cmd.OutOrStdout())
			}
			report, err := s.VerifyAudit(cmd.Context(), kms.Head(anchor))
			if err != nil {
				return err
			}
			if err := f.print(cmd.OutOrStdout(), report, func(w io.Writer) error {
				torn := ""
				if report.Torn > 0 {
					torn = fmt.Sprintf(", %d that a writer was cut off in", report.Torn)
				}
				_, err := fmt.Fprintf(w, "%d lines%s, head %s\n", report.Lines, torn, report.Head)
				return err
			}); err != nil {
				return err
			}
			for _, p := range report.Problems {
				fmt.Fprintln(cmd.ErrOrStderr(), messageStart+p)
			}
			if n := len(report.Problems); n > 0 {
				return withCode(exitNotMet, fmt.Errorf("the audit does not verify: %d problems", n))
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&verify, "verify", false, "check the audit and the entries against it")
	cmd.Flags().StringVar(&anchor, "head", "", "head that --verify printed earlier, SEQ:MAC")
	return cmd
}
