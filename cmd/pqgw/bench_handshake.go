package main

import (
	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/bench/handshakes"
)

func init() { benchCommands = append(benchCommands, newBenchHandshake) }

func newBenchHandshake() *cobra.Command {
	return newBenchOf(handshakes.Bench,
		"Measure handshakes by key exchange group, authentication, transport and kind (full, resumed, after a\n"+
			"HelloRetryRequest, 0-RTT): CPU of server and client apart, bytes and packets each way, round trips, time by\n"+
			"round trip time; beside them the primitives alone, and the sum of parts against the whole.")
}
