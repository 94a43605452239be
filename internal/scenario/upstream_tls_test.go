package scenario

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// The promise: TLS towards upstreams resumes, by HTTP/1.1 and by HTTP/2, with a fresh
// post-quantum key exchange each time.

func TestConnectionsToUpstreamsResume(t *testing.T) {
	for protocol, h2 := range map[string]bool{"h1": false, "h2": true} {
		t.Run(protocol, func(t *testing.T) {
			ca := NewCA(t)
			leaf := ca.Leaf(t, "127.0.0.1")
			pair, err := tls.LoadX509KeyPair(leaf.CertFile, leaf.KeyFile)
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var seen []tls.ConnectionState
			origin := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				seen = append(seen, *r.TLS)
				mu.Unlock()
				w.Header().Set("Connection", "close") // each request needs a connection of its own
			}))
			origin.EnableHTTP2 = h2
			origin.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
			origin.StartTLS()
			t.Cleanup(origin.Close)
			addr := FreeAddr(t)
			Run(t, fmt.Sprintf(`version: 1
tls: {up: {ca: %q, pq: require}}
listeners: [{name: plain, address: %q, protocols: [h1]}]
routes: [{to: origin}]
upstreams: {origin: {endpoints: [%q], tls: up}}`, ca.File, addr, origin.URL))
			client := ca.Client(t, false)
			const times = 4
			for range times {
				if _, _, err := Get(client, "http://"+addr+"/"); err != nil {
					t.Fatal(err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if len(seen) != times {
				t.Fatalf("the origin saw %d requests", len(seen))
			}
			for i, cs := range seen {
				if cs.DidResume != (i > 0) || cs.CurveID != tls.X25519MLKEM768 || (cs.NegotiatedProtocol == "h2") != h2 {
					t.Errorf("connection %d: resumed %v, group %v, protocol %q", i, cs.DidResume, cs.CurveID, cs.NegotiatedProtocol)
				}
			}
		})
	}
}
