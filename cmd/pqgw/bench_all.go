package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/link"
	"github.com/hanzoai/pqgw/bench/report"
)

func init() {
	benchCommands = append(benchCommands, newBenchAll)
}

// How long all benches take unless --within says otherwise: the rest of five and of
// twenty minutes is for starting, and for the report.
const (
	allQuick = 4*time.Minute + 30*time.Second
	allFull  = 18 * time.Minute
)

// allFlags are what bench all can be asked.
type allFlags struct {
	benchFlags
	out  string
	only []string
	lab  string
}

func newBenchAll() *cobra.Command {
	var f allFlags
	cmd := &cobra.Command{
		Use:   "all --out DIR",
		Short: "Run all benches into results.json, report.md and report.html",
		Long: "Run all benches, one after the other, into a folder with results.json (every sample), report.md and\n" +
			"report.html (one page that needs nothing else). Results are stored after each bench. A bench that\n" +
			"cannot run here says why in its place. With --link those that can run once more across a link lab; one\n" +
			"that is not there is made for the run, of 2.5 Gbit/s, and taken down after it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.lab = labOf(f.lab, args)
			if f.out == "" {
				return withCode(exitUsage, errors.New("all needs --out DIR"))
			}
			list, err := chosenBenches(f.only)
			if err != nil {
				return err
			}
			return linkError(f.all(cmd, list))
		},
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "folder for the results and the report (required)")
	flags.StringSliceVar(&f.only, "only", nil, "run these benches alone: "+strings.Join(benchNames(), ", "))
	flags.DurationVar(&f.Within, "within", 0, "time for all benches; rounds and slices are cut to fit (default: 4m30s with --quick, else 18m)")
	flags.Lookup("quick").Usage = "end within 5 minutes, with wider intervals"
	linkFlag(cmd, &f.lab, "run what can across this link lab as well, and make it for the run if it is not there")
	return cmd
}

func benchNames() []string {
	var names []string
	for _, b := range bench.All() {
		names = append(names, b.Name)
	}
	return names
}

func chosenBenches(only []string) ([]bench.Bench, error) {
	for _, name := range only {
		if !slices.Contains(benchNames(), name) {
			return nil, withCode(exitUsage, fmt.Errorf("--only: no bench %q; there are %s", name, strings.Join(benchNames(), ", ")))
		}
	}
	return slices.DeleteFunc(bench.All(), func(b bench.Bench) bool { return len(only) > 0 && !slices.Contains(only, b.Name) }), nil
}

// all writes the report even where some benches failed, and then says so.
func (f *allFlags) all(cmd *cobra.Command, list []bench.Bench) error {
	if f.Within < 0 {
		return withCode(exitUsage, errors.New("--within cannot be negative"))
	}
	if f.Within == 0 {
		f.Within = map[bool]time.Duration{true: allQuick, false: allFull}[f.Quick]
	}
	if f.lab != "" {
		down, err := raiseLab(cmd, f.lab)
		if err != nil {
			return err
		}
		defer down()
		list = acrossToo(list, f.lab)
		f.Interfaces = labInterfaces(cmd.Context(), f.lab)
	}
	var partly *bench.Results
	f.Partly = func(r *bench.Results) error {
		partly = r
		return report.WriteResults(f.out, r) // the report takes seconds, and can be made of it
	}
	r, err := f.measure(cmd, list...)
	if r == nil && partly != nil {
		return errors.Join(err, report.WriteDir(f.out, partly))
	}
	if r == nil {
		return err
	}
	if e := report.WriteDir(f.out, r); e != nil {
		return errors.Join(e, err)
	}
	if f.output == "json" || f.save != "" {
		return errors.Join(f.print(cmd, r), err)
	}
	for _, name := range []string{report.ResultsFile, report.MarkdownFile, report.HTMLFile} {
		fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(f.out, name))
	}
	return err
}

// acrossToo adds to the benches those that can run across a link, each behind
// itself over the loopback.
func acrossToo(list []bench.Bench, lab string) []bench.Bench {
	var out []bench.Bench
	for _, b := range list {
		if out = append(out, b); b.Linkable {
			out = append(out, b.Across(lab))
		}
	}
	return out
}

// raiseLab finds a lab, or makes it; down takes away what was made.
func raiseLab(cmd *cobra.Command, name string) (down func(), err error) {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	_, err = link.Find(ctx, name)
	if !errors.Is(err, link.ErrNotThere) {
		return func() {}, err
	}
	spec := link.Default
	spec.Name = name
	if err := spec.Check(); err != nil {
		return nil, withCode(exitUsage, err)
	}
	if _, err := link.Up(ctx, spec); err != nil {
		return nil, err
	}
	return func() {
		if _, err := link.Down(context.WithoutCancel(cmd.Context()), name); err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "link lab %s: %v\n", name, err)
		}
	}, nil
}
