package scenario

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"testing"

	"github.com/hanzoai/pqgw/internal/peers"
)

// The promise: gRPC goes through: unary and streamed both ways at once,
// trailers and trailers-only errors, deadlines and cancellation, with HTTP/2
// over TLS or in the clear on either side. Client and server are grpc-go's
// interoperability pair.

var grpcCases = []string{
	"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
	"timeout_on_sleeping_server", "cancel_after_begin", "cancel_after_first_response",
	"status_code_and_message", "special_status_message", "custom_metadata",
	"unimplemented_method", "unimplemented_service",
}

func TestGRPCInterop(t *testing.T) {
	client, server := peers.GRPCInterop(t)
	ca := NewCA(t)
	leaf := ca.Leaf(t, "localhost", "127.0.0.1")
	plain := startGRPC(t, server)
	secure := startGRPC(t, server, "-use_tls", "-tls_cert_file", leaf.CertFile, "-tls_key_file", leaf.KeyFile)
	upstreams := map[string]string{
		"h2c":   To("h2c://" + plain),
		"https": fmt.Sprintf("routes: [{to: origin}]\nupstreams: {origin: {endpoints: [%q], tls: {ca: %q, pq: require}}}", "https://"+secure, ca.File),
	}
	for upstream, routes := range upstreams {
		f := NewFront(t, FrontOptions{Routes: routes})
		for listener, args := range map[string][]string{
			"tls":   {"-server_port", Port(t, f.Addr), "-use_tls", "-use_test_ca", "-ca_file", f.CA.File, "-server_host_override", "localhost"},
			"clear": {"-server_port", Port(t, f.Plain)},
		} {
			for _, name := range grpcCases {
				t.Run(listener+" to "+upstream+" "+name, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), Patience)
					defer cancel()
					args := append([]string{"-server_host", "127.0.0.1", "-test_case", name}, args...)
					if out, err := exec.CommandContext(ctx, client, args...).CombinedOutput(); err != nil {
						t.Errorf("%v: %v\n%s", args, err, out)
					}
				})
			}
		}
	}
}

// startGRPC starts the interop server and gives its address.
func startGRPC(t *testing.T, server string, args ...string) string {
	t.Helper()
	addr := FreeAddr(t)
	StartProcess(t, exec.Command(server, append([]string{"-port", Port(t, addr)}, args...)...))
	Await(t, "the interop server", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
	return addr
}
