package scenario

// Promise: two hops carry plain HTTP between a client and a service as ZAP over
// post-quantum, mutually authenticated TLS; whoever has no certificate is not let
// in, and the service learns who called.

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// hop starts `pqgw hop` and waits until it accepts at addr.
func hop(t *testing.T, addr string, args ...string) *Gateway {
	t.Helper()
	g := &Gateway{Dir: shortDir(t)}
	g.start(t, append([]string{"hop"}, args...)...)
	Await(t, "the hop to accept connections", func() bool {
		g.mustRun(t)
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	})
	return g
}

// certificates makes a CA and pairs by the commands that the hop's help names.
func certificates(t *testing.T, names ...string) string {
	t.Helper()
	dir := filepath.Join(shortDir(t), "pki")
	if code := Pqgw(t, "cert", "ca", dir).ExitCode(t); code != 0 {
		t.Fatalf("cert ca exits %d", code)
	}
	for _, n := range names {
		if code := Pqgw(t, "cert", "issue", dir, "--name", n).ExitCode(t); code != 0 {
			t.Fatalf("cert issue exits %d", code)
		}
	}
	return dir
}

func pair(dir, name string) []string {
	return []string{"--cert", filepath.Join(dir, name+".pem"), "--key", filepath.Join(dir, name+"-key.pem"), "--ca", filepath.Join(dir, "ca.pem")}
}

func TestTwoHopsCarryARequestWithItsIdAndTheCallersIdentity(t *testing.T) {
	dir := certificates(t, "front", "back")
	origin := NewOrigin(t, false, nil)
	for _, scheme := range []string{"zap+tls", "zap+quic"} {
		t.Run(scheme, func(t *testing.T) {
			outer, inner := FreeAddr(t), FreeAddr(t)
			back := hop(t, inner, append([]string{"--listen", scheme + "://" + inner, "--to", origin.URL, "--peer", "front"}, pair(dir, "back")...)...)
			hop(t, outer, append([]string{"--listen", "http://" + outer, "--to", scheme + "://" + inner}, pair(dir, "front")...)...)

			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+outer+"/v1/x?y=z", strings.NewReader("hello"))
			req.Header.Set("X-Request-Id", "req-12345678")
			req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			req.Header.Set("X-Peer-Identity", "forged")
			req.Header.Set("X-PQ", "0")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("status %d\n%s", resp.StatusCode, back.Stderr.String())
			}
			seen := origin.Last(t)
			for name, want := range map[string]string{
				"X-Request-Id": "req-12345678", "X-Peer-Identity": "front", "X-Pq": "1", "X-Pq-Group": "X25519MLKEM768",
			} {
				if got := seen.Header.Get(name); got != want {
					t.Errorf("%s is %q at the service, want %q", name, got, want)
				}
			}
			if got := seen.Header.Get("Traceparent"); !strings.HasPrefix(got, "00-0af7651916cd43dd8448eb211c80319c-") {
				t.Errorf("the trace became %q", got)
			}
			if seen.Method != http.MethodPost || seen.Target != "/v1/x?y=z" || seen.Bytes != 5 {
				t.Errorf("the service saw %+v", seen)
			}
			line := back.AwaitAccess(t, "the request at the second hop", func(a Access) bool { return a.Status == 200 })
			if line.RequestID != "req-12345678" || line.TLSGroup != "X25519MLKEM768" {
				t.Errorf("access line %+v", line)
			}
		})
	}
}

func TestAHopLetsNobodyInWithoutACertificateOfItsAuthority(t *testing.T) {
	dir := certificates(t, "front", "back")
	other := certificates(t, "front")
	origin := NewOrigin(t, false, nil)
	addr := FreeAddr(t)
	g := hop(t, addr, append([]string{"--listen", "zap+tls://" + addr, "--to", origin.URL}, pair(dir, "back")...)...)
	for name, cfg := range map[string]*tls.Config{
		"none":                     {},
		"one of another authority": {Certificates: []tls.Certificate{load(t, other, "front")}},
	} {
		cfg.InsecureSkipVerify = true //nolint:gosec // who the server is does not matter here
		cfg.NextProtos = []string{"zap-http/1"}
		c, err := tls.Dial("tcp", addr, cfg)
		if err == nil {
			// In TLS 1.3 the client learns of the refusal with its first read.
			_, err = c.Read(make([]byte, 1))
			_ = c.Close()
		}
		if err == nil {
			t.Errorf("a client with %s is let in", name)
		}
	}
	classical := &tls.Config{
		InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}, //nolint:gosec // as above
		Certificates: []tls.Certificate{load(t, dir, "front")}, NextProtos: []string{"zap-http/1"},
	}
	if c, err := tls.Dial("tcp", addr, classical); err == nil {
		_ = c.Close()
		t.Error("a classical client is let in")
	}
	g.Stdout.AwaitText(t, "no_shared_pq_group")
	if n := len(origin.Requests()); n != 0 {
		t.Errorf("%d requests reached the service", n)
	}
}

func load(t *testing.T, dir, name string) tls.Certificate {
	t.Helper()
	c, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestASecureHopWithoutAPairIsAUsageError(t *testing.T) {
	p := Pqgw(t, "hop", "--listen", "zap+tls://127.0.0.1:0", "--to", "http://127.0.0.1:1")
	if code := p.ExitCode(t); code != 2 {
		t.Errorf("exit %d, want 2", code)
	}
	p.Stderr.AwaitText(t, "--cert, --key and --ca")
}
