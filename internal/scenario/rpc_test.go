package scenario

// Promise: ZAP calls reach the service that their method is routed to, over
// post-quantum TLS both ways, matched by their promises; a caller that agrees on no
// ALPN is served, as public peers are.

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/zapcodec"
)

// never is the method that rpcService leaves without an answer.
const never = 77

// rpcService answers each call but never with its own name and the payload, until
// the test ends.
func rpcService(t *testing.T, name string, cfg *tls.Config) string {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for r := bufio.NewReader(c); ; {
					f, err := zapcodec.FramingRPC.Read(r, nil, 0)
					var q zapcodec.RPCRequest
					if err != nil || zapcodec.ParseRPCRequest(f.Bytes, &q) != nil {
						return
					}
					if q.Method == never {
						continue
					}
					p := zapcodec.RPCResponse{Status: zapcodec.RPCOK, Promise: q.Promise, Body: []byte(name + ":" + string(q.Payload))}
					out, _ := zapcodec.FramingRPC.AppendPrefix(nil, zapcodec.DirectionResponse, p.Size())
					if out, err = zapcodec.AppendRPCResponse(out, &p); err != nil {
						return
					}
					if _, err := c.Write(out); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// rpcCaller is a public peer: it agrees on no ALPN.
type rpcCaller struct {
	t testing.TB
	*tls.Conn
	r *bufio.Reader
}

func callRPC(t testing.TB, addr string) *rpcCaller {
	t.Helper()
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}}) //nolint:gosec // the promise is another
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(Patience))
	return &rpcCaller{t, c, bufio.NewReader(c)}
}

func (c *rpcCaller) send(method, promise uint32, payload string) {
	c.t.Helper()
	if err := c.try(method, promise, payload); err != nil {
		c.t.Fatal(err)
	}
}

// try is send to a gateway that may close the connection meanwhile.
func (c *rpcCaller) try(method, promise uint32, payload string) error {
	q := zapcodec.RPCRequest{Method: method, Promise: promise, Payload: []byte(payload)}
	b, err := zapcodec.FramingRPC.AppendPrefix(nil, zapcodec.DirectionRequest, q.Size())
	if err == nil {
		b, err = zapcodec.AppendRPCRequest(b, &q)
	}
	if err == nil {
		_, err = c.Write(b)
	}
	return err
}

// answer waits for the next answer, whichever call it is to.
func (c *rpcCaller) answer() (promise uint32, text string, err error) {
	f, err := zapcodec.FramingRPC.Read(c.r, nil, 0)
	var p zapcodec.RPCResponse
	if err == nil {
		err = zapcodec.ParseRPCResponse(f.Bytes, &p)
	}
	return p.Promise, fmt.Sprintf("%d %s", p.Status, p.Body), err
}

// expect waits for an answer that begins so.
func (c *rpcCaller) expect(promise uint32, text string) {
	c.t.Helper()
	if to, got, err := c.answer(); err != nil || to != promise || !strings.HasPrefix(got, text) {
		c.t.Fatalf("promise %d: %q, error %v; want promise %d: %q", to, got, err, promise, text)
	}
}

func TestCallsReachTheServiceOfTheirMethod(t *testing.T) {
	dir := certificates(t, "service", "gateway")
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "service.pem"), filepath.Join(dir, "service-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	public := &tls.Config{Certificates: []tls.Certificate{cert}, CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}}
	users, ledger := rpcService(t, "users", public), rpcService(t, "ledger", public)
	addr := FreeAddr(t)
	g := Run(t, fmt.Sprintf(`
version: 1
access_log: %[1]s/access.log
tls:
  own: {certificates: {files: {cert: %[2]s/gateway.pem, key: %[2]s/gateway-key.pem}}, pq: require}
  mesh: {ca: %[2]s/ca.pem, pq: require}
listeners: [{name: rpc, address: %[3]s, protocols: [zap-rpc], tls: own}]
routes:
  - {match: {rpc_method: 1}, to: users}
  - {match: {rpc_method: 2}, to: ledger}
upstreams:
  users: {endpoints: "zap-rpc+tls://%[4]s", tls: mesh}
  ledger: {endpoints: "zap-rpc+tls://%[5]s", tls: mesh}
`, shortDir(t), dir, addr, users, ledger))

	c := callRPC(t, addr)
	want := map[uint32]string{70: "200 users:a", 71: "200 ledger:b", 5: "200 users:c", 6: "404 "}
	c.send(1, 70, "a")
	c.send(2, 71, "b")
	c.send(1, 5, "c")
	c.send(9, 6, "d")
	for len(want) > 0 {
		promise, got, err := c.answer()
		if err != nil {
			t.Fatalf("%v; still to come: %v\n%s", err, want, g.Stderr.String())
		}
		if want[promise] == "" || !strings.HasPrefix(got, want[promise]) {
			t.Errorf("promise %d: %q, want %q", promise, got, want[promise])
		}
		delete(want, promise)
	}
}
