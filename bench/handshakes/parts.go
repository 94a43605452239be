package handshakes

import (
	"crypto/tls"
	"fmt"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/handshake"
)

// part is a primitive in a handshake, so many times.
type part struct {
	Role         string // what it is for
	Scheme, Step string
	Times        float64
}

// Roles of primitives in a handshake.
const (
	roleCurve     = "elliptic curve"
	roleKEM       = "ML-KEM"
	roleSignature = "signature"
	roleSecrets   = "key schedule"
	roleRest      = "rest"
)

// schemes are what a group is made of.
func schemes(group tls.CurveID) (kem, curve string) {
	switch group {
	case tls.X25519MLKEM768:
		return "ML-KEM-768", "X25519"
	case tls.SecP256r1MLKEM768:
		return "ML-KEM-768", "P-256"
	case tls.SecP384r1MLKEM1024:
		return "ML-KEM-1024", "P-384"
	case tls.X25519:
		return "", "X25519"
	}
	return "", "P-256"
}

// hash of the cipher suite that crypto/tls agrees on with itself.
const suiteHash = "SHA-256"

// partsOf lists the primitives of one side of a full handshake.
func partsOf(side string, group tls.CurveID, auth string) []part {
	kem, curve := schemes(group)
	out := []part{{roleCurve, curve, keygen, 1}, {roleCurve, curve, agree, 1}}
	if kem != "" && side == "server" {
		out = append(out, part{roleKEM, kem, encapsulate, 1})
	}
	if kem != "" && side == "client" {
		out = append(out, part{roleKEM, kem, keygen, 1}, part{roleKEM, kem, decapsulate, 1})
	}
	if side == "server" {
		out = append(out, part{roleSignature, auth, sign, 1})
	} else {
		out = append(out, part{roleSignature, auth, verify, 2}) // the certificate and CertificateVerify
	}
	return append(out, part{roleSecrets, suiteHash, derive, 1})
}

// sumOfParts sets the primitives against full handshakes over TCP.
func sumOfParts(s *bench.Session, parts, whole *bench.ExperimentData) {
	d := &bench.ExperimentData{
		Name: "parts", Title: "The sum of parts against the whole: a full handshake, ECDSA P-256, TLS over TCP",
		Note: "“rest” is the whole less its primitives: records, transcript, parsing, system calls, memory and its collection, and the small request.",
		Metrics: []bench.Metric{
			{Name: "cpu", Title: "CPU", Unit: "µs", Kind: bench.CPU},
			{Name: "share", Title: "share of the whole", Unit: "", Kind: bench.CPU},
		},
		Plots: []bench.Plot{
			{Kind: bench.Stack, Title: "Server CPU of a full handshake by primitive (µs)", Metric: "cpu", X: "group", Series: "role", Where: map[string]string{"side": "server"}},
			{Kind: bench.Stack, Title: "Client CPU of a full handshake by primitive (µs)", Metric: "cpu", X: "group", Series: "role", Where: map[string]string{"side": "client"}},
		},
	}
	const auth = authECDSA
	for _, side := range []string{"server", "client"} {
		for _, g := range groups {
			c := whole.Find(task{overTCP, g, auth, full}.labels())
			total, ok := c.Measured(side + "_cpu")
			if !ok {
				continue
			}
			d.Cells = append(d.Cells, partCells(side, g, auth, total.Median, parts)...)
		}
	}
	s.Data().Experiments = append(s.Data().Experiments, d)
}

func partCells(side string, g tls.CurveID, auth string, total float64, parts *bench.ExperimentData) []*bench.Cell {
	var out []*bench.Cell
	name := handshake.GroupName(g)
	add := func(role, what string, cpu float64) {
		out = append(out, &bench.Cell{
			Name:   side + " " + name + " " + what,
			Labels: map[string]string{"side": side, "group": name, "role": role, "part": what},
			Stats:  map[string]bench.Stat{"cpu": {Median: cpu, Low: cpu, High: cpu, N: 1}, "share": {Median: cpu / total, Low: cpu / total, High: cpu / total, N: 1}},
		})
	}
	rest := total
	for _, p := range partsOf(side, g, auth) {
		st, ok := parts.Find(map[string]string{"library": libGo, "scheme": p.Scheme, "step": p.Step}).Measured("cpu")
		if !ok {
			return nil // a sum with a part left out would mislead
		}
		what := p.Scheme + " " + p.Step
		if p.Times > 1 {
			what = fmt.Sprintf("%s × %.0f", what, p.Times)
		}
		add(p.Role, what, p.Times*st.Median)
		rest -= p.Times * st.Median
	}
	add(roleRest, roleRest, rest)
	return out
}

// postQuantumPart tabulates what each hybrid group costs beside X25519, and
// each authentication beside ECDSA P-256, in the same run.
func postQuantumPart(s *bench.Session, whole *bench.ExperimentData) {
	columns := []string{"transport", "authentication", "kind", "group", "server CPU", "client CPU", "bytes to server", "bytes to client"}
	exchange := bench.Table{Title: "What post-quantum key exchange adds to a handshake, beside X25519 (ratio of CPU, with its interval)", Columns: columns}
	proof := bench.Table{Title: "What an authentication adds to a handshake, beside ECDSA P-256, all with X25519MLKEM768", Columns: columns}
	for _, t := range matrix() {
		if base := t; handshake.PQGroup(t.Group) {
			base.Group = tls.X25519
			addBeside(&exchange, whole, t, base)
		}
		if base := t; t.Group == tls.X25519MLKEM768 && t.Auth != authECDSA {
			base.Auth = authECDSA
			addBeside(&proof, whole, t, base)
		}
	}
	s.Table(exchange)
	s.Table(proof)
}

// addBeside adds a row for a task beside another, unless one was not measured.
func addBeside(to *bench.Table, whole *bench.ExperimentData, t, base task) {
	a, b := whole.Find(t.labels()), whole.Find(base.labels())
	if a == nil || b == nil || len(a.Samples) == 0 || len(b.Samples) == 0 {
		return
	}
	to.Rows = append(to.Rows, []string{
		t.Transport, t.Auth, t.Kind, handshake.GroupName(t.Group), ratio(a, b, serverCPU), ratio(a, b, clientCPU),
		more(a, b, "bytes_up"), more(a, b, "bytes_down"),
	})
}

func ratio(a, b *bench.Cell, metric string) string {
	r := bench.Ratio(a.Values(metric), b.Values(metric))
	if r.NotMeasured != "" {
		return r.NotMeasured
	}
	return fmt.Sprintf("%.2f× (%.2f–%.2f)", r.Median, r.Low, r.High)
}

func more(a, b *bench.Cell, metric string) string {
	return fmt.Sprintf("%+.0f", a.Stats[metric].Median-b.Stats[metric].Median)
}
