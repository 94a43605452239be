package scenario

import (
	"encoding/json"
	"net"
	"testing"
)

// The promise: `pqgw probe` says what a server's key exchange is, and with
// --require-pq exits 5 on a classical one. The servers are OpenSSL 3.5, in node.

type probeFacts struct {
	PQ       bool   `json:"tls_pq"`
	Group    string `json:"tls_group"`
	Version  string `json:"tls_version"`
	HRR      bool   `json:"tls_hrr"`
	Resumed  bool   `json:"tls_resumed"`
	Verified struct {
		Verified bool `json:"verified"`
	} `json:"certificate"`
}

func TestProbeTellsPostQuantumFromClassical(t *testing.T) {
	ca := NewCA(t)
	leaf := ca.Leaf(t, "localhost")
	for _, test := range []struct {
		groups  string
		pq, hrr bool
		exit    int
	}{
		{groups: "X25519MLKEM768", pq: true},
		{groups: "SecP384r1MLKEM1024", pq: true, hrr: true}, // Go sends no share of it at first
		{groups: "X25519", exit: 5},
	} {
		t.Run(test.groups, func(t *testing.T) {
			_, addr := NodeServer(t, "tls-server.mjs", test.groups, leaf.CertFile, leaf.KeyFile)
			p := Pqgw(t, "probe", net.JoinHostPort("localhost", Port(t, addr)), "--ca", ca.File, "--verify", "--require-pq", "--output", "json")
			if code := p.ExitCode(t); code != test.exit {
				t.Errorf("exit code %d, want %d", code, test.exit)
			}
			var facts probeFacts
			if err := json.Unmarshal([]byte(p.Stdout.String()), &facts); err != nil {
				t.Fatalf("probe printed no JSON: %v\n%s", err, p.Stdout.String())
			}
			if facts.Group != test.groups || facts.PQ != test.pq || facts.HRR != test.hrr || facts.Version != "1.3" || !facts.Resumed || !facts.Verified.Verified {
				t.Errorf("probe says %+v, want %+v, version 1.3, resumed, verified", facts, test)
			}
		})
	}
}
