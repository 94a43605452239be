package scenario

// Promise: the fields that tell upstreams of a connection are the gateway's word alone. No
// spelling of them in a request, and no Connection option or trailer, adds to them or takes
// one away, whichever protocol brought it.

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestNobodySpeaksForTheGateway(t *testing.T) {
	origin := NewOrigin(t, false, nil)
	addr := FreeAddr(t)
	Run(t, fmt.Sprintf(`
version: 1
listeners: [{name: clear, address: %q, protocols: [h1, h2c]}]
routes: [{to: o}]
upstreams: {o: {endpoints: [%q]}}
`, addr, origin.URL))
	names := []string{
		"X-PQ", "X-PQ-Group", "X-Peer-Identity", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Real-IP", "X-Request-ID",
		"Early-Data",
	}
	var forged []string
	for _, name := range names {
		forged = append(forged, name, strings.ReplaceAll(name, "-", "_"), strings.ToLower(name), strings.Replace(name, "-", "_", 1))
	}
	t.Run("h1", func(t *testing.T) {
		head := "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\nConnection: close, " + strings.Join(names, ", ") + "\r\n"
		end := "0\r\n"
		for _, name := range forged {
			head += name + ": forged\r\n"
			end += name + ": forged\r\n"
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(Patience))
		_, _ = io.WriteString(c, head+"\r\n3\r\nabc\r\n"+end+"\r\n")
		if _, err := io.ReadAll(c); err != nil {
			t.Fatal(err)
		}
		checkOwnFields(t, origin.Last(t))
	})
	t.Run("h2", func(t *testing.T) {
		var lines []string
		for _, name := range forged {
			lines = append(lines, strings.ToLower(name)+": forged")
		}
		v, _ := overHTTP2(func(t *testing.T) net.Conn {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			return c
		})(t, &message{h2: get(lines...)})
		if v.Status != http.StatusOK {
			t.Fatal(v)
		}
		checkOwnFields(t, origin.Last(t))
	})
}

func checkOwnFields(t *testing.T, seen Seen) {
	t.Helper()
	for _, h := range []http.Header{seen.Header, seen.Trailer} {
		for name, values := range h {
			if strings.Contains(strings.Join(values, ","), "forged") {
				t.Errorf("%s: %q reached the origin", name, values)
			}
		}
	}
	for name, want := range map[string]string{
		"X-Pq": "0", "X-Pq-Group": "none", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "a.example", "X-Real-Ip": "127.0.0.1",
	} {
		if got := seen.Header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q once", name, got, want)
		}
	}
	if id := seen.Header.Values("X-Request-Id"); len(id) != 1 || len(id[0]) != 32 {
		t.Errorf("X-Request-Id: %q", id)
	}
}
