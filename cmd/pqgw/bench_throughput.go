package main

import (
	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/throughput"
)

func init() { benchCommands = append(benchCommands, newBenchThroughput) }

func newBenchThroughput() *cobra.Command {
	var filter throughput.Filter
	cmd := newBenchOf(throughput.Bench,
		"Measure requests on warm connections by transport, size (0 B to 1 MiB) and direction, directly and through\n"+
			"the gateway: in a closed loop, and at a constant rate with coordinated omission corrected. Server CPU for each\n"+
			"request and gigabyte, allocations and GC cycles, goodput as a share of the link.",
		func() (bench.Bench, error) { return throughput.New(filter), filter.Check() })
	cmd.Flags().StringSliceVar(&filter.Transports, "transport", nil, "measure these alone: h1 clear, h1, h2, h3, zap, zap+tls, zap+quic")
	cmd.Flags().IntSliceVar(&filter.Sizes, "size", nil, "measure bodies of these sizes alone, in bytes")
	return cmd
}
