package scenario

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// The promise: a hop knows its peers by the SPIFFE ID of their certificates as well as by
// their names, takes the request id of a neighbour on a unix socket, and one of two that is
// restarted under load loses no request.

func TestAHopKnowsItsPeersBySPIFFEID(t *testing.T) {
	dir := certificates(t, "back", "stranger")
	const id = "spiffe://mesh.example/front"
	if code := Pqgw(t, "cert", "issue", dir, "--name", "front", "--spiffe-id", id).ExitCode(t); code != 0 {
		t.Fatalf("cert issue exits %d", code)
	}
	origin := NewOrigin(t, false, nil)
	addr := FreeAddr(t)
	hop(t, addr, append([]string{"--listen", "zap+tls://" + addr, "--to", origin.URL, "--peer", id}, pair(dir, "back")...)...)
	ask := func(as string) (report struct{ Status int }) {
		t.Helper()
		p := Pqgw(t, append([]string{"zap", "get", "zap+tls://" + addr + "/x", "--server-name", "back", "--output", "json"}, pair(dir, as)...)...)
		if code := p.ExitCode(t); code != 0 {
			t.Fatalf("zap get exits %d: %s", code, p.Stderr.String())
		}
		if err := json.Unmarshal([]byte(p.Stdout.String()), &report); err != nil {
			t.Fatalf("%v\n%s", err, p.Stdout.String())
		}
		return report
	}
	if got := ask("front").Status; got != http.StatusOK {
		t.Errorf("the peer is answered %d, want 200", got)
	}
	if got := origin.Last(t).Header.Get("X-Peer-Identity"); got != id {
		t.Errorf("the service sees the peer as %q, want %q", got, id)
	}
	if got := ask("stranger").Status; got != http.StatusNotFound || len(origin.Requests()) != 1 {
		t.Errorf("a stranger is answered %d and reached the service with %d requests", got, len(origin.Requests())-1)
	}
}

func TestAHopBelievesItsNeighbourOnAUnixSocket(t *testing.T) {
	dir := certificates(t, "front", "back")
	origin := NewOrigin(t, false, nil)
	inner, socket := FreeAddr(t), filepath.Join(shortDir(t), "hop.sock")
	hop(t, inner, append([]string{"--listen", "zap+tls://" + inner, "--to", origin.URL}, pair(dir, "back")...)...)
	front := &Gateway{Dir: shortDir(t)}
	front.start(t, append([]string{"hop", "--listen", "unix:" + socket, "--to", "zap+tls://" + inner, "--server-name", "back"}, pair(dir, "front")...)...)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://service/x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Request-Id", "req-12345678")
	Await(t, "the hop on its socket to answer", func() bool {
		front.mustRun(t)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	if got := origin.Last(t).Header.Get("X-Request-Id"); got != "req-12345678" {
		t.Errorf("the service sees the request as %q, want req-12345678", got)
	}
}

func TestAHopThatIsRestartedUnderLoadLosesNothing(t *testing.T) {
	dir := certificates(t, "front", "back")
	origin := NewOrigin(t, false, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 10000))
	}))
	for _, scheme := range []string{"zap+tls", "zap+quic"} {
		t.Run(scheme, func(t *testing.T) {
			outer, one, two := FreeAddr(t), FreeAddr(t), FreeAddr(t)
			start := func(addr string) *Gateway {
				return hop(t, addr, append([]string{"--listen", scheme + "://" + addr, "--to", origin.URL, "--access-log", "off"}, pair(dir, "back")...)...)
			}
			first := start(one)
			start(two)
			hop(t, outer, append([]string{
				"--listen", "http://" + outer, "--to", scheme + "://" + one, "--to", scheme + "://" + two,
				"--server-name", "back", "--access-log", "off",
			}, pair(dir, "front")...)...)
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}, Timeout: Patience}
			defer client.CloseIdleConnections()
			load := StartLoad(t, 4, func() (bool, error) {
				_, _, err := Get(client, "http://"+outer+"/x")
				return false, err
			})
			for range 3 {
				load.AwaitProgress(t, 50)
				first.Stop(t)
				load.AwaitProgress(t, 50)
				first = start(one)
			}
			load.AwaitProgress(t, 50)
			load.Stop(t)
		})
	}
}
