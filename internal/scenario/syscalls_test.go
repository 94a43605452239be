package scenario

// Promise: an answer with its body, and a request with its, leave by one system
// call each, in the clear and over TLS, whichever protocol brought it.

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/hanzoai/pqgw/internal/peers"
	"github.com/hanzoai/pqgw/transports/zap"
)

// sent matches a system call that writes to a socket, with its result.
var sent = regexp.MustCompile(`(?m)(?:write|writev|sendto|sendmsg)\(\d+, .*\)\s+= (\d+)$`)

// heard matches those that read, whatever came of it.
var heard = regexp.MustCompile(`(?m)(?:read|recvfrom|recvmsg)\(\d+, .*\)\s+= (-?\d+)`)

func TestHeadAndBodyLeaveByOneSystemCall(t *testing.T) {
	strace := peers.Strace(t)
	ca := NewCA(t)
	leaf := ca.Leaf(t, "localhost", "127.0.0.1")
	// The origin writes by one call itself: what comes in two pieces leaves in two.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	origin := &fasthttp.Server{
		WriteBufferSize: 256 << 10,
		Handler:         func(c *fasthttp.RequestCtx) { c.SetBody(c.PostBody()) },
	}
	go func() { _ = origin.Serve(ln) }()
	t.Cleanup(func() { _ = origin.Shutdown() })
	zapOrigin := serveZAP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		_, _ = w.Write(b)
	}), nil)
	clear, secure, zapClear := FreeAddr(t), FreeAddr(t), FreeAddr(t)
	g := Run(t, fmt.Sprintf(`
version: 1
access_log: off
tls: {t: {certificates: {files: {cert: %s, key: %s}}}}
listeners:
  - {name: clear, address: %q, protocols: [h1]}
  - {name: secure, address: %q, protocols: [h1, zap], tls: t}
  - {name: zap, address: %q, protocols: [zap]}
routes: [{match: {path: /http/*}, to: http}, {match: {path: /zap/*}, to: zap}]
upstreams: {http: {endpoints: [%q]}, zap: {endpoints: ["zap://%s"]}}
`, leaf.CertFile, leaf.KeyFile, clear, secure, zapClear, "http://"+ln.Addr().String(), zapOrigin))
	cfg := &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}
	zc, zs := &zap.Client{}, &zap.Client{TLS: cfg}
	t.Cleanup(zc.Close)
	t.Cleanup(zs.Close)
	for _, in := range []struct {
		name string
		door door
	}{
		{"h1", door{&http.Client{}, "http://" + clear}},
		{"h1 over TLS", door{ca.Client(t, false), "https://" + secure}},
		{"zap", door{&http.Client{Transport: zc}, "zap://" + zapClear}},
		{"zap over TLS", door{&http.Client{Transport: zs}, "zap+tls://" + secure}},
	} {
		for _, out := range []string{"http", "zap"} {
			for _, size := range []int{1 << 10, 12 << 10, 40 << 10} {
				t.Run(fmt.Sprintf("%s to %s, %d KiB", in.name, out, size>>10), func(t *testing.T) {
					const n = 40
					writes, reads := trace(t, strace, g, n, func() { upload(t, in.door, out, size) })
					// A body that TCP brought in pieces leaves in pieces; heads apart from
					// their bodies would make three or four writes of every exchange.
					if writes < 2*n*9/10 || writes > 2*n*5/4 {
						t.Errorf("%d writes for %d exchanges, want one to the upstream and one to the client for each", writes, n)
					}
					t.Logf("%.1f reads an exchange", float64(reads)/n)
				})
			}
		}
	}
}

// upload sends a body and takes it back.
func upload(t *testing.T, d door, out string, size int) {
	t.Helper()
	body := bytes.Repeat([]byte("x"), size)
	resp, err := d.client.Post(d.url+"/"+out+"/", "application/octet-stream", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || len(got) != size {
		t.Fatalf("%d bytes came back: %v", len(got), err)
	}
}

// trace counts the system calls on sockets of n exchanges on a warm connection.
func trace(t *testing.T, strace string, g *Gateway, n int, exchange func()) (writes, reads int) {
	t.Helper()
	exchange()
	exchange()
	out := filepath.Join(t.TempDir(), "calls")
	ctx, cancel := context.WithTimeout(t.Context(), 2*Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, strace, "-f", "-s", "0", "-e", "trace=read,write,readv,writev,recvfrom,sendto,recvmsg,sendmsg",
		"-o", out, "-p", strconv.Itoa(g.PID()))
	p := StartProcess(t, cmd)
	p.Stderr.AwaitText(t, "attached")
	for range n {
		exchange()
	}
	p.Signal(t, syscall.SIGINT)
	<-p.Exited()
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(joinUnfinished(b)), "<detached ...>", "")
	for _, m := range sent.FindAllStringSubmatch(text, -1) {
		if size, _ := strconv.Atoi(m[1]); size > 8 { // the runtime wakes its poller by 8 bytes
			writes++
		}
	}
	return writes, len(heard.FindAllString(text, -1))
}

// unfinished and resumed are the halves of a call that another thread interrupted.
var (
	unfinished = regexp.MustCompile(`^(\d+) +(.*) <unfinished \.\.\.>$`)
	resumed    = regexp.MustCompile(`^(\d+) +<\.\.\. \w+ resumed>(.*)$`)
)

func joinUnfinished(b []byte) []byte {
	begun := map[string]string{}
	var out bytes.Buffer
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\n")
		if m := unfinished.FindStringSubmatch(line); m != nil {
			begun[m[1]] = m[2]
		} else if m := resumed.FindStringSubmatch(line); m != nil {
			fmt.Fprintf(&out, "%s %s%s\n", m[1], begun[m[1]], m[2])
		} else {
			out.WriteString(line + "\n")
		}
	}
	return out.Bytes()
}
