package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// outputFlag adds --output, which every command that prints data has.
func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVar(output, "output", "text", "format of the data on stdout: text or json")
}

// checkOutput refuses a format that does not exist.
func checkOutput(output string) error {
	if output == "text" || output == "json" {
		return nil
	}
	return withCode(exitUsage, fmt.Errorf("--output is %q; there are text and json", output))
}
