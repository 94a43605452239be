package scenario

// Promise: a WebSocket towards a service that is reached by ZAP, which cannot
// carry one, is refused with 501 and a text that says so.

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestAWebSocketTowardsZAPIsRefusedClearly(t *testing.T) {
	at := serveZAP(t, http.NotFoundHandler(), nil)
	addr := FreeAddr(t)
	Run(t, fmt.Sprintf(`
version: 1
access_log: off
listeners: [{name: l, address: %q, protocols: [h1]}]
routes: [{to: u}]
upstreams: {u: {endpoints: ["zap://%s"]}}
`, addr, at))
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusNotImplemented || !strings.Contains(string(b), "WebSocket") {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
}
