package scenario

// Promise: a client that vanishes in the middle of a request, and one whose connection is ended
// for what it does, leave a line with a typed reason and a count, even where there was
// no request to log; one that only ends a connection leaves neither. The lines are limited in
// rate, the count is not.

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// h2Frame is a frame of HTTP/2.
func h2Frame(typ, flags byte, stream byte, payload string) string {
	return string([]byte{0, byte(len(payload) >> 8), byte(len(payload)), typ, flags, 0, 0, 0, stream}) + payload
}

func TestConnectionsThatBreakOffAreTold(t *testing.T) {
	for _, engine := range []string{"auto", "portable"} {
		t.Run(engine, func(t *testing.T) { testBroken(t, engine) })
	}
}

func testBroken(t *testing.T, engine string) {
	ca := NewCA(t)
	leaf := ca.Leaf(t, "a.example")
	clear, secure, zap := FreeAddr(t), FreeAddr(t), FreeAddr(t)
	g := Run(t, fmt.Sprintf(`
version: 1
tls: {t: {certificates: {files: {cert: %s, key: %s}}}}
listeners:
  - {name: clear, address: %q, protocols: [h1, h2c], engine: %s}
  - {name: secure, address: %q, tls: t, engine: %[4]s}
  - {name: zap, address: %[6]q, protocols: [zap], engine: %[4]s}
routes: [{to: trace}]
`, leaf.CertFile, leaf.KeyFile, clear, engine, secure, zap))
	const start = http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for _, c := range []struct {
		name, listener, sent, want string
	}{
		{"nothing sent", "clear", "", ""},
		{"an empty line", "clear", "\r\n", ""},
		{"a whole request", "clear", "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", ""},
		{"half a request line", "clear", "GET / HT", "head_cut"},
		{"half a head", "clear", "GET / HTTP/1.1\r\nHost: a.example\r\n", "head_cut"},
		{"half a second head", "clear", "GET / HTTP/1.1\r\nHost: a.example\r\n\r\nGET", "head_cut"},
		{"half a short body", "clear", "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\n\r\nab", "body_cut"},
		{"half a head", "secure", "GET / HTTP/1.1\r\n", "head_cut"},
		{"half a preface", "clear", http2.ClientPreface[:20], "head_cut"},
		{"a preface and settings", "clear", start, ""},
		{"half a frame of HTTP/2", "clear", start + h2Frame(1, 4, 1, "12345678")[:12], "head_cut"},
		{"a field section of HTTP/2 without its end", "clear", start + h2Frame(1, 0, 1, ""), "head_cut"},
		{"a frame that is not allowed", "clear", start + h2Frame(0, 0, 0, "a"), "h2_protocol_error"},
		{"a flood", "clear", start + strings.Repeat(h2Frame(6, 0, 0, "12345678"), 6000), "h2_enhance_your_calm"},
		{"half a frame of ZAP", "zap", "\x00\x01", "head_cut"},
	} {
		t.Run(c.listener+": "+c.name, func(t *testing.T) {
			before, counted := brokenLines(g), brokenCount(t, g, c.listener)
			sendAndVanish(t, c.listener, map[string]string{"clear": clear, "secure": secure, "zap": zap}[c.listener], ca, c.sent)
			Await(t, "the connection to end", func() bool {
				_, metrics := g.Admin(t, http.MethodGet, "/metrics")
				return strings.Contains(metrics, fmt.Sprintf("pqgw_connections{listener=%q} 0\n", c.listener))
			})
			if c.want == "" {
				if n := brokenCount(t, g, c.listener); n != counted {
					t.Errorf("counted as broken:\n%s", n)
				}
				return
			}
			Await(t, "the line and the count", func() bool {
				n := brokenCount(t, g, c.listener)
				lines := brokenLines(g)
				return n != counted && strings.Contains(n, fmt.Sprintf("reason=%q", c.want)) && len(lines) > len(before) &&
					strings.Contains(lines[len(lines)-1], fmt.Sprintf(`"listener":%q,"client":"127.0.0.1","protocol":`, c.listener)) &&
					strings.Contains(lines[len(lines)-1], fmt.Sprintf(`"error":%q`, c.want))
			})
		})
	}
}

// sendAndVanish lets the gateway read what was sent, as far as it does, and closes.
func sendAndVanish(t *testing.T, listener, addr string, ca *CA, sent string) {
	t.Helper()
	var c net.Conn
	var err error
	if listener == "secure" {
		c, err = tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool(), ServerName: "a.example", NextProtos: []string{"http/1.1"}})
	} else {
		c, err = net.Dial("tcp", addr)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(Patience))
	_, _ = io.WriteString(c, sent) // a flood is cut off
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, c)
}

func brokenLines(g *Gateway) (lines []string) {
	for _, line := range g.Stdout.All() {
		if strings.Contains(line, `"event":"connection_broken"`) {
			lines = append(lines, line)
		}
	}
	return lines
}

// brokenCount is what the metrics say of a listener's broken connections.
func brokenCount(t *testing.T, g *Gateway, listener string) string {
	t.Helper()
	_, metrics := g.Admin(t, http.MethodGet, "/metrics")
	var found []string
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, fmt.Sprintf("pqgw_connections_broken_total{listener=%q", listener)) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}
