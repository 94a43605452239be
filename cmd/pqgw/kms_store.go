package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/kms"
)

func newKMSInit(f *kmsFlags) *cobra.Command {
	var recovery []string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a store, and its master file when absent; prints the recipient",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			others, err := parseRecipients(recovery)
			if err != nil {
				return err
			}
			key, err := f.firstKey()
			if err != nil {
				return kmsError(err)
			}
			defer key.Close()
			if err := kms.Init(f.dir, key, others...); err != nil {
				return kmsError(err)
			}
			return f.printRecipients(cmd.OutOrStdout(), []kms.Recipient{key.Recipient()})
		},
	}
	cmd.Flags().StringArrayVar(&recovery, "recovery", nil, "recipient that can read all as well, its master kept away; may be given again")
	return cmd
}

// firstKey is the master of a store to be made. A master file that is there is
// taken: an init before may have been cut off after it was made.
func (f *kmsFlags) firstKey() (*kms.MasterKey, error) {
	master, err := f.master()
	if err != nil {
		return nil, err
	}
	switch m := master.(type) {
	case kms.MasterFile:
		key, err := m.Create()
		if !errors.Is(err, fs.ErrExist) {
			return key, err
		}
	case kms.MasterPassphrase:
		return m.New()
	}
	keys, err := master.Keys(nil)
	if err != nil {
		return nil, err
	}
	return keys[0], nil
}

func (f *kmsFlags) printRecipients(w io.Writer, recipients []kms.Recipient) error {
	type recipient struct {
		ID        string `json:"id"`
		Recipient string `json:"recipient"`
	}
	list := make([]recipient, len(recipients))
	for i, r := range recipients {
		list[i] = recipient{r.ID(), r.String()}
	}
	return f.print(w, list, func(w io.Writer) error {
		for _, r := range list {
			if _, err := fmt.Fprintln(w, r.Recipient); err != nil {
				return err
			}
		}
		return nil
	})
}

func newKMSRecipient(f *kmsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "recipient",
		Short: "Print the recipients that the store seals to: public keys, for 'seal' and 'export' elsewhere",
		Args:  cobra.NoArgs,
		RunE: f.withStore(func(cmd *cobra.Command, s *kms.Store, _ []string) error {
			return f.printRecipients(cmd.OutOrStdout(), s.Recipients())
		}),
	}
}

// putFlags are those of put.
type putFlags struct {
	kind       string
	publicFile string
	generate   string
	publicName string
	isNew      bool
}

