package main

import (
	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/bench/lifetime"
	_ "github.com/hanzoai/pqgw/internal/benchgateway" // the gateway as a process of a bench
)

func init() { benchCommands = append(benchCommands, newBenchLifetime) }

func newBenchLifetime() *cobra.Command {
	return newBenchOf(lifetime.Bench,
		"Measure connections by the number of requests made on them, 1 to 10,000, with a classical and a hybrid\n"+
			"group: how the handshake's bill is spread, and after how many requests and bytes its post-quantum part\n"+
			"is below 10 %, 1 % and 0.1 % of the whole.")
}
