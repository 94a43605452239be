package scenario

// Promise: `pqgw probe` and `pqgw zap get` prove an ML-DSA identity to a hop that
// demands one, and print the name that it has proven. A gateway's own can lie in the
// key store.

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProbeAndZapProveAnIdentityToAHop(t *testing.T) {
	tls := certificates(t, "front", "back")
	ids, others := mldsa(t, "caller", "back"), mldsa(t, "caller")
	origin := NewOrigin(t, false, nil)
	tcp, udp := FreeAddr(t), FreeAddr(t)
	hop(t, tcp, concat([]string{"--listen", "zap+tls://" + tcp, "--to", origin.URL, "--peer", "caller"}, pair(tls, "back"), identityFlags(ids, "back", ids))...)
	quic := &Gateway{Dir: shortDir(t)}
	quic.start(t, concat([]string{"hop", "--listen", "zap+quic://" + udp, "--to", origin.URL}, pair(tls, "back"), identityFlags(ids, "back", ids))...)
	good, foreign := identityFlags(ids, "caller", ids), identityFlags(others, "caller", ids)

	var facts struct {
		Peer       string `json:"peer"`
		PQIdentity bool   `json:"pq_identity"`
		ALPN       string `json:"tls_alpn"`
		Resumed    bool   `json:"tls_resumed"`
		Error      *struct{ Reason string }
	}
	probe := func(flags []string, exit int) {
		t.Helper()
		p := Pqgw(t, concat([]string{"probe", tcp, "--output", "json"}, pair(tls, "front"), flags)...)
		if code := p.ExitCode(t); code != exit {
			t.Errorf("probe exits %d, want %d", code, exit)
		}
		facts.Error = nil
		if err := json.Unmarshal([]byte(p.Stdout.String()), &facts); err != nil {
			t.Fatalf("%v\n%s", err, p.Stdout.String())
		}
	}
	probe(good, 0)
	if facts.Peer != "back" || !facts.PQIdentity || facts.ALPN != "zap-http/1" || !facts.Resumed {
		t.Errorf("%+v", facts)
	}
	probe(foreign, 1)
	if facts.Error == nil || facts.Error.Reason != "identity_rejected" {
		t.Errorf("%+v", facts.Error)
	}
	p := Pqgw(t, concat([]string{"probe", tcp}, pair(tls, "front"), good)...)
	if code := p.ExitCode(t); code != 0 {
		t.Errorf("exit %d", code)
	}
	if fields := strings.Fields(p.Stdout.String()); !strings.Contains(strings.Join(fields, " "), "peer back pq_identity true") {
		t.Errorf("probe prints\n%s", p.Stdout.String())
	}

	for _, url := range []string{"zap+tls://" + tcp + "/x", "zap+quic://" + udp + "/x"} {
		Await(t, "an answer by "+url, func() bool { // QUIC tells nobody when it listens
			p = Pqgw(t, concat([]string{"zap", "get", url, "-v", "--fail"}, pair(tls, "front"), good)...)
			return p.ExitCode(t) == 0
		})
		if said := p.Stderr.String(); !strings.Contains(said, "verified peer back, pq_identity: true") {
			t.Errorf("%s: zap get says\n%s", url, said)
		}
		p = Pqgw(t, concat([]string{"zap", "get", url}, pair(tls, "front"), foreign)...)
		if code := p.ExitCode(t); code != 1 {
			t.Errorf("%s: a foreign identity exits %d", url, code)
		}
	}
	for _, args := range [][]string{{"probe", tcp}, {"zap", "get", "zap+tls://" + tcp}, {"zap", "get", "zap://" + tcp}} {
		flags := good[:2]
		if args[len(args)-1] == "zap://"+tcp {
			flags = good
		}
		if code := Pqgw(t, concat(args, flags)...).ExitCode(t); code != 2 {
			t.Errorf("%v with %v exits %d, want 2", args, flags, code)
		}
	}
}

func TestAnIdentityOfTheStoreIsProvenByAGateway(t *testing.T) {
	tls := certificates(t, "front", "back")
	ids := mldsa(t, "caller", "back")
	store := NewStore(t)
	key, err := os.ReadFile(filepath.Join(ids, "back-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	store.KMS(t, string(key), "put", "hop-id", "--kind", "ml-dsa", "--public", filepath.Join(ids, "back.pem"))
	addr := FreeAddr(t)
	g := Run(t, fmt.Sprintf(`version: 1
%s
tls:
  mesh: {certificates: {files: {cert: %q, key: %q}}, client_ca: %q, pq: require, identity: {store: hop-id, ca: %q}}
listeners: [{name: hop, address: %q, protocols: [zap], tls: mesh}]
routes: [{to: trace}]
`, store.YAML(), filepath.Join(tls, "back.pem"), filepath.Join(tls, "back-key.pem"), filepath.Join(tls, "ca.pem"), filepath.Join(ids, "ca.pem"), addr))
	p := Pqgw(t, concat([]string{"zap", "get", "zap+tls://" + addr + "/", "-v", "--fail"}, pair(tls, "front"), identityFlags(ids, "caller", ids))...)
	if code := p.ExitCode(t); code != 0 {
		t.Errorf("exit %d\n%s", code, g.Stderr.String())
	}
	if said := p.Stderr.String(); !strings.Contains(said, "verified peer back, pq_identity: true") {
		t.Errorf("zap get says\n%s", said)
	}
	if audit := store.KMS(t, "", "audit"); !strings.Contains(audit, `"op":"sign","name":"hop-id"`) {
		t.Errorf("the audit does not tell of the proof:\n%s", audit)
	}
}
