package scenario

// Promise: the limits on ZAP calls are the operator's: how many are in flight on a connection, how
// long a frame is, how long an answer may take. A reload changes the timeouts for the next call, the
// limits for the next connection.

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLimitsOnCallsAreConfigured(t *testing.T) {
	dir := certificates(t, "service", "gateway")
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "service.pem"), filepath.Join(dir, "service-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	users, addr := rpcService(t, "users", &tls.Config{Certificates: []tls.Certificate{cert}}), FreeAddr(t)
	config := func(calls int, frame, patience string) string {
		return fmt.Sprintf(`
version: 1
tls:
  own: {certificates: {files: {cert: %[1]s/gateway.pem, key: %[1]s/gateway-key.pem}}, pq: require}
  mesh: {ca: %[1]s/ca.pem, pq: require}
listeners: [{name: rpc, address: %[2]s, protocols: [zap-rpc], tls: own, limits: {calls: %[4]d, frame_bytes: %[5]s}}]
routes: [{match: {rpc_method: %[7]d}, to: users, timeouts: {first_byte: %[6]s}}, {to: users}]
upstreams: {users: {endpoints: "zap-rpc+tls://%[3]s", tls: mesh}}
`, dir, addr, users, calls, frame, patience, never)
	}
	g := Run(t, config(2, "8KiB", "1h"))

	old := callRPC(t, addr)
	old.send(never, 1, "")
	old.send(never, 2, "")
	old.send(1, 3, "")
	old.expect(3, "500 too many calls in flight")

	g.WriteConfig(t, config(4, "64KiB", "100ms"))
	if status, body := g.Admin(t, http.MethodPost, "/reload"); status != http.StatusOK {
		t.Fatalf("POST /reload: %d %s", status, body)
	}
	old.send(1, 3, "")
	old.expect(3, "500 too many calls in flight") // a connection keeps the limits that it began with
	c := callRPC(t, addr)
	for promise := range uint32(4) {
		c.send(never, promise, "")
	}
	c.send(1, 9, "")
	c.expect(9, "500 too many calls in flight")
	for range 4 {
		if _, got, err := c.answer(); err != nil || got != "500 the service did not answer in time" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	long := strings.Repeat("x", 32<<10)
	c.send(1, 9, long)
	c.expect(9, "200 users:"+long)
	_ = c.try(1, 10, strings.Repeat("x", 65<<10))
	if _, got, err := c.answer(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a frame over the limit: %q, %v; want the connection's end", got, err)
	}
	g.AwaitAccess(t, "a call that timed out", func(a Access) bool {
		return a.Protocol == "zap-rpc" && a.Error == "upstream_timeout" && a.Status == 500 && a.Upstream == "users"
	})
}
