package scenario

// Promise: hops with --identity-… prove who they are by ML-DSA certificates as well:
// the service learns the name that was proven, the log says so, and whoever has no
// identity, an expired one or one of another authority is refused with a typed reason.

import (
	"io"
	"net/http"
	"path/filepath"
	"testing"
)

// mldsa makes an authority for identities and pairs by the commands that the hop's help names.
func mldsa(t *testing.T, names ...string) string {
	t.Helper()
	dir := filepath.Join(shortDir(t), "ids")
	if code := Pqgw(t, "cert", "ca", dir, "--alg", "ml-dsa-65").ExitCode(t); code != 0 {
		t.Fatalf("cert ca exits %d", code)
	}
	for _, n := range names {
		if code := Pqgw(t, "cert", "issue", dir, "--name", n, "--alg", "ml-dsa-65").ExitCode(t); code != 0 {
			t.Fatalf("cert issue exits %d", code)
		}
	}
	return dir
}

func identityFlags(dir, name, ca string) []string {
	return []string{
		"--identity-cert", filepath.Join(dir, name+".pem"), "--identity-key", filepath.Join(dir, name+"-key.pem"),
		"--identity-ca", filepath.Join(ca, "ca.pem"),
	}
}

func concat(parts ...[]string) (all []string) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// through sends one request by the hop at addr.
func through(t *testing.T, addr string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/v1/x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestHopsProveTheirPostQuantumIdentities(t *testing.T) {
	tls := certificates(t, "front", "back")
	ids, others := mldsa(t, "caller", "back"), mldsa(t, "caller")
	for _, scheme := range []string{"zap+tls", "zap+quic"} {
		t.Run(scheme, func(t *testing.T) { proveIdentities(t, scheme, tls, ids, others) })
	}
}

func proveIdentities(t *testing.T, scheme, tls, ids, others string) {
	t.Helper()
	origin := NewOrigin(t, false, nil)
	inner := FreeAddr(t)
	back := hop(t, inner, concat([]string{"--listen", "zap+tls://" + inner, "--to", origin.URL, "--peer", "caller"},
		pair(tls, "back"), identityFlags(ids, "back", ids))...)
	front := func(extra ...string) (addr string, g *Gateway) {
		addr = FreeAddr(t)
		return addr, hop(t, addr, concat([]string{"--listen", "http://" + addr, "--to", "zap+tls://" + inner}, pair(tls, "front"), extra)...)
	}

	good, _ := front(identityFlags(ids, "caller", ids)...)
	if code := through(t, good); code != http.StatusOK {
		t.Fatalf("status %d\n%s", code, back.Stderr.String())
	}
	if got := origin.Last(t).Header.Get("X-Peer-Identity"); got != "caller" {
		t.Errorf("X-Peer-Identity is %q at the service", got)
	}
	line := back.AwaitAccess(t, "the request at the second hop", func(a Access) bool { return a.Status == http.StatusOK })
	if line.Peer != "caller" || !line.PQIdentity || line.TLSALPN != "zap-http/1" {
		t.Errorf("access line %+v", line)
	}
	served := len(origin.Requests())

	for name, c := range map[string]struct {
		flags      []string
		back, here string
	}{
		"none":                     {nil, "identity_missing", "no_shared_alpn"},
		"one of another authority": {identityFlags(others, "caller", ids), "identity_unknown", "identity_rejected"},
	} {
		addr, g := front(c.flags...)
		if code := through(t, addr); code != http.StatusBadGateway && code != http.StatusServiceUnavailable {
			t.Errorf("a hop with %s gets %d", name, code)
		}
		back.Stdout.AwaitText(t, `"error":"`+c.back+`"`)
		g.Stdout.AwaitText(t, c.here)
	}
	if n := len(origin.Requests()); n != served {
		t.Errorf("%d requests more reached the service", n-served)
	}
}

func TestHalfAnIdentityIsAUsageError(t *testing.T) {
	p := Pqgw(t, concat([]string{"hop", "--listen", "zap+tls://127.0.0.1:0", "--to", "http://127.0.0.1:1"}, pair("x", "y"), []string{"--identity-cert", "a.pem"})...)
	if code := p.ExitCode(t); code != 2 {
		t.Errorf("exit %d, want 2", code)
	}
	p.Stderr.AwaitText(t, "--identity-cert, --identity-key and --identity-ca")
}
