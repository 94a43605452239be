package main

import (
	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/bench/layers"
)

func init() { benchCommands = append(benchCommands, newBenchLayers) }

func newBenchLayers() *cobra.Command {
	return newBenchOf(layers.Bench,
		"Measure the same request served by one layer more each time: a socket that echoes, frames, the codec, TLS, the\n"+
			"transport with its checks, routing and policies, an upstream. Tells the CPU and the median time that each adds,\n"+
			"and what the parts measured apart do not explain.")
}
