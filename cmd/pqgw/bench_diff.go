package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/report"
)

func init() { benchCommands = append(benchCommands, newBenchDiff, newBenchReport) }

func newBenchDiff() *cobra.Command {
	var output, most string
	cmd := &cobra.Command{
		Use:   "diff BEFORE.json AFTER.json",
		Short: "Compare two runs with confidence intervals",
		Long: "Compare two runs cell by cell. A cell has regressed where the whole confidence interval of its change is\n" +
			"beyond --max-regression; the exit code is then 5. Metrics that one of the runs did not measure are left out.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			allowed, err := parsePercent(most)
			if err != nil {
				return withCode(exitUsage, fmt.Errorf("--max-regression: %w", err))
			}
			before, err := bench.Read(args[0])
			if err != nil {
				return err
			}
			after, err := bench.Read(args[1])
			if err != nil {
				return err
			}
			return printDiff(cmd, report.Diff(before, after, allowed), output)
		},
	}
	outputFlag(cmd, &output)
	cmd.Flags().StringVar(&most, "max-regression", "10%", "how much worse a cell may be")
	return cmd
}

func printDiff(cmd *cobra.Command, d *report.Difference, output string) error {
	var err error
	if output == "json" {
		err = printIndented(cmd, d)
	} else {
		err = d.Text(cmd.OutOrStdout())
	}
	if err == nil && d.Regressed > 0 {
		err = withCode(exitNotMet, fmt.Errorf("%d cells are worse by more than %g %%", d.Regressed, 100*d.MaxRegression))
	}
	return err
}

// parsePercent reads "10%" or "0.1" as a share that is not negative.
func parsePercent(s string) (float64, error) {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is no share such as 10%% or 0.1", s)
	}
	if isPercent {
		v /= 100
	}
	return v, nil
}

func newBenchReport() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report RESULTS.json --out DIR",
		Short: "Write report.md and report.html anew from a results file",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				return withCode(exitUsage, errors.New("report needs --out DIR"))
			}
			r, err := bench.Read(args[0])
			if err != nil {
				return err
			}
			return report.WriteDir(out, r)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder for the report (required)")
	return cmd
}
