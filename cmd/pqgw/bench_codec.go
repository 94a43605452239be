package main

import (
	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/bench/codecs"
)

func init() { benchCommands = append(benchCommands, newBenchCodec) }

func newBenchCodec() *cobra.Command {
	return newBenchOf(codecs.Bench,
		"Measure the ZAP codec against JSON libraries on one record, encoded and decoded, request and answer.\n"+
			"JSON is held to its fastest library.")
}
