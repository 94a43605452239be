package scenario

// Promise: `pqgw status pq` tells which clients went over classical key exchange, by
// listener, name and fingerprint, and how much they said.

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/telemetry"
)

func TestStatusPQTellsWhoWasClassical(t *testing.T) {
	f := NewFront(t, FrontOptions{})
	for _, group := range []tls.CurveID{tls.X25519MLKEM768, tls.X25519} {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			RootCAs: f.CA.Pool(), ServerName: "localhost", CurvePreferences: []tls.CurveID{group},
		}}}
		resp, err := client.Get(f.URL + "/")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	f.AwaitAccess(t, "the classical request", func(a Access) bool { return a.TLSGroup == "X25519" })
	ask := []string{"status", "pq", "--admin", "unix:" + f.Dir + "/admin.sock"}
	p := Pqgw(t, append(ask, "--output", "json")...)
	if code := p.ExitCode(t); code != 0 {
		t.Fatalf("exit %d: %s", code, p.Stderr.String())
	}
	var reports []telemetry.PQReport
	if err := json.Unmarshal([]byte(p.Stdout.String()), &reports); err != nil {
		t.Fatal(err)
	}
	if len(reports) != 1 || reports[0].Listener != "edge" || reports[0].TLSHour != 2 || reports[0].Hour.Connections != 1 || reports[0].Hour.Bytes == 0 {
		t.Fatalf("%+v", reports)
	}
	if c := reports[0].Clients; len(c) != 1 || c[0].SNI != "localhost" || !strings.HasPrefix(c[0].JA4, "t13d") {
		t.Errorf("%+v", c)
	}
	text := Pqgw(t, ask...)
	text.Stdout.AwaitText(t, "1 of 2 TLS connections were classical in the last hour")
	if _, metrics := f.Admin(t, http.MethodGet, "/metrics"); !strings.Contains(metrics, `pqgw_classical_connections{listener="edge",sni="localhost",window="day"} 1`) {
		t.Error("the metrics do not tell")
	}
}
