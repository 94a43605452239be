package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/kms"
)

// rotateFlags are those of rotate.
type rotateFlags struct {
	toFile           string
	toPassphraseFile string
	keepOld          bool
	dropOld          bool
}

func newKMSRotate(f *kmsFlags) *cobra.Command {
	var r rotateFlags
	cmd := &cobra.Command{
		Use:   "rotate [NAME]",
		Short: "Rotate the master key, or the ticket roots or ECH keys NAME",
		Long: "Without NAME: seals every entry to a new master key. Readers go on meanwhile. With --master-file the file gets\n" +
			"the new key itself; else --to-master-file or --to-passphrase-file name the new master, and --keep-old\n" +
			"leaves the old one good until 'rotate --drop-old', for readers that must be restarted to know the new one.\n" +
			"One that was cut off is gone on with by the same command.\n\n" +
			"With NAME: adds a root to ticket roots, or a key to ECH keys, with overlap.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return f.withStore(func(cmd *cobra.Command, s *kms.Store, args []string) error {
					return f.rotateEntry(cmd, s, args[0])
				})(cmd, args)
			}
			return kmsError(f.rotateMaster(cmd, r))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.toFile, "to-master-file", "", "file of the new master, made when absent")
	flags.StringVar(&r.toPassphraseFile, "to-passphrase-file", "", "file of the new passphrase, mode 0600")
	flags.BoolVar(&r.keepOld, "keep-old", false, "seal to the old master as well")
	flags.BoolVar(&r.dropOld, "drop-old", false, "end a rotation that kept the old master")
	return cmd
}

func (f *kmsFlags) rotateMaster(cmd *cobra.Command, r rotateFlags) error {
	if r.keepOld && r.dropOld {
		return withCode(exitUsage, errors.New("--keep-old and --drop-old exclude each other"))
	}
	if err := f.check(); err != nil {
		return err
	}
	master, err := f.master()
	if err != nil {
		return err
	}
	rotation := kms.Rotation{KeepOld: r.keepOld, DropOld: r.dropOld}
	if r.toFile != "" || r.toPassphraseFile != "" {
		to := &kmsFlags{masterFile: r.toFile, passphraseFile: r.toPassphraseFile}
		if rotation.Next, err = to.firstKey(); err != nil {
			return err
		}
		next, err := to.master()
		if err != nil {
			return err
		}
		// Both, to go on with a rotation that was cut off.
		master = kms.Masters{master, next}
	}
	s, err := f.openWith(cmd, master)
	if err != nil {
		return err
	}
	done, err := s.RotateMaster(cmd.Context(), rotation)
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	return f.print(cmd.OutOrStdout(), done, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "master %s, %d files sealed anew\n", done.Master, done.Resealed)
		return err
	})
}

func (f *kmsFlags) rotateEntry(cmd *cobra.Command, s *kms.Store, name string) error {
	info, err := s.Stat(name)
	if err != nil {
		return err
	}
	switch info.Kind {
	case kms.KindTicketRoot:
		info, err = s.RotateTicketRoot(cmd.Context(), name)
	case kms.KindECH:
		if _, err = s.RotateECH(cmd.Context(), name, "", true); err == nil {
			info, err = s.Stat(name)
		}
	default:
		return withCode(exitUsage, fmt.Errorf("%s is of kind %s, which has no overlap to rotate with; 'pqgw kms put %s' puts its next version", name, info.Kind, name))
	}
	if err != nil {
		return err
	}
	return f.print(cmd.OutOrStdout(), info, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s version %d\n", info.Name, info.Version)
		return err
	})
}

func newKMSECH(f *kmsFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ech",
		Short: "Keys of Encrypted Client Hello, and the DNS record that publishes them",
	}
	cmd.AddCommand(newKMSECHRotate(f), newKMSECHPublish(f))
	return cmd
}

// recordFlags say how the HTTPS record looks.
type recordFlags struct {
	host string
	alpn []string
	ttl  time.Duration
}

func (r *recordFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.host, "host", "", "host that the record is for; the public name when empty")
	cmd.Flags().StringSliceVar(&r.alpn, "alpn", []string{"h2", "h3"}, "protocols that the record names")
	cmd.Flags().DurationVar(&r.ttl, "ttl", 5*time.Minute, "time to live of the record")
}

func (f *kmsFlags) printRecord(cmd *cobra.Command, s *kms.Store, name string, r recordFlags, rotated bool) error {
	ring, err := s.ECH(cmd.Context(), name, "publish")
	if err != nil {
		return err
	}
	now := time.Now()
	if r.host == "" {
		r.host = ring.PublicName
	}
	shown := struct {
		Name       string `json:"name"`
		PublicName string `json:"public_name"`
		Rotated    bool   `json:"rotated"`
		Due        bool   `json:"due"`
		ConfigList []byte `json:"config_list"`
		Record     string `json:"record"`
	}{name, ring.PublicName, rotated, ring.Due(now), ring.ConfigList(now), ring.HTTPSRecord(r.host, r.ttl, r.alpn, now)}
	return f.print(cmd.OutOrStdout(), shown, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, shown.Record)
		return err
	})
}

func newKMSECHPublish(f *kmsFlags) *cobra.Command {
	var r recordFlags
	cmd := &cobra.Command{
		Use:   "publish NAME",
		Short: "Print the HTTPS record that publishes the ECH keys NAME",
		Long:  "Prints the DNS record (RFC 9460). A key that was made within the last hour is not in it yet, so that all gateways can read it first.",
		Args:  cobra.ExactArgs(1),
		RunE: f.withStore(func(cmd *cobra.Command, s *kms.Store, args []string) error {
			return f.printRecord(cmd, s, args[0], r, false)
		}),
	}
	r.add(cmd)
	return cmd
}

func newKMSECHRotate(f *kmsFlags) *cobra.Command {
	var r recordFlags
	var publicName string
	var force bool
	cmd := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Add a key to the ECH keys NAME when the newest is 30 days old, and print the HTTPS record",
		Long: "Adds a key when the newest is 30 days old, or by force; keys are accepted for 90 days. Makes the entry when\n" +
			"there is none, for --public-name. Meant to be run daily; prints the record to publish.",
		Args: cobra.ExactArgs(1),
		RunE: f.withStore(func(cmd *cobra.Command, s *kms.Store, args []string) error {
			rotated, err := s.RotateECH(cmd.Context(), args[0], publicName, force)
			if err != nil {
				return err
			}
			return f.printRecord(cmd, s, args[0], r, rotated)
		}),
	}
	r.add(cmd)
	cmd.Flags().StringVar(&publicName, "public-name", "", "name that the outer hello shows; the gateway must have a certificate for it")
	cmd.Flags().BoolVar(&force, "force", false, "whether due or not")
	return cmd
}
