package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/bench/tune"
)

func init() { commands = append(commands, newTune) }

// tuneFlags are what the commands of tune have in common.
type tuneFlags struct{ nic, record, output string }

func (f *tuneFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.record, "record", tune.RecordPath(), "file that keeps what was before apply")
	outputFlag(cmd, &f.output)
}

func newTune() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Set this host up for a fast link, and back again",
		Long: "Set this host up for a link of 2.5 Gbit/s, and back again: governor, rings, offloads, RPS, RFS and XPS, queues,\n" +
			"socket buffers, port range. Values are only raised; what the kernel or a driver refuses is told. In a network\n" +
			"namespace only what is the namespace's is touched. Nothing outlasts a reboot.",
	}
	cmd.AddCommand(newTunePlan(), newTuneApply(), newTuneRevert())
	return cmd
}

func newTunePlan() *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what is, what would be and why",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.plan()
			if err != nil {
				return err
			}
			return f.print(cmd, p, p.Settings)
		},
	}
	f.nicFlag(cmd)
	outputFlag(cmd, &f.output)
	return cmd
}

func newTuneApply() *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Do what plan shows; what was is kept for revert",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.plan()
			if err != nil {
				return err
			}
			err = p.Apply(f.record)
			return errors.Join(f.print(cmd, p, p.Settings), tuneError(err))
		},
	}
	f.nicFlag(cmd)
	f.add(cmd)
	return cmd
}

func newTuneRevert() *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "revert",
		Short: "Put back what apply has changed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(f.output); err != nil {
				return err
			}
			settings, err := tune.Revert(f.record)
			if settings == nil {
				settings = []*tune.Setting{}
			}
			return errors.Join(f.print(cmd, settings, settings), tuneError(err))
		},
	}
	f.add(cmd)
	return cmd
}

func (f *tuneFlags) nicFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.nic, "nic", "", "interface to set up (default: those of the default routes, else all that are up)")
}

func (f *tuneFlags) plan() (*tune.Plan, error) {
	if err := checkOutput(f.output); err != nil {
		return nil, err
	}
	p, err := tune.Make(f.nic)
	if errors.Is(err, tune.ErrNoInterface) {
		return nil, withCode(exitUsage, err)
	}
	return p, err
}

func (f *tuneFlags) print(cmd *cobra.Command, v any, settings []*tune.Setting) error {
	if f.output == "json" {
		return printIndented(cmd, v)
	}
	if len(settings) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "there is nothing to put back")
		return err
	}
	return writeSettings(cmd.OutOrStdout(), settings)
}

func writeSettings(w io.Writer, settings []*tune.Setting) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "SETTING\tIS\tWANTED\tSTATE\tWHY")
	for _, s := range settings {
		why := s.Why
		if s.Note != "" {
			why += " (" + s.Note + ")"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", s.Name, spaced(s.Is), spaced(s.Want), s.State, why)
	}
	return tw.Flush()
}

// spaced keeps a value's own tabs out of the table.
func spaced(value string) string { return strings.Join(strings.Fields(value), " ") }

// tuneError gives an error its exit code.
func tuneError(err error) error {
	if errors.Is(err, tune.ErrPermission) {
		return withCode(exitBind, fmt.Errorf("%w (try sudo)", err))
	}
	return err
}
