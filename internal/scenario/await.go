package scenario

import (
	"net"
	"sync"
	"testing"
	"time"
)

// pollEvery is the pause between two looks at a state.
const pollEvery = 10 * time.Millisecond

// Await polls until done says so; what names the state for the failure.
func Await(t testing.TB, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for %s", Patience, what)
		}
		<-tick.C
	}
}

var handedOut struct {
	sync.Mutex
	addrs map[string]bool
}

// FreeAddr is a loopback address with a TCP port that was free just now and
// that this test run has not handed out before.
func FreeAddr(t testing.TB) string {
	t.Helper()
	handedOut.Lock()
	defer handedOut.Unlock()
	if handedOut.addrs == nil {
		handedOut.addrs = make(map[string]bool)
	}
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("find a free port: %v", err)
		}
		addr := l.Addr().String()
		_ = l.Close()
		if !handedOut.addrs[addr] {
			handedOut.addrs[addr] = true
			return addr
		}
	}
}

// Port is the port of a host:port address.
func Port(t testing.TB, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
