package main

import (
	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/bench/compare"
)

func init() { benchCommands = append(benchCommands, newBenchCompare) }

func newBenchCompare() *cobra.Command {
	return newBenchOf(compare.Bench,
		"Measure nginx, HAProxy, Caddy and this gateway at the same work in the same run: requests by transport and size,\n"+
			"full and resumed handshakes, and ZAP, which only this one speaks. One process and one CPU each; the gateway's\n"+
			"CPU for each operation. scripts/peers.sh --bench installs the others; nginx and HAProxy need root (chroot).")
}
