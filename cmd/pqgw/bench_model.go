package main

import (
	"crypto/tls"
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/handshakes"
	"github.com/hanzoai/pqgw/bench/lifetime"
	"github.com/hanzoai/pqgw/bench/model"
	"github.com/hanzoai/pqgw/handshake"
)

func init() { benchCommands = append(benchCommands, newBenchModel) }

// modelFlags are what a fleet is reckoned from.
type modelFlags struct {
	benchFlags
	results, group, bytes, link string
	basis                       model.Basis
	load                        model.Load
}

// modelReport is what bench model prints as JSON.
type modelReport struct {
	Load       model.Load    `json:"load"`
	Basis      model.Basis   `json:"basis"`
	Costs      []model.Costs `json:"costs"`
	Needs      []model.Need  `json:"needs"`
	Arithmetic [][]string    `json:"arithmetic"`
	From       string        `json:"from"`
}

func newBenchModel() *cobra.Command {
	var f modelFlags
	cmd := &cobra.Command{
		Use:   "model --clients N --lifetime D --rps R --bytes B",
		Short: "Reckon the cores and links that a fleet needs, from measured costs",
		Long: "Reckon the cores and links that a fleet needs, with a hybrid group and with X25519, full handshakes against\n" +
			"resumed ones. The costs come from --results, or are measured now, which takes about a minute. A request's\n" +
			"cost is that of one answered by the gateway itself: an upstream comes on top.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.runModel(cmd) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.results, "results", "", "results.json to take the costs from (default: measure now)")
	flags.Float64Var(&f.load.Clients, "clients", 100_000, "clients, each with one connection at all times")
	flags.DurationVar(&f.load.Lifetime, "lifetime", 10*time.Minute, "how long a connection lives")
	flags.Float64Var(&f.load.RPS, "rps", 0.1, "requests per second of each client")
	flags.StringVar(&f.bytes, "bytes", "4KiB", "size of an answer")
	flags.Float64Var(&f.load.Resumed, "resumed", 0.5, "share of handshakes that resume, 0 to 1")
	flags.Float64Var(&f.load.Utilisation, "utilisation", 0.6, "share of cores and links to plan for, up to 1")
	flags.StringVar(&f.link, "link", "2.5gbit", "rate of a link")
	flags.StringVar(&f.group, "group", "X25519MLKEM768", "key exchange group beside X25519")
	flags.StringVar(&f.basis.Auth, "auth", "ECDSA P-256", "the server's key: ECDSA P-256, RSA 2048 or Ed25519")
	flags.StringVar(&f.basis.Transport, "transport", "tls", "tls or quic")
	return cmd
}

func (f *modelFlags) runModel(cmd *cobra.Command) error {
	group, err := f.parse()
	if err != nil {
		return withCode(exitUsage, err)
	}
	r, from, err := f.costs(cmd, group)
	if err != nil {
		return err
	}
	report := modelReport{Load: f.load, Basis: f.basis, From: from}
	for _, g := range []tls.CurveID{tls.X25519, group} {
		c, err := model.CostsOf(r, f.basis, handshake.GroupName(g))
		if err != nil {
			return err
		}
		n := model.Reckon(f.load, c)
		report.Costs, report.Needs = append(report.Costs, c), append(report.Needs, n)
		report.Arithmetic = append(report.Arithmetic, model.Arithmetic(f.load, c, n))
	}
	if f.output == "json" {
		return printIndented(cmd, report)
	}
	return printModel(cmd, report)
}

// parse checks all flags before anything is measured.
func (f *modelFlags) parse() (tls.CurveID, error) {
	if err := checkOutput(f.output); err != nil {
		return 0, err
	}
	var err error
	if f.load.Bytes, err = parseUnits(f.bytes, byteUnits); err != nil {
		return 0, fmt.Errorf("--bytes: %w", err)
	}
	if f.load.Link, err = parseUnits(f.link, rateUnits); err != nil {
		return 0, fmt.Errorf("--link: %w", err)
	}
	if f.basis.Transport != "tls" && f.basis.Transport != "quic" {
		return 0, fmt.Errorf("--transport is %q; there are tls and quic", f.basis.Transport)
	}
	group, err := handshake.ParseGroup(f.group)
	if err != nil {
		return 0, fmt.Errorf("--group: %w", err)
	}
	return group, f.load.Check()
}

// costs reads the results, or measures just what is needed.
func (f *modelFlags) costs(cmd *cobra.Command, group tls.CurveID) (*bench.Results, string, error) {
	if f.results != "" {
		r, err := bench.Read(f.results)
		return r, f.results, err
	}
	f.Quick = true
	r, err := f.measure(cmd, handshakes.Few(f.basis.Transport, f.basis.Auth, tls.X25519, group), lifetime.Bench)
	if err == nil && f.save != "" {
		err = r.Write(f.save)
	}
	return r, "measured now", err
}

func printModel(cmd *cobra.Command, r modelReport) error {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "Handshakes over %s with %s; costs: %s\n\n", r.Basis.Transport, r.Basis.Auth, r.From)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\t"+r.Needs[0].Group+"\t"+r.Needs[1].Group)
	row := func(what string, f func(model.Need) string) {
		fmt.Fprintf(w, "%s\t%s\t%s\n", what, f(r.Needs[0]), f(r.Needs[1]))
	}
	between := func(v model.Range) string { return fmt.Sprintf("%.3f (%.3f–%.3f)", v.Value, v.Low, v.High) }
	row("cores busy with handshakes", func(n model.Need) string { return between(n.HandshakeCores) })
	row("cores busy with requests", func(n model.Need) string { return between(n.RequestCores) })
	row("cores busy in all", func(n model.Need) string { return between(n.Cores) })
	row("  were all handshakes full", func(n model.Need) string { return between(n.AllFull) })
	row("  were all resumed", func(n model.Need) string { return between(n.AllResumed) })
	row("cores to plan for", func(n model.Need) string { return strconv.Itoa(n.Plan) })
	row("Mbit/s up and down", func(n model.Need) string { return fmt.Sprintf("%.1f and %.1f", n.BitsUp/1e6, n.BitsDown/1e6) })
	row("links", func(n model.Need) string { return strconv.Itoa(n.Links) })
	if err := w.Flush(); err != nil {
		return err
	}
	for i, n := range r.Needs {
		fmt.Fprintf(out, "\n%s:\n  %s\n", n.Group, strings.Join(r.Arithmetic[i], "\n  "))
	}
	return nil
}

// Units that sizes and rates are given in, longest names first.
type unit struct {
	name   string
	factor float64
}

var (
	byteUnits = []unit{{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"b", 1}, {"", 1}}
	rateUnits = []unit{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}
)

// parseUnits reads a number with one of the units, in any case.
func parseUnits(s string, units []unit) (float64, error) {
	for _, u := range units {
		number, ok := strings.CutSuffix(strings.ToLower(strings.TrimSpace(s)), u.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, fmt.Errorf("%q is no number with a unit such as %s", s, units[0].name)
		}
		return v * u.factor, nil
	}
	return 0, fmt.Errorf("%q has no unit such as %s", s, units[0].name)
}
