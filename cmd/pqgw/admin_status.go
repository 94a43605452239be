package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hanzoai/pqgw/telemetry"
)

// expiresSoon is when an end of validity is pointed out.
const expiresSoon = 14 * 24 * time.Hour

// printStatus writes a status as tables for people.
func printStatus(w io.Writer, s *telemetry.Status, now time.Time) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "pqgw %s (%s) is %s, up %s\n", s.Version, s.Go, s.State, time.Duration(s.UptimeSeconds)*time.Second)
	c := &s.Configuration
	fmt.Fprintf(&b, "configuration %s: version %d, hash %s, loaded %s\n", orDash(c.Path), c.Version, shortHash(c.Hash), c.LoadedAt.Local().Format(time.DateTime))
	if c.LastError != "" {
		fmt.Fprintf(&b, "the last reload was refused:\n%s\n", c.LastError)
	}
	for _, warning := range s.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	printListeners(&b, s.Listeners)
	printUpstreams(&b, s.Upstreams)
	printCertificates(&b, s.Certificates, now)
	_, err := w.Write(b.Bytes())
	return err
}

// table writes rows under their heads, columns aligned; without rows, nothing.
func table(b *bytes.Buffer, heads []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{heads}, rows...) {
		fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	_ = t.Flush() // a buffer takes everything
}

func printListeners(b *bytes.Buffer, listeners []telemetry.ListenerStatus) {
	var rows [][]string
	for i := range listeners {
		l := &listeners[i]
		rows = append(rows, []string{
			l.Name, l.Address, strings.Join(l.Protocols, ","), orDash(l.PQ), fmt.Sprint(l.Connections),
			exposure(l.Exposure), orDash(strings.Join(l.Groups, ",")),
		})
	}
	table(b, []string{"LISTENER", "ADDRESS", "PROTOCOLS", "PQ", "OPEN", "PQ/CLASSICAL/CLEAR", "GROUPS"}, rows)
}

func exposure(e telemetry.Exposure) string {
	return fmt.Sprintf("%d/%d/%d", e.PostQuantum, e.Classical, e.Clear)
}

func printUpstreams(b *bytes.Buffer, upstreams []telemetry.UpstreamStatus) {
	var rows [][]string
	for i := range upstreams {
		u := &upstreams[i]
		for j := range u.Endpoints {
			e := &u.Endpoints[j]
			rows = append(rows, []string{
				u.Name, e.Address, e.State, orDash(u.PQ), orDash(e.TLSGroup), fmt.Sprint(e.InFlight),
				fmt.Sprintf("%d/%d", e.Active, e.Idle), fmt.Sprint(e.Requests), fmt.Sprint(e.Failures),
			})
		}
	}
	table(b, []string{"UPSTREAM", "ENDPOINT", "STATE", "PQ", "GROUP", "IN FLIGHT", "ACTIVE/IDLE", "REQUESTS", "FAILURES"}, rows)
}

func printCertificates(b *bytes.Buffer, certificates []telemetry.CertificateStatus, now time.Time) {
	var rows [][]string
	for i := range certificates {
		c := &certificates[i]
		note := c.Error
		if left := c.NotAfter.Sub(now); note == "" && left <= 0 {
			note = "expired"
		} else if note == "" && left < expiresSoon {
			note = "expires soon"
		}
		rows = append(rows, []string{
			c.Name, c.Source, orDash(strings.Join(c.Hosts, ",")), orDash(c.KeyType), c.NotAfter.Local().Format(time.DateTime), note,
		})
	}
	table(b, []string{"CERTIFICATE", "SOURCE", "HOSTS", "KEY", "VALID UNTIL", "NOTE"}, rows)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// shortHash is as much of a hash as tells two configurations apart.
func shortHash(h string) string { return orDash(h[:min(len(h), 12)]) }
