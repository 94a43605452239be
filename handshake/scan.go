package handshake

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"
)

// Check is one thing that a scan tried.
type Check struct {
	Name   string // "X25519", "1.2", "hello in two records", …
	Passed bool
	Facts  Facts         // of the connection, if one was made
	Time   time.Duration // of the handshake
	Reason Reason        // why there was no connection
}

// Weakness is something that an operator of the server may want to change.
type Weakness struct {
	Name string // short and stable: "no_pq_group", …
	Text string
}

// ScanResult is what a server takes and what it does not.
type ScanResult struct {
	Probe      *ProbeResult
	Groups     []Check // each key exchange group alone
	Versions   []Check // each TLS version alone
	Hellos     []Check // a long hello in unusual pieces
	ECH        ECHCheck
	Weaknesses []Weakness
}

// Classical reports whether some connection was made, or could have been,
// that is not post-quantum.
func (s *ScanResult) Classical() bool {
	for _, list := range [][]Check{s.Groups, s.Versions} {
		for i := range list {
			if list[i].Passed && !list[i].Facts.PQ() {
				return true
			}
		}
	}
	return false
}

// Scan probes a server, and then tries each group, each version, long hellos in
// pieces, and encrypted hellos, one connection after the other. The error is that of the
// first probe.
func Scan(ctx context.Context, o ProbeOptions) (*ScanResult, error) {
	first, err := Probe(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &ScanResult{Probe: first}
	for _, g := range known {
		s.Groups = append(s.Groups, o.try(ctx, GroupName(g), nil, func(c *tls.Config) {
			c.MinVersion, c.CurvePreferences = tls.VersionTLS12, []tls.CurveID{g}
		}))
	}
	for _, v := range []uint16{tls.VersionTLS13, tls.VersionTLS12, tls.VersionTLS11, tls.VersionTLS10} {
		s.Versions = append(s.Versions, o.try(ctx, VersionName(v), nil, func(c *tls.Config) {
			c.MinVersion, c.MaxVersion, c.CipherSuites = v, v, everySuite()
		}))
	}
	for _, p := range pieces {
		s.Hellos = append(s.Hellos, o.try(ctx, p.name, p.cut, func(*tls.Config) {}))
	}
	s.ECH = o.checkECH(ctx, first.ServerName)
	s.Weaknesses = s.judge()
	return s, nil
}

// everySuite lists the suites of old as well: what a server takes is to be found out.
func everySuite() []uint16 {
	var ids []uint16
	for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		ids = append(ids, s.ID)
	}
	return ids
}

// try makes one connection.
func (o ProbeOptions) try(ctx context.Context, name string, cut cutter, change func(*tls.Config)) Check {
	check, _ := o.connection(ctx, name, cut, change)
	return check
}

// connection is try that tells the error, too.
func (o ProbeOptions) connection(ctx context.Context, name string, cut cutter, change func(*tls.Config)) (check Check, err error) {
	check.Name = name
	client, err := NewClient(ClientSettings{
		MinVersion: tls.VersionTLS12, NextProtos: o.NextProtos, ServerName: o.ServerName, Certificate: o.Certificate, Insecure: true, Sessions: -1,
	})
	if err != nil {
		check.Reason = Internal
		return check, err
	}
	change(client.base)
	p := prober{options: o, client: client, cut: cut}
	if p.options.Timeout <= 0 {
		p.options.Timeout = probeTimeout
	}
	conn, m, err := p.connect(ctx)
	if err != nil {
		check.Reason = client.Refuse(err).Reason
		return check, err
	}
	_ = conn.Close()
	check.Passed, check.Facts, check.Time = true, m.Facts, m.Time
	return check, nil
}

// cutter is a way to send the first flight of bytes.
type cutter func(w net.Conn, hello []byte) error

// segmentPause keeps two parts of a hello from arriving as one.
const segmentPause = 30 * time.Millisecond

