package main

import (
	"github.com/hanzoai/pqgw/handshake"
)

// scanReport is what probe --scan prints besides.
type scanReport struct {
	Groups     []scanCheck    `json:"groups"`
	Versions   []scanCheck    `json:"versions"`
	Hellos     []scanCheck    `json:"hellos"`
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
		Groups: scanChecks(s.Groups), Versions: scanChecks(s.Versions), Hellos: scanChecks(s.Hellos),
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