func newKMSPut(f *kmsFlags) *cobra.Command {
	var p putFlags
	cmd := &cobra.Command{
		Use:   "put NAME",
		Short: "Store the value read from stdin, or one made here, as the next version of NAME",
		Args:  cobra.ExactArgs(1),
		RunE: f.withStore(func(cmd *cobra.Command, s *kms.Store, args []string) error {
			info, err := p.run(cmd, s, args[0])
			if err != nil {
				return err
			}
			return f.print(cmd.OutOrStdout(), info, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s version %d\n", info.Name, info.Version)
				return err
			})
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&p.kind, "kind", "", "kind: secret (the default), certificate, ca, acme, ticket-root, ech, ml-dsa, public")
	flags.StringVar(&p.publicFile, "public", "", "file of the public part that goes with it: a certificate chain")
	flags.StringVar(&p.generate, "generate", "", "make the value here: ecdsa-p256, ecdsa-p384, ed25519, rsa-3072, ml-dsa-65, ml-dsa-87, random, ticket-root, ech")
	flags.StringVar(&p.publicName, "public-name", "", "for --generate ech: the name that the outer hello shows")
	flags.BoolVar(&p.isNew, "new", false, "refuse when NAME is taken")
	return cmd
}

func (p *putFlags) run(cmd *cobra.Command, s *kms.Store, name string) (kms.Info, error) {
	switch p.generate {
	case string(kms.KindTicketRoot):
		return s.RotateTicketRoot(cmd.Context(), name)
	case string(kms.KindECH):
		if _, err := s.RotateECH(cmd.Context(), name, p.publicName, true); err != nil {
			return kms.Info{}, err
		}
		return s.Stat(name)
	}
	e := kms.Entry{Name: name, Kind: kms.Kind(p.kind), New: p.isNew}
	if e.Kind == "" {
		e.Kind = defaultKind(p.generate)
	}
	var err error
	if p.generate != "" {
		if e.Value, e.Public, err = kms.Generate(p.generate); err != nil {
			return kms.Info{}, withCode(exitUsage, err)
		}
	} else {
		data, err := readValue(cmd.InOrStdin(), kms.MaxValue)
		if err != nil {
			return kms.Info{}, err
		}
		if e.Kind == kms.KindPublic {
			e.Public = data
		} else {
			e.Value = kms.NewSecret(data)
		}
	}
	defer e.Value.Close()
	if p.publicFile != "" {
		if e.Public, err = os.ReadFile(p.publicFile); err != nil {
			return kms.Info{}, fmt.Errorf("read the public part: %w", err)
		}
	}
	return s.Put(cmd.Context(), e)
}

// defaultKind is that of a value made here.
func defaultKind(algorithm string) kms.Kind {
	switch algorithm {
	case "", kms.AlgorithmRandom:
		return kms.KindSecret
	case kms.AlgorithmMLDSA65, kms.AlgorithmMLDSA87:
		return kms.KindIdentity
	}
	return kms.KindCertificate
}

func newKMSGet(f *kmsFlags) *cobra.Command {
	var public, previous bool
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Write the value of NAME to stdout, or its public part",
		Args:  cobra.ExactArgs(1),
		RunE: f.withStore(func(cmd *cobra.Command, s *kms.Store, args []string) error {
			info, err := s.Stat(args[0])
			if err != nil {
				return err
			}
			if public || info.Kind == kms.KindPublic {
				return f.print(cmd.OutOrStdout(), info, func(w io.Writer) error {
					_, err := w.Write(info.Public)
					return err
				})
			}
			get := s.Get
			if previous {
				get = s.GetPrevious
			}
			value, info, err := get(cmd.Context(), args[0], "get")
			if err != nil {
				return err
			}
			defer value.Close()
			shown := struct {
				kms.Info
				Value []byte `json:"value"`
			}{Info: info}
			if f.output == "json" {
				shown.Value = value.Reveal()
				defer clear(shown.Value)
			}
			return f.print(cmd.OutOrStdout(), shown, func(w io.Writer) error { return writeSecret(w, value) })
		}),
	}
	cmd.Flags().BoolVar(&public, "public", false, "write the public part: nothing is unsealed")
	cmd.Flags().BoolVar(&previous, "previous", false, "the version before")
	return cmd
}

func newKMSDelete(f *kmsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME",
		Short: "Remove NAME, and its version before",
		Args:  cobra.ExactArgs(1),
		RunE: f.withStore(func(cmd *cobra.Command, s *kms.Store, args []string) error {
			return s.Delete(cmd.Context(), args[0])
		}),
	}
}

func newKMSList(f *kmsFlags) *cobra.Command {
	var inClear bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List names, kinds, versions and dates; unseals nothing",
		Long:  "Lists what the store holds. A file that is torn or does not authenticate is named on stderr, and the exit code is 1.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			infos, damaged, err := f.list(cmd, inClear)
			if err != nil {
				return kmsError(err)
			}
			found := struct {
				Entries []kms.Info   `json:"entries"`
				Damaged []kms.Damage `json:"damaged"`
			}{append([]kms.Info{}, infos...), append([]kms.Damage{}, damaged...)}
			if err := f.print(cmd.OutOrStdout(), found, func(w io.Writer) error { return printInfos(w, infos) }); err != nil {
				return err
			}
			for _, d := range damaged {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s%s: %s\n", messageStart, d.File, d.Text)
			}
			if len(damaged) > 0 {
				return fmt.Errorf("%d files are damaged", len(damaged))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&inClear, "in-clear", false, "without a master: what it says is not authenticated")
	return cmd
}

func (f *kmsFlags) list(cmd *cobra.Command, inClear bool) ([]kms.Info, []kms.Damage, error) {
	if inClear {
		if err := f.check(); err != nil {
			return nil, nil, err
		}
		return kms.ListClear(f.dir)
	}
	s, err := f.open(cmd)
	if err != nil {
		return nil, nil, err
	}
	infos, damaged, err := s.List()
	return infos, damaged, errors.Join(err, s.Close())
}

func printInfos(w io.Writer, infos []kms.Info) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tKIND\tVERSION\tCREATED\tROTATED\tSIZE")
	for _, i := range infos {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%d\n", i.Name, i.Kind, i.Version, i.Created.Format(time.RFC3339), i.Rotated.Format(time.RFC3339), i.Size)
	}
	return t.Flush()
}
