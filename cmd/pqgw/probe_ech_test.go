package main

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/kms"
)

// echKey is a key for a public name, and what is published of it.
func echKey(t *testing.T, id uint8, publicName string) (key tls.EncryptedClientHelloKey, list []byte) {
	t.Helper()
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	config, err := kms.NewECHConfig(id, private.PublicKey().Bytes(), publicName)
	if err != nil {
		t.Fatal(err)
	}
	key = tls.EncryptedClientHelloKey{Config: config, PrivateKey: private.Bytes(), SendAsRetry: true}
	return key, append([]byte{byte(len(config) >> 8), byte(len(config))}, config...)
}

// serveIntolerant serves TLS to hellos without an ECH extension.
func serveIntolerant(t *testing.T, dir string) string {
	t.Helper()
	dev, _, err := handshake.NewDev(dir, "edge.example")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := dev.Default(nil)
	if err != nil {
		t.Fatal(err)
	}
	const ech = 0xfe0d
	config := &tls.Config{Certificates: []tls.Certificate{*cert}, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.Extensions, ech) {
			return nil, errors.New("what is that?")
		}
		return nil, nil
	}}
	return listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, tls.Server(c, config)) })
}

func TestAScanTriesEncryptedHellos(t *testing.T) {
	dir := t.TempDir()
	key, list := echKey(t, 1, "edge.example")
	stray, strayList := echKey(t, 2, "stray.example")
	without, with := serveTLS(t, dir, handshake.Settings{}), serveTLS(t, dir, handshake.Settings{}, key)
	_, old := echKey(t, 3, "edge.example")
	file := filepath.Join(t.TempDir(), "ech.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "ECHCONFIG", Bytes: list}), 0o600); err != nil {
		t.Fatal(err)
	}
	text := base64.StdEncoding.EncodeToString
	for _, tt := range []struct {
		name, addr, config string
		want               scanECH
		weakness           string
	}{
		{"no keys", without, "", scanECH{Stale: "ignored"}, ""},
		{"keys", with, "", scanECH{Supported: true, Stale: "retry", PublicName: "edge.example", RetryConfigs: list, Retried: "accepted"}, ""},
		{"what is published", with, text(list), scanECH{Supported: true, Given: "accepted", Stale: "retry", PublicName: "edge.example", RetryConfigs: list, Retried: "accepted"}, ""},
		{"what is published, in a file", with, file, scanECH{Supported: true, Given: "accepted", Stale: "retry", PublicName: "edge.example", RetryConfigs: list, Retried: "accepted"}, ""},
		{"an old record", with, text(old), scanECH{Supported: true, Given: "retry", Stale: "retry", PublicName: "edge.example", RetryConfigs: list, Retried: "accepted"}, "ech_config_stale"},
		{"a record of a server without keys", without, text(list), scanECH{Given: "ignored", Stale: "ignored"}, "ech_config_unknown"},
		{
			"a public name without a certificate", serveTLS(t, dir, handshake.Settings{}, stray), "",
			scanECH{Supported: true, Stale: "retry", PublicName: "stray.example", RetryConfigs: strayList, Retried: "accepted"},
			"ech_public_name",
		},
		{"a server that cannot bear it", serveIntolerant(t, dir), "", scanECH{Stale: "broken", Reason: "peer_alert"}, "ech_intolerant"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"probe", tt.addr, "--scan", "--server-name", "edge.example", "--ca", filepath.Join(dir, "ca.pem"), "--output", "json"}
			if tt.config != "" {
				args = append(args, "--ech-config", tt.config)
			}
			code, out, errs := command(args...)
			var r probeReport
			if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitOK || r.Scan == nil {
				t.Fatalf("exit %d, %v\n%s%s", code, err, out, errs)
			}
			got, _ := json.Marshal(r.Scan.ECH)
			want, _ := json.Marshal(tt.want)
			if string(got) != string(want) {
				t.Errorf("%s\nwant %s", got, want)
			}
			var found []string
			for _, w := range r.Scan.Weaknesses {
				if w.Name != "classical_group" && w.Name != "no_resumption" && w.Name != "tls_1.2" {
					found = append(found, w.Name)
				}
			}
			if tt.weakness == "" && len(found) > 0 || tt.weakness != "" && !slices.Equal(found, []string{tt.weakness}) {
				t.Errorf("weaknesses %v, want %q", found, tt.weakness)
			}
		})
	}
	for _, args := range [][]string{{"--ech-config", file}, {"--scan", "--ech-config", "/nowhere"}, {"--scan", "--ech-config", text(list[:20])}} {
		if code, _, errs := command(append([]string{"probe", without}, args...)...); code != exitUsage {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
	}
}
