package scenario

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The promise: one command, without a file or a certificate, is a
// post-quantum edge that answers at once; and it prints the configuration
// that it amounts to.

// localCA finds the CA's certificate in an edge's data folder, and checks that
// nobody but its owner can read a key.
func localCA(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	pool, found, keys := x509.NewCertPool(), 0, 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		block, _ := pem.Decode(data)
		if block == nil {
			return nil
		}
		if strings.Contains(block.Type, "PRIVATE KEY") {
			keys++
			if info, err := d.Info(); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the key file %s has mode %v, want 0600", path, info.Mode())
			}
			return nil
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && cert.IsCA {
			pool.AddCert(cert)
			found++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 || keys == 0 {
		t.Fatalf("the data folder has %d CA certificates and %d keys", found, keys)
	}
	return pool
}

func localClient(t *testing.T, pool *x509.CertPool) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: Patience}
}

func TestEdgeServesAtOnce(t *testing.T) {
	g, addr := Edge(t)
	client := localClient(t, localCA(t, filepath.Join(g.Dir, "data")))
	for _, host := range []string{"localhost", "127.0.0.1"} {
		req, err := http.NewRequest(http.MethodGet, "https://"+host+":"+Port(t, addr)+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var trace map[string]any
		err = json.NewDecoder(resp.Body).Decode(&trace)
		resp.Body.Close()
		if err != nil || !strings.Contains(fmtJSON(t, trace), "X25519MLKEM768") {
			t.Errorf("the trace at %s says %v, error %v", host, trace, err)
		}
	}
	// It serves a moment before it says so.
	Await(t, "the edge to say how to trust it", func() bool {
		return containsAll(g.Stderr.String()+g.Stdout.String(), "curl", "--cacert")
	})
}

func TestEdgeKeepsItsCA(t *testing.T) {
	dir := t.TempDir()
	first, addr := Edge(t, "--data-dir", dir)
	pool := localCA(t, dir)
	if _, _, err := Get(localClient(t, pool), "https://localhost:"+Port(t, addr)); err != nil {
		t.Fatal(err)
	}
	first.Stop(t)
	_, addr = Edge(t, "--data-dir", dir, "--host", "shop.example.com")
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, ServerName: "shop.example.com"})
	if err != nil {
		t.Fatalf("the CA of the first run does not vouch for the second: %v", err)
	}
	conn.Close()
}

func TestEdgeBalancesBetweenUpstreams(t *testing.T) {
	a, b := NewOrigin(t, false, nil), NewOrigin(t, false, nil)
	g, addr := Edge(t, "--to", a.URL, "--to", b.URL)
	client := localClient(t, localCA(t, filepath.Join(g.Dir, "data")))
	for range 200 {
		if _, _, err := Get(client, "https://localhost:"+Port(t, addr)); err != nil {
			t.Fatal(err)
		}
	}
	// By chance alone fewer than 50 of 200 happen once in 10^12 runs.
	if na, nb := len(a.Requests()), len(b.Requests()); na < 50 || nb < 50 {
		t.Errorf("of 200 requests one origin got %d, the other %d", na, nb)
	}
}

func TestEdgePrintsAConfigurationThatRuns(t *testing.T) {
	origin := NewOrigin(t, false, nil)
	ca := NewCA(t)
	leaf := ca.Leaf(t, "localhost")
	addr := FreeAddr(t)
	p := Pqgw(t, "edge", "--to", origin.URL, "--listen", addr, "--cert", leaf.CertFile, "--key", leaf.KeyFile,
		"--pq", "require", "--data-dir", t.TempDir(), "--print-config")
	if code := p.ExitCode(t); code != 0 {
		t.Fatalf("--print-config exited with %d", code)
	}
	Run(t, p.Stdout.String())
	if _, _, err := Get(ca.Client(t, true), "https://localhost:"+Port(t, addr)+"/hello"); err != nil {
		t.Fatal(err)
	}
	if seen := origin.Last(t); seen.Target != "/hello" || seen.Header.Get("X-PQ") != "1" {
		t.Errorf("the origin saw %+v", seen)
	}
	if _, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", CurvePreferences: []tls.CurveID{tls.X25519}}); err == nil {
		t.Error("a classical client was served under --pq require")
	}
}

func fmtJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
