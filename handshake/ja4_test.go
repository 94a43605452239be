package handshake

import (
	"crypto/tls"
	"strings"
	"testing"
)

// chromeHello is the hello of the example in JA4's technical details.
func chromeHello() *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{
		CipherSuites: []uint16{
			0x3a3a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014, 0x009c, 0x009d, 0x002f, 0x0035,
		},
		Extensions: []uint16{
			0x5a5a, 0x001b, 0x0000, 0x0033, 0x0010, 0x4469, 0x0017, 0x002d, 0x000d, 0x0005, 0x0023, 0x0012, 0x002b, 0xff01, 0x000b, 0x000a, 0x0015, 0xaaaa,
		},
		SignatureSchemes:  []tls.SignatureScheme{0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601},
		SupportedProtos:   []string{"h2", "http/1.1"},
		SupportedVersions: []uint16{0x6a6a, tls.VersionTLS13, tls.VersionTLS12},
		ServerName:        "example.com",
	}
}

func TestJA4IsThatOfThePublishedExample(t *testing.T) {
	if got := JA4(chromeHello()); got != "t13d1516h2_8daaf6152771_e5627efa2ab1" {
		t.Error(got)
	}
}

func TestJA4TellsKindsOfClientsApart(t *testing.T) {
	tests := map[string]struct {
		change func(*tls.ClientHelloInfo)
		prefix string
	}{
		"over QUIC":                   {func(h *tls.ClientHelloInfo) { h.Extensions = append(h.Extensions, 0x39) }, "q13d1517h2_"},
		"without a name":              {func(h *tls.ClientHelloInfo) { h.Extensions = h.Extensions[3:] }, "t13i1514h2_"},
		"without ALPN":                {func(h *tls.ClientHelloInfo) { h.SupportedProtos = nil }, "t13d151600_"},
		"a protocol of other bytes":   {func(h *tls.ClientHelloInfo) { h.SupportedProtos = []string{"\xabcd\xef"} }, "t13d1516af_"},
		"a protocol of one letter":    {func(h *tls.ClientHelloInfo) { h.SupportedProtos = []string{"x"} }, "t13d1516xx_"},
		"TLS 1.2":                     {func(h *tls.ClientHelloInfo) { h.SupportedVersions = []uint16{tls.VersionTLS12} }, "t12d1516h2_"},
		"nothing at all":              {func(h *tls.ClientHelloInfo) { *h = tls.ClientHelloInfo{} }, "t00i000000_000000000000_000000000000"},
		"more suites than two digits": {func(h *tls.ClientHelloInfo) { h.CipherSuites = make([]uint16, 200) }, "t13d9916h2_"},
	}
	for name, tt := range tests {
		h := chromeHello()
		tt.change(h)
		if got := JA4(h); !strings.HasPrefix(got, tt.prefix) || len(got) != 36 {
			t.Errorf("%s: %s, want %s…", name, got, tt.prefix)
		}
	}
}

// TestAClassicalClientIsToldByItsKind shows that only connections which are
// not post-quantum, and refusals, carry the fingerprint.
func TestAClassicalClientIsToldByItsKind(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	client := func(g tls.CurveID) *tls.Config {
		return &tls.Config{RootCAs: roots, ServerName: "example.com", CurvePreferences: []tls.CurveID{g}}
	}
	prefer := newServer(t, Settings{Sources: []Source{src}})
	pq, classical := shake(t, prefer, client(tls.X25519MLKEM768)), shake(t, prefer, client(tls.X25519))
	mustBoth(t, pq)
	mustBoth(t, classical)
	if pq.server.JA4 != "" || !strings.HasPrefix(classical.server.JA4, "t13d") {
		t.Errorf("%q, %q", pq.server.JA4, classical.server.JA4)
	}
	refused := shake(t, newServer(t, Settings{Sources: []Source{src}, PQ: Require}), client(tls.X25519))
	if e, ok := refused.serverErr.(*RefusedError); !ok || e.JA4 != classical.server.JA4 {
		t.Errorf("%#v", refused.serverErr)
	}
}

func FuzzJA4(f *testing.F) {
	f.Add(uint16(0x1301), uint16(0), uint16(0x0403), "h2", uint16(tls.VersionTLS13))
	f.Fuzz(func(t *testing.T, cipher, extension, scheme uint16, proto string, version uint16) {
		got := JA4(&tls.ClientHelloInfo{
			CipherSuites: []uint16{cipher}, Extensions: []uint16{extension}, SignatureSchemes: []tls.SignatureScheme{tls.SignatureScheme(scheme)},
			SupportedProtos: []string{proto}, SupportedVersions: []uint16{version},
		})
		if len(got) != 36 || strings.ContainsFunc(got, func(r rune) bool { return r != '_' && (r > 127 || !alphanumeric(byte(r))) }) {
			t.Errorf("%q", got)
		}
	})
}
