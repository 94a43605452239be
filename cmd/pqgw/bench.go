package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/link"
	"github.com/hanzoai/pqgw/bench/report"
)

func init() { commands = append(commands, newBench) }

// benchCommands are the constructors of bench's subcommands; each file that
// defines one appends it in an init function.
var benchCommands []func() *cobra.Command

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what post-quantum costs: handshakes, steady state, layers, peers",
		Long: "Measure what post-quantum costs. What the kernel says a process computed is the headline;\n" +
			"rates and times are given only where the machine was quiet enough, and ratios hold within one run.",
	}
	cmd.AddCommand(newBenchChild())
	for _, c := range benchCommands {
		cmd.AddCommand(c())
	}
	return cmd
}

// newBenchChild is how the benches start processes of their own.
func newBenchChild() *cobra.Command {
	return &cobra.Command{
		Use:    bench.ChildCommand + " ROLE",
		Short:  "Play a role in a bench (started by the bench itself)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bench.ServeChild(cmd.Context(), args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// benchFlags are what every bench can be asked.
type benchFlags struct {
	output string
	save   string
	bench.Options
}

func (f *benchFlags) add(cmd *cobra.Command) {
	outputFlag(cmd, &f.output)
	flags := cmd.Flags()
	flags.BoolVar(&f.Quick, "quick", false, "take 45 seconds at most, with wider intervals")
	flags.IntVar(&f.Rounds, "rounds", 0, "interleaved rounds (default: 5 with --quick, else 15)")
	flags.IntVar(&f.Ops, "ops", 0, "most operations of an arm in a round (default: as many as its time allows)")
	flags.StringVar(&f.save, "save", "", "also store every sample in this results file, for bench diff and model")
}

// run runs benches and prints what they found. Errors of single arms come
// after the rest has been printed.
func (f *benchFlags) run(cmd *cobra.Command, list ...bench.Bench) error {
	r, err := f.measure(cmd, list...)
	if r == nil {
		return err
	}
	return errors.Join(f.print(cmd, r), err)
}

func (f *benchFlags) measure(cmd *cobra.Command, list ...bench.Bench) (*bench.Results, error) {
	if err := checkOutput(f.output); err != nil {
		return nil, err
	}
	if f.Rounds < 0 || f.Ops < 0 {
		return nil, withCode(exitUsage, errors.New("--rounds and --ops cannot be negative"))
	}
	f.Progress = bench.NewProgress(cmd.ErrOrStderr())
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop() // an interrupted bench ends its processes
	r, err := bench.Run(ctx, f.Options, append([]string{"pqgw"}, os.Args[1:]...), list...)
	if errors.Is(err, context.Canceled) && cmd.Context().Err() == nil {
		err = errors.New("interrupted")
	}
	return r, err
}

func (f *benchFlags) print(cmd *cobra.Command, r *bench.Results) error {
	if f.save != "" {
		if err := r.Write(f.save); err != nil {
			return err
		}
	}
	if f.output == "text" {
		return report.Text(cmd.OutOrStdout(), r)
	}
	return printIndented(cmd, r)
}

// printIndented writes v as JSON on stdout.
func printIndented(cmd *cobra.Command, v any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// newBenchOf is the command of a registered bench. choose may put another in its
// place by flags of its own.
func newBenchOf(b bench.Bench, long string, choose ...func() (bench.Bench, error)) *cobra.Command {
	var f benchFlags
	var lab string
	cmd := &cobra.Command{
		Use:   b.Name,
		Short: b.Title,
		Long:  long,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen := b
			for _, c := range choose {
				var err error
				if chosen, err = c(); err != nil {
					return withCode(exitUsage, err)
				}
			}
			if lab = labOf(lab, args); lab != "" {
				chosen = chosen.Across(lab)
				f.Interfaces = labInterfaces(cmd.Context(), lab)
			}
			return linkError(f.run(cmd, chosen))
		},
	}
	f.add(cmd)
	if b.Linkable {
		linkFlag(cmd, &lab, "run across this link lab, as pqgw bench link up has named it (default: the loopback)")
	}
	return cmd
}

// linkFlag lets a command take --link, alone for the lab that has no other name,
// --link=NAME or --link NAME.
func linkFlag(cmd *cobra.Command, lab *string, usage string) {
	cmd.Flags().StringVar(lab, "link", "", usage)
	cmd.Flags().Lookup("link").NoOptDefVal = link.Default.Name
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("link") && *lab == link.Default.Name {
			return cobra.MaximumNArgs(1)(cmd, args)
		}
		return cobra.NoArgs(cmd, args)
	}
}

// labInterfaces are those of a lab's hosts, by host and name; none of one that is not there.
func labInterfaces(ctx context.Context, name string) (out []bench.Interface) {
	all, err := link.Show(ctx)
	if err != nil {
		return nil // the benches will say so
	}
	for _, s := range all {
		if s.Name != name {
			continue
		}
		for _, e := range s.Ends {
			_ = s.Do(e.Host, func() error {
				for _, i := range bench.Interfaces() {
					if i.Name == e.Name {
						i.Name, i.Driver, i.Qdisc = e.Host+" "+e.Name, "veth", strings.TrimPrefix(e.Qdisc, "qdisc ")
						if s.RTT > 0 && e.Name != "back" {
							i.Driver = "tun"
						}
						out = append(out, i)
					}
				}
				return nil
			})
		}
	}
	return out
}

// labOf is the name that --link was given, which stands among the arguments where no
// "=" was put before it.
func labOf(flag string, args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return flag
}
