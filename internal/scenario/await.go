package scenario

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// Ports that tests are given lie below the range from which the system takes those of
// clients: one from within it could become a client's own between our look and its use.
const (
	firstPort = 12000
	lastPort  = 32000
)

// reserved holds the locks of the ports this process was given, so that no other
// test process is given them, until it ends.
var reserved struct {
	sync.Mutex
	locks []*os.File
}

// FreeAddr is a loopback address whose TCP and UDP port nobody has, and which no
// test process of this machine is given again while this one runs.
func FreeAddr(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(os.TempDir(), "pqgw-test-ports")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	reserved.Lock()
	defer reserved.Unlock()
	for range 1000 {
		port := strconv.Itoa(firstPort + rand.IntN(lastPort-firstPort))
		lock, err := os.OpenFile(filepath.Join(dir, port), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatalf("find a free port: %v", err)
		}
		addr := net.JoinHostPort("127.0.0.1", port)
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !isFree(addr) {
			_ = lock.Close()
			continue
		}
		reserved.locks = append(reserved.locks, lock)
		return addr
	}
	t.Fatal("no port is free")
	return ""
}

// isFree reports whether nobody has the address, for TCP and for UDP.
func isFree(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	defer l.Close()
	u, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	_ = u.Close()
	return true
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