// pieces are ways to send a long hello that servers and middleboxes have
// failed on (tldr.fail).
var pieces = []struct {
	name string
	cut  cutter
}{
	{"hello in two segments", func(w net.Conn, hello []byte) error {
		if _, err := w.Write(hello[:len(hello)/2]); err != nil {
			return err
		}
		time.Sleep(segmentPause)
		_, err := w.Write(hello[len(hello)/2:])
		return err
	}},
	{"hello in two records", func(w net.Conn, hello []byte) error {
		const header = 5
		body := hello[header:]
		var out []byte
		for _, part := range [][]byte{body[:len(body)/2], body[len(body)/2:]} {
			out = append(append(out, hello[0], hello[1], hello[2], byte(len(part)>>8), byte(len(part))), part...)
		}
		_, err := w.Write(out)
		return err
	}},
}

// judge names the weaknesses.
func (s *ScanResult) judge() []Weakness {
	var found []Weakness
	add := func(name, format string, args ...any) {
		found = append(found, Weakness{Name: name, Text: fmt.Sprintf(format, args...)})
	}
	pq, classical := s.accepted(true), s.accepted(false)
	switch {
	case len(pq) == 0:
		add("no_pq_group", "no post-quantum group is accepted: what is recorded today can be decrypted later")
	case !s.Groups[0].Passed:
		add("no_"+s.Groups[0].Name, "%s, the one that browsers have, is not accepted", s.Groups[0].Name)
	}
	if len(pq) > 0 && len(classical) > 0 {
		add("classical_group", "clients without a post-quantum group are let in with %s", strings.Join(classical, ", "))
	}
	for i := range s.Versions {
		switch v := &s.Versions[i]; {
		case v.Passed && v.Name == "1.2":
			add("tls_1.2", "TLS 1.2 is accepted; it is never post-quantum")
		case v.Passed && v.Name != "1.3":
			add("tls_"+v.Name, "TLS %s is accepted; it is deprecated (RFC 8996)", v.Name)
		case !v.Passed && v.Name == "1.3":
			add("no_tls_1.3", "TLS 1.3 is not accepted (%s)", v.Reason)
		}
	}
	for i := range s.Hellos {
		if h := &s.Hellos[i]; !h.Passed {
			add("split_hello", "a %s fails (%s): clients with post-quantum groups send such", h.Name, h.Reason)
		}
	}
	if s.Probe.First.Facts.HRR {
		add("hello_retry", "a usual client needs a HelloRetryRequest: one more round trip")
	}
	if !s.Probe.Second.Facts.Resumed {
		add("no_resumption", "sessions are not resumed: every connection costs a full handshake")
	}
	found = append(found, s.echWeaknesses()...)
	return append(found, s.Probe.certificateWeaknesses(time.Now())...)
}

// accepted are the groups that were accepted, of one kind.
func (s *ScanResult) accepted(pq bool) []string {
	var names []string
	for i := range s.Groups {
		if g := &s.Groups[i]; g.Passed && PQGroup(g.Facts.Group) == pq {
			names = append(names, g.Name)
		}
	}
	return names
}

// expirySoon is when a certificate that renews itself would have been renewed.
const expirySoon = 14 * 24 * time.Hour

func (r *ProbeResult) certificateWeaknesses(now time.Time) []Weakness {
	if len(r.Chain) == 0 {
		return nil
	}
	var found []Weakness
	leaf := r.Chain[0]
	if r.VerifyErr != nil {
		found = append(found, Weakness{"certificate", "the certificate does not verify: " + r.VerifyErr.Error()})
	}
	if left := leaf.NotAfter.Sub(now); left > 0 && left < expirySoon {
		found = append(found, Weakness{"certificate_expiry", fmt.Sprintf("the certificate expires in %d days", int(left.Hours()/24))})
	}
	switch k := leaf.PublicKey.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < 2048 {
			found = append(found, Weakness{"certificate_key", KeyName(k) + " is too short"})
		}
	case *ecdsa.PublicKey:
		if k.Curve.Params().BitSize < 256 {
			found = append(found, Weakness{"certificate_key", KeyName(k) + " is too short"})
		}
	}
	return found
}
