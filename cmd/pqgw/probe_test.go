package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/handshake"
)

// command runs one command line in this process.
func command(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// listen serves each connection with handle until the test ends.
func listen(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				handle(c)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return l.Addr().String()
}

// serveTLS serves handshakes with the settings; dir has the CA of the certificate.
func serveTLS(t *testing.T, dir string, s handshake.Settings, ech ...tls.EncryptedClientHelloKey) string {
	t.Helper()
	dev, _, err := handshake.NewDev(dir, "edge.example")
	if err != nil {
		t.Fatal(err)
	}
	s.Sources = []handshake.Source{dev}
	srv, err := handshake.NewServer(s)
	if err != nil {
		t.Fatal(err)
	}
	srv.SetECHKeys(ech)
	return listen(t, func(c net.Conn) {
		conn := srv.Conn(c)
		if _, err := srv.Handshake(context.Background(), conn); err == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	})
}

func TestProbeTellsWhatTheConnectionWas(t *testing.T) {
	dir := t.TempDir()
	addr := serveTLS(t, dir, handshake.Settings{NextProtos: []string{"h2"}})
	code, out, errs := command("probe", addr, "--require-pq", "--verify", "--ca", filepath.Join(dir, "ca.pem"), "--output", "json")
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var r probeReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if !r.PQ || r.Group != "X25519MLKEM768" || r.Version != "1.3" || r.ALPN != "h2" || r.HRR || !r.Resumed || !r.Ticket {
		t.Errorf("%+v", r)
	}
	if h := r.Handshake; h.Sent < 1216 || h.Received < 1120 || h.MS <= 0 || r.Resumption.Received >= h.Received {
		t.Errorf("first %+v, second %+v", r.Handshake, r.Resumption)
	}
	c := r.Certificate
	if c == nil || c.Verified == nil || !*c.Verified || c.Key != "ECDSA P-256" || c.Names[0] != "edge.example" || !strings.Contains(c.Issuer, "pqgw local CA") {
		t.Errorf("%+v", c)
	}
	code, out, _ = command("probe", addr, "--groups", "secp384r1mlkem1024", "--insecure")
	for _, want := range []string{"post-quantum", "SecP384r1MLKEM1024", "TLS 1.3", "edge.example", "not looked at"} {
		if code != exitOK || !strings.Contains(out, want) {
			t.Errorf("exit %d, no %q in\n%s", code, want, out)
		}
	}
}

func TestProbeExitsByWhatItFound(t *testing.T) {
	dir := t.TempDir()
	ca, _, err := handshake.MakeAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	classical := serveTLS(t, dir, handshake.Settings{Groups: []tls.CurveID{tls.X25519}})
	strict := serveTLS(t, dir, handshake.Settings{PQ: handshake.Require, StrictSNI: true})
	old := serveTLS(t, dir, handshake.Settings{Groups: []tls.CurveID{tls.CurveP256}, MinVersion: tls.VersionTLS12})
	mutual := serveTLS(t, dir, handshake.Settings{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: []*x509.Certificate{ca.Certificate()}})
	if code, _, errs := command("cert", "issue", dir, "--name", "me"); code != exitOK {
		t.Fatal(errs)
	}
	plain := listen(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	silent := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	nobody := nobodyThere(t)
	me, meKey := filepath.Join(dir, "me.pem"), filepath.Join(dir, "me-key.pem")
	tests := []struct {
		name   string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{"classical", []string{classical}, exitOK, "X25519", ""},
		{"classical, PQ required", []string{classical, "--require-pq"}, exitNotMet, "X25519", "not post-quantum"},
		{"a classical group of an old server", []string{old, "--require-pq"}, exitNotMet, "P-256", "not post-quantum"},
		{"unknown CA", []string{classical}, exitOK, "no: x509", ""},
		{"unknown CA, to be verified", []string{classical, "--verify"}, exitNotMet, "no: x509", "does not verify"},
		{"another name", []string{strict, "--server-name", "other.example"}, exitFailed, "", "no_sni_match"},
		{"the name", []string{strict, "--server-name", "Edge.Example", "--require-pq"}, exitOK, "yes", ""},
		{"classical groups against require", []string{strict, "--server-name", "edge.example", "--groups", "X25519"}, exitFailed, "", "no_shared_group"},
		{"no certificate of ours", []string{mutual}, exitFailed, "X25519MLKEM768", "client_certificate"},
		{"our certificate", []string{mutual, "--cert", me, "--key", meKey}, exitOK, "X25519MLKEM768", ""},
		{"no TLS", []string{plain}, exitFailed, "", "not_tls"},
		{"silence", []string{silent, "--timeout", "50ms"}, exitFailed, "", "firewall"},
		{"nobody", []string{nobody}, exitFailed, "", "cannot connect"},
		{"an unknown group", []string{nobody, "--groups", "kyber"}, exitUsage, "", "kyber"},
		{"a CA file that is none", []string{nobody, "--ca", meKey}, exitUsage, "", "no certificate"},
		{"half a pair", []string{nobody, "--cert", me}, exitUsage, "", "--key"},
		{"insecure and verified", []string{nobody, "--insecure", "--verify"}, exitUsage, "", "contradict"},
		{"no address", nil, exitUsage, "", "arg"},
		{"a format that is none", []string{nobody, "--output", "xml"}, exitUsage, "", "xml"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := command(append([]string{"probe"}, tt.args...)...)
			if code != tt.code || !strings.Contains(out, tt.stdout) || !strings.Contains(errs, tt.stderr) || (tt.stderr == "") != (errs == "") {
				t.Errorf("exit %d, want %d\n%s\n%s", code, tt.code, out, errs)
			}
		})
	}
}

func TestProbeScansWhatAServerTakes(t *testing.T) {
	dir := t.TempDir()
	strong := serveTLS(t, dir, handshake.Settings{PQ: handshake.Require})
	usual := serveTLS(t, dir, handshake.Settings{})
	weak := serveTLS(t, dir, handshake.Settings{Groups: []tls.CurveID{tls.CurveP256}, MinVersion: tls.VersionTLS12, Tickets: handshake.Tickets{Off: true}})
	ca := filepath.Join(dir, "ca.pem")
	tests := []struct {
		name, addr string
		code       int
		weaknesses []string
		groups     []string
	}{
		{"hybrids alone", strong, exitOK, nil, []string{"X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024"}},
		{
			"hybrids and classical ones", usual, exitNotMet,
			[]string{"classical_group"},
			[]string{"X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024", "X25519", "P-256", "P-384"},
		},
		{"old", weak, exitNotMet, []string{"no_pq_group", "tls_1.2", "hello_retry", "no_resumption"}, []string{"P-256"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := command("probe", tt.addr, "--scan", "--require-pq", "--ca", ca, "--output", "json")
			var r probeReport
			if err := json.Unmarshal([]byte(out), &r); err != nil || code != tt.code || r.Scan == nil {
				t.Fatalf("exit %d, %v\n%s%s", code, err, out, errs)
			}
			var weaknesses, groups []string
			for _, w := range r.Scan.Weaknesses {
				weaknesses = append(weaknesses, w.Name)
			}
			for _, g := range r.Scan.Groups {
				if g.Accepted {
					groups = append(groups, g.Name)
				}
			}
			if !slices.Equal(weaknesses, tt.weaknesses) || !slices.Equal(groups, tt.groups) {
				t.Errorf("weaknesses %v, groups %v", weaknesses, groups)
			}
			for _, h := range r.Scan.Hellos {
				if !h.Accepted {
					t.Errorf("%+v", h)
				}
			}
		})
	}
	if code, out, _ := command("probe", usual, "--scan", "--ca", ca); code != exitOK || !strings.Contains(out, "weakness classical_group") || !strings.Contains(out, "yes, post-quantum") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// nobodyThere is an address at which nobody listens.
func nobodyThere(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestProbeFailsInJSONToo(t *testing.T) {
	code, out, _ := command("probe", nobodyThere(t), "--output", "json")
	var r probeReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitFailed || r.Error == nil || r.Error.Reason != "connect" || r.Error.Hint == "" {
		t.Errorf("exit %d, %v\n%s", code, err, out)
	}
}

func TestTheDefaultPortOfAProbeIsThatOfHTTPS(t *testing.T) {
	for in, want := range map[string]string{
		"example.com": "example.com:443", "Example.com.": "example.com:443", "[::1]": "[::1]:443", "::1": "[::1]:443", "192.0.2.1:8443": "192.0.2.1:8443",
	} {
		if got := withPort(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
