package scenario

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/hanzoai/pqgw/internal/peers"
)

// The promise: what comes in by any HTTP goes on over QUIC, post-quantum: as
// HTTP/3 to nginx, as ZAP to another gateway.

// nginxHTTP3 runs trixie's nginx with HTTP/3 alone, and gives its address.
func nginxHTTP3(t *testing.T, leaf Leaf, files map[string][]byte) string {
	t.Helper()
	x := peers.NewTrixie(t)
	outside, inside := x.TempDir(t)
	if err := os.Chmod(outside, 0o755); err != nil { //nolint:gosec // nginx's workers read it
		t.Fatal(err)
	}
	addr := FreeAddr(t)
	for name, path := range map[string]string{"cert.pem": leaf.CertFile, "key.pem": leaf.KeyFile} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = b
	}
	files["nginx.conf"] = fmt.Appendf(nil, `
daemon off; worker_processes 1; pid %[1]s/pid; error_log stderr warn;
events {}
http {
  access_log off;
  server {
    listen %[2]s quic;
    ssl_protocols TLSv1.3; ssl_ecdh_curve X25519MLKEM768;
    ssl_certificate %[1]s/cert.pem; ssl_certificate_key %[1]s/key.pem;
    root %[1]s;
    client_max_body_size 0;
  }
}
`, inside, addr)
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(outside, name), b, 0o644); err != nil { //nolint:gosec // as above
			t.Fatal(err)
		}
	}
	StartProcess(t, x.Command(context.Background(), "nginx", "-c", inside+"/nginx.conf"))
	return addr
}

func TestNginxIsCalledOverHTTP3(t *testing.T) {
	body := make([]byte, 3<<20)
	_, _ = rand.Read(body)
	ca := NewCA(t)
	addr := nginxHTTP3(t, ca.Leaf(t, "localhost", "127.0.0.1"), map[string][]byte{"large": body, "small": []byte("small")})
	f := NewFront(t, FrontOptions{Routes: fmt.Sprintf(
		"routes: [{to: origin}]\nupstreams: {origin: {endpoints: [\"h3://%s\"], tls: {ca: %q, pq: require}}}", addr, ca.File)})
	for name, target := range targets(t, f) {
		t.Run(name, func(t *testing.T) {
			var got string
			Await(t, "nginx to answer", func() bool {
				b, _, err := Get(target.client, target.url+"/large")
				got = b
				return err == nil && len(b) == len(body)
			})
			if got != string(body) {
				t.Error("other bytes arrived than nginx has")
			}
			if got, _, err := Get(target.client, target.url+"/small"); err != nil || got != "small" {
				t.Errorf("%q %v", got, err)
			}
		})
	}
	entry := f.AwaitAccess(t, "an answer", func(a Access) bool { return a.Path == "/small" })
	if entry.Status != http.StatusOK || entry.UpstreamTLSGroup != "X25519MLKEM768" {
		t.Errorf("the access log says %+v, want X25519MLKEM768 upstream", entry)
	}
}

func TestTwoGatewaysSpeakZAPOverQUIC(t *testing.T) {
	body := make([]byte, 3<<20)
	_, _ = rand.Read(body)
	origin := NewOrigin(t, false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			_, _ = w.Write(body)
			return
		}
		_, _ = w.Write([]byte("small"))
	}))
	ca := NewCA(t)
	leaf := ca.Leaf(t, "localhost", "127.0.0.1")
	addr := FreeAddr(t)
	inner := Run(t, fmt.Sprintf(`version: 1
tls: {mesh: {certificates: {files: [{cert: %q, key: %q}]}, pq: require}}
listeners: [{name: hop, address: %q, protocols: [zap], tls: mesh}]
%s
`, leaf.CertFile, leaf.KeyFile, addr, To(origin.URL)))
	f := NewFront(t, FrontOptions{Routes: fmt.Sprintf(
		"routes: [{to: hop}]\nupstreams: {hop: {endpoints: [\"zap+quic://%s\"], tls: {ca: %q, pq: require}}}", addr, ca.File)})
	for name, target := range targets(t, f) {
		t.Run(name, func(t *testing.T) {
			for path, want := range map[string][]byte{"/large": body, "/small": []byte("small")} {
				if got, _, err := Get(target.client, target.url+path); err != nil || got != string(want) {
					t.Errorf("%s: %d bytes, %v", path, len(got), err)
				}
			}
		})
	}
	entry := inner.AwaitAccess(t, "an answer", func(a Access) bool { return a.Path == "/small" })
	if entry.Protocol != "zap" || entry.TLSGroup != "X25519MLKEM768" || entry.TLSALPN != "zap-http/1" {
		t.Errorf("the access log says %+v, want zap over X25519MLKEM768", entry)
	}
}
