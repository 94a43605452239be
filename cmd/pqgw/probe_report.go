package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hanzoai/pqgw/handshake"
)

// probeReport is what probe prints. Its fields are named as in the access log.
type probeReport struct {
	Address     string          `json:"address"`
	RemoteAddr  string          `json:"remote_addr,omitempty"`
	ServerName  string          `json:"server_name,omitempty"`
	PQ          bool            `json:"tls_pq"`
	Group       string          `json:"tls_group,omitempty"`
	Version     string          `json:"tls_version,omitempty"`
	Cipher      string          `json:"tls_cipher,omitempty"`
	ALPN        string          `json:"tls_alpn,omitempty"`
	HRR         bool            `json:"tls_hrr"`
	Ticket      bool            `json:"tls_ticket"`
	Resumed     bool            `json:"tls_resumed"`
	ConnectMS   float64         `json:"connect_ms"`
	Handshake   *probeCost      `json:"handshake,omitempty"`
	Resumption  *probeCost      `json:"resumption,omitempty"`
	Peer        string          `json:"peer,omitempty"` // the identity that was proven
	PQIdentity  bool            `json:"pq_identity"`
	Certificate *probeCert      `json:"certificate,omitempty"`
	Scan        *scanReport     `json:"scan,omitempty"`
	Error       *probeErrReport `json:"error,omitempty"`
}

// probeCost is what a handshake cost.
type probeCost struct {
	MS       float64 `json:"ms"`
	Sent     int64   `json:"bytes_sent"`
	Received int64   `json:"bytes_received"`
	Group    string  `json:"tls_group"`
}

// probeCert is the server's certificate.
type probeCert struct {
	Subject     string    `json:"subject"`
	Names       []string  `json:"names"`
	Issuer      string    `json:"issuer"`
	NotAfter    time.Time `json:"not_after"`
	Key         string    `json:"key"`
	Signature   string    `json:"signature"`
	ChainLength int       `json:"chain_length"`
	Verified    *bool     `json:"verified,omitempty"` // absent where it was not looked at
	VerifyError string    `json:"verify_error,omitempty"`
}

// probeErrReport is why there is no connection.
type probeErrReport struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// newProbeReport gathers what there is to say; r is nil where nothing was seen.
func newProbeReport(address string, r *handshake.ProbeResult, err error) *probeReport {
	p := &probeReport{Address: address}
	if r != nil {
		p.RemoteAddr, p.ServerName = r.RemoteAddr, r.ServerName
		f := r.First.Facts
		p.PQ, p.Group, p.Version, p.Cipher, p.ALPN, p.HRR = f.PQ(), f.GroupName(), f.VersionName(), f.CipherName(), f.ALPN, f.HRR
		if f.PQIdentity {
			p.Peer, p.PQIdentity = f.PeerName, true
		}
		p.ConnectMS, p.Handshake = milliseconds(r.First.Connect), newProbeCost(&r.First)
		p.Ticket, p.Resumed = r.Ticket, r.Second.Facts.Resumed
		if r.Second.Facts.TLS() {
			p.Resumption = newProbeCost(&r.Second)
		}
		p.Certificate = newProbeCert(r)
		if r.Refused != nil {
			err = r.Refused
		}
	}
	var refused *handshake.RefusedError
	switch {
	case errors.As(err, &refused):
		p.Error = &probeErrReport{Reason: string(refused.Reason), Message: refused.Error(), Hint: probeHint(refused)}
	case err != nil:
		p.Error = &probeErrReport{Reason: "settings", Message: err.Error()}
	}
	return p
}

func newProbeCost(m *handshake.Measured) *probeCost {
	return &probeCost{MS: milliseconds(m.Time), Sent: m.Sent, Received: m.Received, Group: m.Facts.GroupName()}
}

func newProbeCert(r *handshake.ProbeResult) *probeCert {
	if len(r.Chain) == 0 {
		return nil
	}
	leaf := r.Chain[0]
	info := handshake.InfoOf(leaf, "", "")
	c := &probeCert{
		Subject: leaf.Subject.String(), Names: info.Names, Issuer: info.Issuer, NotAfter: info.NotAfter,
		Key: info.Key, Signature: leaf.SignatureAlgorithm.String(), ChainLength: len(r.Chain),
	}
	if r.Verified || r.VerifyErr != nil {
		c.Verified = &r.Verified
	}
	if r.VerifyErr != nil {
		c.VerifyError = r.VerifyErr.Error()
	}
	return c
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// print writes the report; as text nothing for a server that was not reached,
// since the error says it all.
func (p *probeReport) print(w io.Writer, output string) error {
	if output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(p)
	}
	if p.Handshake == nil {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range p.lines() {
		fmt.Fprintf(t, "%s\t%s\n", line[0], line[1])
	}
	return t.Flush()
}

// lines are the report as names and values.
func (p *probeReport) lines() [][2]string {
	lines := [][2]string{
		{"server", p.Address + " (" + p.RemoteAddr + ", asked for " + p.ServerName + ")"},
		{"post-quantum", yesNo(p.PQ)},
		{"group", p.Group},
		{"version", "TLS " + p.Version},
		{"cipher", p.Cipher},
		{"hello retry request", yesNo(p.HRR)},
		{"resumption", p.resumption()},
		{"alpn", orNone(p.ALPN)},
		{"handshake", p.Handshake.String() + fmt.Sprintf(", after %.3f ms to connect", p.ConnectMS)},
	}
	if p.PQIdentity {
		lines = append(lines, [2]string{"peer", p.Peer}, [2]string{"pq_identity", "true"})
	}
	if c := p.Certificate; c != nil {
		lines = append(lines,
			[2]string{"subject", orNone(c.Subject)},
			[2]string{"names", orNone(strings.Join(c.Names, ", "))},
			[2]string{"issuer", orNone(c.Issuer)},
			[2]string{"not after", c.NotAfter.UTC().Format(time.RFC3339)},
			[2]string{"key", c.Key + ", signed with " + c.Signature},
			[2]string{"verified", c.verified()},
		)
	}
	if p.Scan != nil {
		lines = append(lines, p.Scan.lines()...)
	}
	return lines
}

func (p *probeReport) resumption() string {
	switch {
	case p.Resumed:
		return "yes, " + p.Resumption.String() + ", group " + p.Resumption.Group
	case p.Resumption != nil:
		return "no: the ticket was not accepted"
	case p.Ticket:
		return "unknown: the second connection failed"
	}
	return "no: no ticket was given"
}

// String is the cost in words.
func (c *probeCost) String() string {
	return fmt.Sprintf("%.3f ms, %d bytes sent, %d received", c.MS, c.Sent, c.Received)
}

func (c *probeCert) verified() string {
	switch {
	case c.Verified == nil:
		return "not looked at"
	case *c.Verified:
		return "yes"
	}
	return "no: " + c.VerifyError
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
