package scenario

// Promise: a flood of handshakes that are never finished, half open or dribbling, takes
// no more than its limits: connections that are kept go on as before, and when it ends new
// ones are served.

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// flood opens connections over and over that never finish their handshake, until stop.
type flood struct {
	addr  string
	hello []byte // what a dribbling one sends, a byte at a time; nothing for half open ones
	stop  chan struct{}
	wait  sync.WaitGroup
}

func startFlood(t testing.TB, addr string, dribbling bool, attackers int) (stop func()) {
	t.Helper()
	f := &flood{addr: addr, stop: make(chan struct{})}
	if dribbling {
		f.hello = recordHello(t)
	}
	for range attackers {
		f.wait.Go(f.attack)
	}
	stop = sync.OnceFunc(func() {
		close(f.stop)
		f.wait.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// pace is between two bytes of a hello, and between the attempts of one attacker:
// a hundred of them make a thousand attempts a second, which on a machine of two cores
// costs the attacker itself little enough for the requests beside it to be timed.
const pace = 100 * time.Millisecond

func (f *flood) attack() {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		c, err := net.Dial("tcp", f.addr)
		if err == nil {
			f.hold(c, tick)
			_ = c.Close()
		}
		select {
		case <-f.stop:
			return
		case <-tick.C:
		}
	}
}

// hold keeps the connection until the server ends it, or the flood does.
func (f *flood) hold(c net.Conn, tick *time.Ticker) {
	ended := make(chan struct{})
	f.wait.Go(func() {
		_, _ = io.Copy(io.Discard, c)
		close(ended)
	})
	defer func() {
		_ = c.Close()
		<-ended
	}()
	for sent := 0; ; {
		select {
		case <-f.stop:
			return
		case <-ended:
			return
		case <-tick.C:
			if sent < len(f.hello)-1 { // never the last byte
				if _, err := c.Write(f.hello[sent : sent+1]); err != nil {
					return
				}
				sent++
			}
		}
	}
}

// recordHello is the first flight of Go's client.
func recordHello(t testing.TB) []byte {
	t.Helper()
	near, far := net.Pipe()
	go func() {
		_ = tls.Client(near, &tls.Config{ServerName: "localhost"}).Handshake() //nolint:gosec // it never ends
	}()
	defer near.Close()
	b := make([]byte, 4096)
	n, err := far.Read(b)
	_ = far.Close()
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// floodFront has limits that the flood reaches.
func floodFront(t testing.TB) (g *Gateway, addr string, ca *CA) {
	t.Helper()
	ca = NewCA(t)
	leaf := ca.Leaf(t, "localhost", "127.0.0.1")
	addr = FreeAddr(t)
	g = Run(t, fmt.Sprintf(`version: 1
access_log: off
tls: {public: {certificates: {files: [{cert: %q, key: %q}]}}}
limits: {handshakes: 64, handshakes_per_address: 48, handshake_timeout: 2s}
listeners: [{name: edge, address: %q, tls: public}]
routes: [{to: trace}]
`, leaf.CertFile, leaf.KeyFile, addr))
	return g, addr, ca
}

func TestAFloodOfHandshakesLeavesKeptConnectionsAlone(t *testing.T) {
	for name, dribbling := range map[string]bool{"half open": false, "dribbling": true} {
		t.Run(name, func(t *testing.T) {
			g, addr, ca := floodFront(t)
			client := ca.Client(t, false)
			get := func() (bool, error) {
				_, _, err := Get(client, "https://"+addr+"/")
				return false, err
			}
			load := StartLoad(t, 2, get)
			load.AwaitProgress(t, 10) // both connections are there
			stop := startFlood(t, addr, dribbling, 100)
			Await(t, "the limit to be reached", func() bool {
				_, metrics := g.Admin(t, http.MethodGet, "/metrics")
				return strings.Contains(metrics, `pqgw_tls_refused_total{listener="edge",reason="too_many_from_address"}`)
			})
			load.AwaitProgress(t, 200)
			load.Stop(t)
			stop()
			fresh := ca.Client(t, false)
			Await(t, "a new connection to be served", func() bool {
				_, _, err := Get(fresh, "https://"+addr+"/")
				return err == nil
			})
		})
	}
}

// BenchmarkKeptConnectionsUnderAFloodOfHandshakes tells the 99th percentile of
// requests on kept connections, in quiet and under a flood, and the ratio of the two.
func BenchmarkKeptConnectionsUnderAFloodOfHandshakes(b *testing.B) {
	for _, kind := range []struct {
		name      string
		dribbling bool
	}{{"half open", false}, {"dribbling", true}} {
		b.Run(kind.name, func(b *testing.B) {
			_, addr, ca := floodFront(b)
			client := ca.Client(b, false)
			p99 := func(n int) time.Duration {
				took := make([]time.Duration, 0, n)
				for range n {
					begun := time.Now()
					if _, _, err := Get(client, "https://"+addr+"/"); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(begun))
				}
				slices.Sort(took)
				return took[len(took)*99/100]
			}
			const least = 500 // below which a 99th percentile is none
			n := max(b.N, least)
			p99(least)
			quiet := p99(n)
			stop := startFlood(b, addr, kind.dribbling, 100)
			p99(least)
			flooded := p99(n)
			stop()
			b.ReportMetric(float64(quiet.Microseconds()), "quiet-p99-µs")
			b.ReportMetric(float64(flooded.Microseconds()), "flood-p99-µs")
			b.ReportMetric(float64(flooded)/float64(quiet), "ratio")
		})
	}
}
