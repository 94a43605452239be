package scenario

import (
	"fmt"
	"net/http"
	"testing"
)

// The promise: WebSockets go through, from an HTTP/1.1 upgrade and from an
// extended CONNECT over HTTP/2 (RFC 8441) alike, with their subprotocol, their
// messages and their close codes. Client and origin are node's ws.

// wsFacts is what the clients print.
type wsFacts struct {
	Offered  bool // HTTP/2: the setting that allows extended CONNECT
	Status   int
	Protocol string
	Echoes   int
	Code     int
	Error    string
}

func TestWebSocketOverHTTP1(t *testing.T) {
	for _, portable := range []bool{false, true} {
		t.Run(fmt.Sprintf("portable=%v", portable), func(t *testing.T) {
			origin, addr := NodeServer(t, "ws-server.mjs")
			f := NewFront(t, FrontOptions{Portable: portable, Routes: To("http://" + addr)})
			var facts wsFacts
			NodeResult(t, &facts, "ws-client.mjs", "wss://localhost:"+Port(t, f.Addr)+"/chat?room=1", f.CA.File)
			if want := (wsFacts{Protocol: "echo", Echoes: 4, Code: 4001}); facts != want {
				t.Errorf("the client says %+v, want %+v", facts, want)
			}
			origin.Stdout.AwaitText(t, `"opened":"/chat?room=1"`)
			origin.Stdout.AwaitText(t, `{"closed":4001}`)
			entry := f.AwaitAccess(t, "the tunnel", func(a Access) bool { return a.Path == "/chat" })
			if entry.Status != http.StatusSwitchingProtocols || entry.Protocol != "h1" {
				t.Errorf("the access log says %+v, want h1 with 101", entry)
			}
		})
	}
}

func TestWebSocketOverHTTP2(t *testing.T) {
	origin, addr := NodeServer(t, "ws-server.mjs")
	f := NewFront(t, FrontOptions{Routes: To("http://" + addr)})
	var facts wsFacts
	NodeResult(t, &facts, "ws-h2-client.mjs", "https://localhost:"+Port(t, f.Addr), "/chat", f.CA.File)
	if want := (wsFacts{Offered: true, Status: http.StatusOK, Protocol: "echo", Echoes: 3, Code: 4002}); facts != want {
		t.Errorf("the client says %+v, want %+v", facts, want)
	}
	line := origin.Stdout.AwaitText(t, `"opened":"/chat"`)
	if want := `"version":"1.1"`; !containsAll(line, want, `"pq":"1"`, `"group":"X25519MLKEM768"`) {
		t.Errorf("the origin saw %s, want an HTTP/1.1 upgrade marked post-quantum", line)
	}
	origin.Stdout.AwaitText(t, `{"closed":4002}`)
}

func TestUpgradeThatTheOriginRefusesIsNoTunnel(t *testing.T) {
	origin := NewOrigin(t, false, nil) // knows nothing of WebSockets and answers 200
	f := NewFront(t, FrontOptions{Routes: To(origin.URL)})
	var facts wsFacts
	NodeResult(t, &facts, "ws-client.mjs", "wss://localhost:"+Port(t, f.Addr)+"/", f.CA.File)
	if facts.Error != "status 200" {
		t.Errorf("the client says %+v, want the origin's status 200", facts)
	}
}
