package handshake

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestContradictorySettingsAreRefusedByField(t *testing.T) {
	src, _ := selfSigned(t, "example.com")
	tests := []struct {
		name     string
		settings Settings
		field    string
	}{
		{"a classical group under require", Settings{PQ: Require, Groups: []tls.CurveID{tls.X25519MLKEM768, tls.X25519}}, "groups"},
		{"an unknown group", Settings{Groups: []tls.CurveID{0x1234}}, "groups"},
		{"TLS 1.2 under require", Settings{PQ: Require, MinVersion: tls.VersionTLS12}, "min_version"},
		{"TLS 1.1", Settings{MinVersion: tls.VersionTLS11}, "min_version"},
		{"off on a listener", Settings{PQ: Off}, "pq"},
		{"client certificates without a CA", Settings{ClientAuth: tls.RequireAndVerifyClientCert}, "client_ca"},
	}
	for _, tt := range tests {
		tt.settings.Sources = []Source{src}
		_, err := NewServer(tt.settings)
		var wrong *SettingsError
		if !errors.As(err, &wrong) || wrong.Field != tt.field {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	_, err := NewServer(Settings{})
	var wrong *SettingsError
	if !errors.As(err, &wrong) || wrong.Field != "certificates" {
		t.Errorf("no certificates: %v", err)
	}
	if _, err := NewClient(ClientSettings{PQ: Off, Groups: []tls.CurveID{tls.X25519MLKEM768}}); !errors.As(err, &wrong) || wrong.Field != "groups" {
		t.Errorf("a hybrid group under off: %v", err)
	}
}

func TestGroupsInForceAreWhatThePolicySays(t *testing.T) {
	src, _ := selfSigned(t, "example.com")
	all := []string{"X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024", "X25519", "P-256", "P-384"}
	tests := []struct {
		name    string
		s       Settings
		want    []string
		warning string
	}{
		{"prefer", Settings{}, all, ""},
		{"require", Settings{PQ: Require}, all[:3], ""},
		{"narrowed, in any order", Settings{Groups: []tls.CurveID{tls.X25519, tls.X25519MLKEM768}}, []string{all[0], all[3]}, ""},
		{"classical", Settings{Groups: []tls.CurveID{tls.CurveP521}}, []string{"P-521"}, "no connection will be post-quantum"},
		{"TLS 1.2", Settings{MinVersion: tls.VersionTLS12}, all, "TLS 1.2"},
	}
	for _, tt := range tests {
		tt.s.Sources = []Source{src}
		srv := newServer(t, tt.s)
		if got := srv.GroupsInForce(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v", tt.name, got)
		}
		if w := strings.Join(srv.Warnings(), "; "); (w == "") != (tt.warning == "") || !strings.Contains(w, tt.warning) {
			t.Errorf("%s: warnings %q", tt.name, w)
		}
	}
	client, err := NewClient(ClientSettings{PQ: Off})
	if err != nil || !slices.Equal(client.GroupsInForce(), all[3:]) {
		t.Errorf("off: %v, %v", client.GroupsInForce(), err)
	}
}

func TestNamesAreReadAsTheyAreWritten(t *testing.T) {
	for _, g := range known {
		if got, err := ParseGroup(strings.ToLower(GroupName(g))); got != g || err != nil {
			t.Errorf("%s: %v, %v", GroupName(g), got, err)
		}
	}
	for _, p := range []PQ{Prefer, Require, Off} {
		if got, err := ParsePQ(p.String()); got != p || err != nil {
			t.Errorf("%s: %v, %v", p, got, err)
		}
	}
	for _, v := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		if got, err := ParseVersion(VersionName(v)); got != v || err != nil {
			t.Errorf("%s: %v, %v", VersionName(v), got, err)
		}
	}
	for _, bad := range []string{"kyber", "1.1", "maybe"} {
		_, e1 := ParseGroup(bad)
		_, e2 := ParsePQ(bad)
		_, e3 := ParseVersion(bad)
		if e1 == nil || e2 == nil || e3 == nil {
			t.Errorf("%q was read: %v, %v, %v", bad, e1, e2, e3)
		}
	}
	if _, err := ParseGroups([]string{"X25519", "x25519"}); err == nil {
		t.Error("a group twice was read")
	}
}

func TestFactsCostNothingToAsk(t *testing.T) {
	f := Facts{Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256, Group: tls.X25519MLKEM768}
	var sink string
	if n := testing.AllocsPerRun(100, func() {
		sink = f.GroupName() + ""
		sink = f.VersionName()
		sink = f.CipherName()
		_ = f.PQ()
	}); n != 0 || sink != "TLS_AES_128_GCM_SHA256" {
		t.Errorf("%v allocations, %q", n, sink)
	}
	old := Facts{Version: tls.VersionTLS12, Group: tls.X25519MLKEM768}
	none := Facts{}
	if old.PQ() || none.PQ() || none.GroupName() != "none" || none.VersionName() != "" || none.CipherName() != "" {
		t.Errorf("%+v %+v", old, none)
	}
}

func TestThePeerIsNamedByItsOneSPIFFEURIBeforeItsNames(t *testing.T) {
	uri := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	id, site := uri("spiffe://example.org/ns/a/sa/b"), uri("https://example.com/")
	for want, c := range map[string]x509.Certificate{
		"spiffe://example.org/ns/a/sa/b": {URIs: []*url.URL{id}, DNSNames: []string{"a.example"}},
		"two-uris.example":               {URIs: []*url.URL{id, id}, DNSNames: []string{"two-uris.example"}},
		"site.example":                   {URIs: []*url.URL{site}, DNSNames: []string{"site.example", "b"}},
		"common":                         {Subject: pkix.Name{CommonName: "common"}},
		"":                               {},
	} {
		if got := PeerName(&c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
