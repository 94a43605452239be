package main

import (
	"github.com/hanzoai/pqgw/handshake"
)

// scanReport is what probe --scan prints besides.
type scanReport struct {
	Groups     []scanCheck    `json:"groups"`
	Versions   []scanCheck    `json:"versions"`
	Hellos     []scanCheck    `json:"hellos"`
	ECH        scanECH        `json:"ech"`
	Classical  bool           `json:"classical_possible"`
	Weaknesses []scanWeakness `json:"weaknesses"`
}

// scanCheck is one thing that was tried.
type scanCheck struct {
	Name     string  `json:"name"`
	Accepted bool    `json:"accepted"`
	PQ       bool    `json:"tls_pq"`
	HRR      bool    `json:"tls_hrr"`
	MS       float64 `json:"ms,omitempty"`
	Reason   string  `json:"reason,omitempty"`
}

// scanECH is what the server does with encrypted hellos.
type scanECH struct {
	Supported    bool   `json:"supported"`
	Given        string `json:"given,omitempty"` // outcome with --ech-config
	Stale        string `json:"stale"`           // outcome with a key that the server cannot have
	Reason       string `json:"reason,omitempty"`
	PublicName   string `json:"public_name,omitempty"`
	RetryConfigs []byte `json:"retry_config_list,omitempty"`
	Retried      string `json:"retried,omitempty"` // outcome with what the server gave
}

func newScanECH(c *handshake.ECHCheck) scanECH {
	return scanECH{
		Supported: c.Supported(), Given: string(c.Given), Stale: string(c.Stale), Reason: string(c.Reason),
		PublicName: c.PublicName, RetryConfigs: c.RetryConfigs, Retried: string(c.Retried),
	}
}

// lines are the encrypted hellos as names and values.
func (e scanECH) lines() [][2]string {
	var lines [][2]string
	if e.Given != "" {
		lines = append(lines, [2]string{"encrypted hello as published", echOutcome(e.Given, e.Reason)})
	}
	stale := echOutcome(e.Stale, e.Reason)
	if e.RetryConfigs != nil {
		stale += " (public name " + e.PublicName + "), which is " + e.Retried
	}
	return append(lines, [2]string{"encrypted hello by an unknown key", stale})
}

func echOutcome(outcome, reason string) string {
	switch handshake.ECHOutcome(outcome) {
	case handshake.ECHAccepted:
		return "accepted"
	case handshake.ECHRetry:
		return "answered with another configuration"
	case handshake.ECHIgnored:
		return "ignored: the server has no keys"
	}
	return "no connection (" + reason + ")"
}

// scanWeakness is something to change at the server.
type scanWeakness struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// addScan adds what a scan found; nil adds nothing.
func (p *probeReport) addScan(s *handshake.ScanResult) {
	if s == nil {
		return
	}
	r := &scanReport{
		Groups: scanChecks(s.Groups), Versions: scanChecks(s.Versions), Hellos: scanChecks(s.Hellos), ECH: newScanECH(&s.ECH),
		Classical: s.Classical(), Weaknesses: []scanWeakness{},
	}
	for _, w := range s.Weaknesses {
		r.Weaknesses = append(r.Weaknesses, scanWeakness{Name: w.Name, Text: w.Text})
	}
	p.Scan = r
}

func scanChecks(checks []handshake.Check) []scanCheck {
	out := make([]scanCheck, len(checks))
	for i := range checks {
		c := &checks[i]
		out[i] = scanCheck{
			Name: c.Name, Accepted: c.Passed, PQ: c.Facts.PQ(), HRR: c.Facts.HRR, MS: milliseconds(c.Time), Reason: string(c.Reason),
		}
	}
	return out
}

// lines are the scan as names and values.
func (s *scanReport) lines() [][2]string {
	var lines [][2]string
	for _, part := range []struct {
		title  string
		checks []scanCheck
	}{{"group ", s.Groups}, {"TLS ", s.Versions}, {"", s.Hellos}} {
		for _, c := range part.checks {
			lines = append(lines, [2]string{part.title + c.Name, c.outcome()})
		}
	}
	lines = append(lines, s.ECH.lines()...)
	for _, w := range s.Weaknesses {
		lines = append(lines, [2]string{"weakness " + w.Name, w.Text})
	}
	return lines
}

func (c scanCheck) outcome() string {
	switch {
	case !c.Accepted:
		return "no (" + c.Reason + ")"
	case c.PQ:
		return "yes, post-quantum"
	}
	return "yes, classical"
}
