package scenario

import (
	"fmt"
	"net/http"
	"os/exec"
	"syscall"
	"testing"

	"github.com/hanzoai/pqgw/internal/peers"
)

// The promise: an event stream arrives event by event, from its head on, over
// each protocol; a reload does not cut it; and when the client goes away the
// origin learns it.

// stream opens the events by curl, which prints the events unbuffered, and the
// head on stderr, as it comes.
func stream(t *testing.T, f *Front, way []string) *Process {
	t.Helper()
	args := append([]string{"-sS", "-N", "-v", "--cacert", f.CA.File}, way...)
	args[len(args)-1] += "/events"
	return StartProcess(t, exec.Command(peers.Curl(t), args...))
}

// tell gives the origin an order, past the gateway.
func tell(t *testing.T, addr, order string) {
	t.Helper()
	resp, err := http.Post("http://"+addr+order, "text/plain", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

func TestEventsArriveOneByOne(t *testing.T) {
	for _, portable := range []bool{false, true} {
		_, addr := NodeServer(t, "sse-server.mjs")
		f := NewFront(t, FrontOptions{Portable: portable, Routes: To("http://" + addr)})
		for name, way := range curlWays(f) {
			t.Run(fmt.Sprintf("%s portable=%v", name, portable), func(t *testing.T) {
				client := stream(t, f, way)
				// The head must come before there is any event.
				client.Stderr.AwaitText(t, ": text/event-stream")
				for range 3 {
					events := len(eventsIn(client))
					tell(t, addr, "/next") // only now may the next event be sent
					Await(t, "the next event", func() bool { return len(eventsIn(client)) == events+1 })
				}
				tell(t, addr, "/end")
				if code := client.ExitCode(t); code != 0 {
					t.Errorf("curl ended with %d: %s", code, client.Stderr.String())
				}
			})
		}
	}
}

func TestReloadDoesNotCutAStream(t *testing.T) {
	_, addr := NodeServer(t, "sse-server.mjs")
	options := FrontOptions{Routes: To("http://" + addr)}
	f := NewFront(t, options)
	for name, way := range curlWays(f) {
		t.Run(name, func(t *testing.T) {
			client := stream(t, f, way)
			client.Stderr.AwaitText(t, ": text/event-stream")
			f.Signal(t, syscall.SIGHUP)
			if status, body := f.Admin(t, http.MethodPost, "/reload"); status != http.StatusOK {
				t.Fatalf("POST /reload: %d %s", status, body)
			}
			tell(t, addr, "/next")
			client.Stdout.AwaitText(t, "data: event")
			tell(t, addr, "/end")
			if code := client.ExitCode(t); code != 0 {
				t.Errorf("curl ended with %d: %s", code, client.Stderr.String())
			}
		})
	}
}

func TestOriginLearnsThatTheClientIsGone(t *testing.T) {
	for _, name := range []string{"h1 tls", "h1 clear", "h2 tls", "h2 clear"} {
		t.Run(name, func(t *testing.T) {
			origin, addr := NodeServer(t, "sse-server.mjs")
			f := NewFront(t, FrontOptions{Routes: To("http://" + addr)})
			client := stream(t, f, curlWays(f)[name])
			client.Stderr.AwaitText(t, ": text/event-stream")
			client.Signal(t, syscall.SIGKILL)
			origin.Stdout.AwaitText(t, `{"gone":true}`)
		})
	}
}

// eventsIn are the data lines that a client has printed.
func eventsIn(p *Process) []string {
	var events []string
	for _, line := range p.Stdout.All() {
		if len(line) > 6 && line[:6] == "data: " {
			events = append(events, line)
		}
	}
	return events
}
