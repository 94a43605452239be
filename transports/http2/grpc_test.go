package http2

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/internal/peers"
)

// relay passes exchanges on over one connection of ours.
func relay(t *testing.T, c *ClientConn) handlerFunc {
	return func(x *exchange.Exchange) {
		k, err := c.Call()
		if err != nil {
			t.Error(err)
			x.Responder.Abort(err)
			return
		}
		if err := x.OnCancel(k.Canceller()); err != nil {
			k.Canceller().Cancel(err)
		}
		sent := make(chan struct{})
		whole := x.Body == nil
		if !whole {
			_, whole = x.Body.Whole()
		}
		err = k.Send(x, x.Body, exchange.Timeouts{})
		if whole || err != nil {
			close(sent)
		} else {
			go func() {
				defer close(sent)
				_ = k.SendBody(x.Body) // its failure is met by ReadHead or Respond
			}()
		}
		x.Response.Status = 0
		for err == nil && x.Response.Status < 200 {
			err = k.ReadHead(&x.Response)
		}
		if err == nil {
			err = x.Responder.Respond(&x.Response, k.Body())
		}
		if err != nil {
			x.Responder.Abort(err)
		}
		x.OffCancel(k.Canceller())
		if x.Body != nil {
			x.Body.Close(nil)
		}
		k.Canceller().Cancel(context.Canceled)
		<-sent
		k.Finish()
	}
}

func TestGRPCInteropRunsThroughBothEnds(t *testing.T) {
	client, server := peers.GRPCInterop(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	up := exec.Command(server, "-port", port)
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = up.Process.Kill()
		_ = up.Wait()
	})
	eventually(t, "the server listens", func() bool {
		nc, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
	c := dial(t, "127.0.0.1:"+port, nil)
	s := serve(t, &Options{Handler: relay(t, c)})
	_, ours, _ := net.SplitHostPort(s.addr)
	for _, name := range []string{
		"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
		"timeout_on_sleeping_server", "cancel_after_begin", "cancel_after_first_response", "status_code_and_message",
		"special_status_message", "custom_metadata", "unimplemented_method", "unimplemented_service",
	} {
		t.Run(strings.ReplaceAll(name, "_", " "), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			out, err := exec.CommandContext(ctx, client, "-server_host", "127.0.0.1", "-server_port", ours, "-test_case", name).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
