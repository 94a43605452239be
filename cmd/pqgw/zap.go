package main

import (
	"github.com/spf13/cobra"
)

func init() { commands = append(commands, newZap) }

// zapCommands are the constructors of the subcommands of `pqgw zap`; each file
// of this package that defines one appends it in an init function.
var zapCommands []func() *cobra.Command

func newZap() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "zap",
		Short: "Speak and inspect ZAP",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	for _, c := range zapCommands {
		cmd.AddCommand(c())
	}
	return cmd
}
