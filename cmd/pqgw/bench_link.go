package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/bench/link"
)

func init() { benchCommands = append(benchCommands, newBenchLink, newBenchWire) }

func newBenchLink() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "link",
		Short: "Build a lab of two or three hosts joined by a link of a known rate",
		Long: "Build a lab of two or three hosts joined by a link of a known rate, as network namespaces of this machine:\n" +
			"load, gateway and origin. Other benches run across it with --link NAME. It needs root.",
	}
	cmd.AddCommand(newBenchLinkUp(), newBenchLinkDown(), newBenchLinkShow())
	return cmd
}

func newBenchLinkUp() *cobra.Command {
	spec, output := link.Default, ""
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Make a link lab",
		Example: "  pqgw bench link up --rate 2.5gbit\n" +
			"  pqgw bench link up --rtt 20ms --links 2 --hosts 2",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(checkOutput(output), withCode(exitUsage, spec.Check())); err != nil {
				return withCode(exitUsage, err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop() // an interrupted lab is taken down again
			l, err := link.Up(ctx, spec)
			if err != nil {
				return linkError(err)
			}
			return showLinks(cmd, output, l.Name)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&spec.Name, "name", spec.Name, "name of the lab")
	flags.IntVar(&spec.Hosts, "hosts", spec.Hosts, "2 hosts (the origin beside the gateway) or 3")
	flags.IntVar(&spec.Links, "links", spec.Links, "links between load and gateway, 1 or 2")
	flags.Var(&spec.Rate, "rate", "rate of each link and each way, 0 for no limit")
	flags.DurationVar(&spec.RTT, "rtt", 0, "round trip time that each link adds, by a relay; 0 is that of veth")
	flags.IntVar(&spec.MTU, "mtu", spec.MTU, "largest IP packet, in bytes")
	flags.StringVar(&spec.Shaper, "shaper", spec.Shaper, "what holds the rate: tbf or htb")
	flags.StringVar(&spec.Congestion, "congestion", spec.Congestion, "congestion control of TCP on all hosts")
	outputFlag(cmd, &output)
	return cmd
}

func newBenchLinkDown() *cobra.Command {
	name, output := "", ""
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Take link labs down, also what a crash has left of one",
		Long: "Take link labs down, also what a crash has left of one: processes in namespaces named " + link.Prefix + "NAME-HOST\n" +
			"are ended and the namespaces removed, with all that is in them.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			found, err := link.Down(cmd.Context(), name)
			if err != nil {
				return linkError(err)
			}
			if output == "json" {
				return printIndented(cmd, struct {
					Removed []string `json:"removed"`
				}{append([]string{}, found...)})
			}
			if len(found) == 0 {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "there was none")
			} else {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "removed "+strings.Join(found, ", "))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the lab (default: all labs)")
	outputFlag(cmd, &output)
	return cmd
}

func newBenchLinkShow() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the link labs that are there",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return showLinks(cmd, output, "") },
	}
	outputFlag(cmd, &output)
	return cmd
}

// showLinks prints one lab, or all of them.
func showLinks(cmd *cobra.Command, output, name string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	all, err := link.Show(cmd.Context())
	if err != nil {
		return linkError(err)
	}
	shown := []*link.Status{}
	for _, s := range all {
		if name == "" || s.Name == name {
			shown = append(shown, s)
		}
	}
	if output == "json" {
		return printIndented(cmd, shown)
	}
	if len(shown) == 0 {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "there is none")
		return err
	}
	for _, s := range shown {
		if err := writeLink(cmd.OutOrStdout(), s); err != nil {
			return err
		}
	}
	return nil
}

func writeLink(w io.Writer, s *link.Status) error {
	if s.Broken != "" {
		fmt.Fprintf(w, "%s: broken: %s\n", s.Name, s.Broken)
		for _, ns := range s.Namespaces {
			fmt.Fprintln(w, "  "+ns)
		}
		return nil
	}
	fmt.Fprintf(w, "%s: %s\n", s.Name, s.Describe())
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, e := range s.Ends {
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\n", s.Namespace(e.Host), e.Name, e.Address, e.Qdisc)
	}
	return tw.Flush()
}

// linkError gives an error of a lab its exit code.
func linkError(err error) error {
	if errors.Is(err, link.ErrPermission) || errors.Is(err, exec.ErrNotFound) {
		return withCode(exitBind, err)
	}
	return err
}

// newBenchWire is how a lab starts the relays of its links.
func newBenchWire() *cobra.Command {
	return &cobra.Command{
		Use:    link.WireCommand + " SETTINGS",
		Short:  "Relay a link's packets (started by bench link itself)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return link.Wire(args[0]) },
	}
}
