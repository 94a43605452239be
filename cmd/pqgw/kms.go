package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/kms"
)

func init() { commands = append(commands, newKMS) }

// kmsFlags say which store, and what opens it.
type kmsFlags struct {
	dir            string
	masterFile     string
	credential     string
	variable       string
	passphraseFile string
	output         string
	ownMaster      bool // a recovery key does not do
}

func newKMS() *cobra.Command {
	f := &kmsFlags{}
	cmd := &cobra.Command{
		Use:   "kms",
		Short: "Keep keys and secrets in a sealed store",
		Long: "Keeps keys and secrets in a folder, each sealed to the store's master key by a hybrid post-quantum KEM\n" +
			"(HPKE with MLKEM768-X25519). Names, kinds and dates are in clear, values never. Each use of a key is a\n" +
			"line in the store's audit. The master is a file of mode 0600, a systemd credential, an environment\n" +
			"variable, or comes from a passphrase by Argon2id. Values come by stdin, never by arguments.",
		// Values are in this process's memory: no dump of it is to be had.
		PersistentPreRun: func(*cobra.Command, []string) { _ = kms.Harden() },
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.dir, "dir", "", "folder of the store")
	flags.StringVar(&f.masterFile, "master-file", "", "file of the master key, mode 0600; init makes it when absent")
	flags.StringVar(&f.credential, "master-credential", "", "systemd credential that holds the master key")
	flags.StringVar(&f.variable, "master-env", "", "environment variable that holds the master key")
	flags.StringVar(&f.passphraseFile, "passphrase-file", "", "file of the passphrase, mode 0600, that the master comes from")
	flags.StringVar(&f.output, "output", "text", "format of the data on stdout: text or json")
	for _, sub := range []*cobra.Command{
		newKMSInit(f), newKMSPut(f), newKMSGet(f), newKMSList(f), newKMSDelete(f), newKMSRecipient(f), newKMSRotate(f),
		newKMSSeal(f), newKMSUnseal(f), newKMSExport(f), newKMSImport(f), newKMSAudit(f), newKMSECH(f), newKMSServe(f),
	} {
		cmd.AddCommand(sub)
	}
	return cmd
}

func (f *kmsFlags) check() error {
	if f.dir == "" {
		return withCode(exitUsage, errors.New("--dir is missing: where is the store?"))
	}
	return checkOutput(f.output)
}

// master is the source that the flags name; exactly one must be named.
func (f *kmsFlags) master() (kms.Master, error) {
	return masterOf(f.masterFile, f.credential, f.variable, f.passphraseFile)
}

func masterOf(file, credential, variable, passphraseFile string) (kms.Master, error) {
	var sources []kms.Master
	if file != "" {
		sources = append(sources, kms.MasterFile{Path: file})
	}
	if credential != "" {
		sources = append(sources, kms.MasterCredential{Name: credential})
	}
	if variable != "" {
		sources = append(sources, &kms.MasterEnv{Variable: variable})
	}
	if passphraseFile != "" {
		passphrase, err := kms.ReadPassphrase(passphraseFile)
		if err != nil {
			return nil, kmsError(err)
		}
		sources = append(sources, kms.MasterPassphrase{Passphrase: passphrase})
	}
	if len(sources) != 1 {
		return nil, withCode(exitUsage, fmt.Errorf("%d masters are named; give one of --master-file, --master-credential, --master-env, --passphrase-file", len(sources)))
	}
	return sources[0], nil
}

// open opens the store that the flags name.
func (f *kmsFlags) open(cmd *cobra.Command) (*kms.Store, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	master, err := f.master()
	if err != nil {
		return nil, err
	}
	return f.openWith(cmd, master)
}

func (f *kmsFlags) openWith(cmd *cobra.Command, master kms.Master) (*kms.Store, error) {
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	s, err := kms.Open(f.dir, kms.Options{Master: master, Logger: log, Actor: cmd.CommandPath(), Recovery: !f.ownMaster})
	return s, kmsError(err)
}

// withStore runs one command on the open store.
func (f *kmsFlags) withStore(run func(cmd *cobra.Command, s *kms.Store, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := f.open(cmd)
		if err != nil {
			return err
		}
		return kmsError(errors.Join(run(cmd, s, args), s.Close()))
	}
}

// print writes v as JSON, or calls text.
func (f *kmsFlags) print(w io.Writer, v any, text func(io.Writer) error) error {
	if f.output == "json" {
		return json.NewEncoder(w).Encode(v)
	}
	return text(w)
}

// kmsError gives an error of the store its exit code.
func kmsError(err error) error {
	var coded *exitError
	switch {
	case err == nil || errors.As(err, &coded):
		return err
	case errors.Is(err, kms.ErrName) || errors.Is(err, kms.ErrKind):
		return withCode(exitUsage, err)
	case errors.Is(err, kms.ErrLooseMode) || errors.Is(err, fs.ErrPermission):
		return withCode(exitBind, err)
	case errors.Is(err, kms.ErrTooLarge):
		return withCode(exitNotMet, err)
	}
	return err
}

// parseRecipients reads --recipient and --recovery.
func parseRecipients(texts []string) ([]kms.Recipient, error) {
	out := make([]kms.Recipient, 0, len(texts))
	for _, text := range texts {
		r, err := kms.ParseRecipient(text)
		if err != nil {
			return nil, withCode(exitUsage, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// readValue reads stdin up to the largest value.
func readValue(r io.Reader, limit int) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("read stdin: %w", err)
	}
	if len(data) > limit {
		clear(data)
		return nil, withCode(exitNotMet, fmt.Errorf("stdin has more than %d bytes", limit))
	}
	return data, nil
}

// writeSecret writes the value and nothing else.
func writeSecret(w io.Writer, value *kms.Secret) error {
	return value.Use(func(b []byte) error {
		_, err := w.Write(b)
		return err
	})
}
