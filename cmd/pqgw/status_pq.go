package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/telemetry"
)

func newStatusPQ() *cobra.Command {
	var c adminClient
	cmd := &cobra.Command{
		Use:   "pq",
		Short: "Show what went over classical key exchange in the last hour and day, and which clients those were",
		Long: `Show what went over classical key exchange in the last hour and day: what is recorded of it can be
read once there is a quantum computer. For each listener and server name it tells the kinds of clients by
their JA4 fingerprint, connections and bytes of bodies; the 256 busiest of a listener apart, the rest in one.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var reports []telemetry.PQReport
			body, err := c.call(cmd, http.MethodGet, "/status/pq", &reports)
			if err != nil {
				return err
			}
			return c.print(cmd, body, func(w io.Writer) error { return printPQ(w, reports) })
		},
	}
	c.flags(cmd)
	return cmd
}

// printPQ writes the reports as tables for people.
func printPQ(w io.Writer, reports []telemetry.PQReport) error {
	var b bytes.Buffer
	if len(reports) == 0 {
		b.WriteString("no TLS connections within a day\n")
	}
	var rows [][]string
	for _, r := range reports {
		fmt.Fprintf(&b, "%s: %d of %d TLS connections were classical in the last hour, %d of %d in the last day\n",
			r.Listener, r.Hour.Connections, r.TLSHour, r.Day.Connections, r.TLSDay)
		for _, p := range r.Clients {
			sni, ja4 := orDash(p.SNI), orDash(p.JA4)
			if p.Rest {
				sni, ja4 = "(the rest)", "-"
			}
			rows = append(rows, []string{
				r.Listener, sni, ja4, fmt.Sprint(p.Hour.Connections), fmt.Sprint(p.Hour.Bytes),
				fmt.Sprint(p.Day.Connections), fmt.Sprint(p.Day.Bytes), p.LastSeen.Local().Format(time.DateTime),
			})
		}
	}
	table(&b, []string{"LISTENER", "SNI", "JA4", "HOUR", "BYTES", "DAY", "BYTES", "LAST SEEN"}, rows)
	_, err := w.Write(b.Bytes())
	return err
}
