package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/telemetry"
)

// adminStatus is what the gateway of these tests says of itself.
func adminStatus() telemetry.Status {
	return telemetry.Status{
		Build: telemetry.Build{Version: "v1.2.3", Go: "go1.26"}, State: "ready", StartedAt: time.Now().Add(-time.Hour),
		Configuration: telemetry.ConfigurationStatus{Path: "edge.yaml", Version: 3, Hash: "0123456789abcdef", LastError: "edge.yaml:1:1: bad"},
		Listeners: []telemetry.ListenerStatus{{
			Name: "edge", Address: "127.0.0.1:8443", Protocols: []string{"h1", "h2"}, PQ: "prefer",
			Groups: []string{"X25519MLKEM768", "X25519"}, Connections: 7, Exposure: telemetry.Exposure{PostQuantum: 5, Classical: 2},
		}},
		Upstreams: []telemetry.UpstreamStatus{{Name: "app", Endpoints: []telemetry.EndpointStatus{{Address: "http://10.0.0.2:80", State: "up", Requests: 9, Failures: 1}}}},
		Certificates: []telemetry.CertificateStatus{
			{Name: "old.pem", Source: "files", NotAfter: time.Now().Add(-time.Hour)},
			{Name: "leaf.pem", Source: "files", Hosts: []string{"api.example.com"}, NotAfter: time.Now().Add(24 * time.Hour)},
		},
		Warnings: []string{"TLS 1.2 is never post-quantum"},
	}
}

// serveAdmin serves the admin pages on address and returns it as clients name it.
func serveAdmin(t *testing.T, address string, a *telemetry.Admin) string {
	t.Helper()
	if a.Status == nil {
		a.Status = adminStatus
	}
	a.Ready = func() bool { return true }
	s, err := telemetry.ServeAdmin(address, a, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	if strings.HasPrefix(address, "unix:") {
		return address
	}
	return s.Addr().String()
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cli") // short: the address of a socket has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// pqgw runs one command line.
func runPQGW(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestStatusShowsTables(t *testing.T) {
	admin := serveAdmin(t, "127.0.0.1:0", &telemetry.Admin{})
	code, out, errs := runPQGW("status", "--admin", admin)
	if code != exitOK || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{
		"pqgw v1.2.3 (go1.26) is ready, up 1h0m0s", "version 3, hash 0123456789ab,", "edge.yaml:1:1: bad", "warning: TLS 1.2",
		"X25519MLKEM768,X25519", "5/2/0", "http://10.0.0.2:80  up", "api.example.com", "expires soon", "expired",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

func TestStatusAsJSONFromTheFilesAddress(t *testing.T) {
	dir := shortDir(t)
	admin := serveAdmin(t, "unix:"+filepath.Join(dir, "admin.sock"), &telemetry.Admin{})
	file := filepath.Join(dir, "edge.yaml")
	writeConfig(t, file, "admin: {address: \""+admin+"\"}\n")
	code, out, errs := runPQGW("status", "-c", file, "--output", "json")
	var s telemetry.Status
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != exitOK || s.Listeners[0].Groups[0] != "X25519MLKEM768" {
		t.Errorf("exit %d, %v: %s%s", code, err, out, errs)
	}
}

func writeConfig(t *testing.T, file, admin string) {
	t.Helper()
	text := "version: 1\nlisteners:\n  - {name: edge, address: \"127.0.0.1:0\", protocols: [h1]}\nroutes:\n  - {to: trace}\n" + admin
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReloadSaysWhetherItWasTaken(t *testing.T) {
	var failure error
	admin := serveAdmin(t, "127.0.0.1:0", &telemetry.Admin{Reload: func(context.Context) error { return failure }})
	code, out, errs := runPQGW("reload", "--admin", admin)
	if code != exitOK || !strings.Contains(out, "reloaded: configuration version 3") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	failure = errors.New("edge.yaml:3:5: routes: unknown key")
	code, out, errs = runPQGW("reload", "--admin", admin)
	if code != exitConfig || out != "" || !strings.Contains(errs, failure.Error()) || !strings.Contains(errs, "version 3 stays") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, out, _ = runPQGW("reload", "--admin", admin, "--output", "json")
	var answer telemetry.ReloadAnswer
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != exitConfig || answer.Reloaded || answer.Error != failure.Error() {
		t.Errorf("exit %d, %v: %s", code, err, out)
	}
}

func TestDrainBegins(t *testing.T) {
	drained := false
	admin := serveAdmin(t, "127.0.0.1:0", &telemetry.Admin{Drain: func() { drained = true }})
	if code, out, errs := runPQGW("drain", "--admin", admin); code != exitOK || !drained || !strings.Contains(out, "draining") {
		t.Errorf("exit %d, drained %v: %s%s", code, drained, out, errs)
	}
}

func TestAdminCommandsSayWhatIsWrong(t *testing.T) {
	dir := shortDir(t)
	admin := serveAdmin(t, "127.0.0.1:0", &telemetry.Admin{}) // no reload
	without := filepath.Join(dir, "without.yaml")
	writeConfig(t, without, "")
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("version: 1\nrooutes: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		code int
		says string
	}{
		{"nobody there", []string{"status", "--admin", "unix:" + filepath.Join(dir, "none.sock")}, exitFailed, "no gateway runs"},
		{"nobody listens", []string{"drain", "--admin", "127.0.0.1:1"}, exitFailed, "is it running?"},
		{"no address", []string{"status", "--admin", "nonsense"}, exitUsage, "--admin"},
		{"no such format", []string{"status", "--output", "xml"}, exitUsage, "text and json"},
		{"an argument", []string{"status", "now"}, exitUsage, "--help"},
		{"no such file", []string{"status", "-c", filepath.Join(dir, "none.yaml")}, exitFailed, "none.yaml"},
		{"a bad file", []string{"status", "-c", bad}, exitConfig, "--admin"},
		{"a file without admin", []string{"status", "-c", without}, exitConfig, "admin.address"},
		{"a gateway without reload", []string{"reload", "--admin", admin}, exitFailed, "is it the admin address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := runPQGW(tt.args...)
			if code != tt.code || out != "" || !strings.Contains(errs, tt.says) {
				t.Errorf("exit %d, want %d; stdout %q; stderr %q, want %q in it", code, tt.code, out, errs, tt.says)
			}
		})
	}
}

func TestASlowGatewayIsNotAwaitedForever(t *testing.T) {
	release := make(chan struct{})
	admin := serveAdmin(t, "127.0.0.1:0", &telemetry.Admin{Reload: func(context.Context) error {
		<-release
		return nil
	}})
	code, _, errs := runPQGW("reload", "--admin", admin, "--timeout", "50ms")
	close(release)
	if code != exitFailed || !strings.Contains(errs, "--timeout") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
