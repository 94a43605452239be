package main

import (
	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/bench/calls"
)

func init() { benchCommands = append(benchCommands, newBenchCalls) }

func newBenchCalls() *cobra.Command {
	return newBenchOf(calls.Bench,
		"Measure typed calls end to end: a ZAP record over ZAP against JSON over HTTP/1.1 by each JSON library, served by\n"+
			"our own transport and by fasthttp, in the clear and over TLS. CPU of the server for each call.")
}
