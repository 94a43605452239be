package zap

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/http1"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
	"github.com/hanzoai/pqgw/transports/stream"
)

// benchServer, in the environment, makes this binary one of the servers that are
// compared, so that each one's CPU can be told apart from its client's.
const benchServer = "PQGW_ZAP_BENCH_SERVER"

var benchSizes = []int{16, 1 << 10, 4 << 10, 64 << 10, 1 << 20}

// runBenchServer serves until stdin ends, and tells its CPU time and allocations
// for each line of it.
func runBenchServer(kind string) {
	bodies := map[string][]byte{}
	for _, n := range benchSizes {
		bodies[fmt.Sprintf("/%d", n)] = bytes.Repeat([]byte("b"), n)
	}
	h := func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("application/json")
		ctx.SetBody(bodies[string(ctx.Path())])
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(ln.Addr())
	go func() {
		switch kind {
		case "zap":
			_ = (&Server{Handler: FastHTTP(h)}).Serve(ln)
			return
		case "zap+tls":
			_ = (&Server{Handler: FastHTTP(h), TLS: serialtest.Config(ALPN)}).Serve(ln)
			return
		case "h1+tls":
			serveHTTP1(ln, FastHTTP(h))
			return
		}
		_ = (&fasthttp.Server{Handler: h, NoDefaultServerHeader: true, NoDefaultDate: true}).Serve(ln)
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var u syscall.Rusage
		var m runtime.MemStats
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		runtime.ReadMemStats(&m)
		fmt.Println(u.Utime.Nano()+u.Stime.Nano(), m.Mallocs)
	}
	os.Exit(0)
}

// serveHTTP1 serves our own HTTP/1.1 over TLS.
func serveHTTP1(ln net.Listener, h exchange.Handler) {
	cfg := serialtest.Config()
	o := &http1.Options{Options: serialtest.Options(deadline.New(), h)}
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			st := &stream.Stream{Sock: stream.NewSocket(nc, false, nil)}
			st.TLS = tls.Server(st.Sock, cfg)
			if st.TLS.Handshake() == nil {
				_ = http1.NewConn(st, &exchange.Conn{}, st.Sock.FD(), o).Serve()
			}
		}()
	}
}

// peer is one of the servers, and a kept-alive connection to it.
type peer struct {
	b       *testing.B
	in      io.WriteCloser
	out     *bufio.Reader
	c       net.Conn
	request []byte
	answer  int // bytes of an answer
	buf     []byte
}

func startPeer(b *testing.B, kind string) *peer {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), benchServer+"="+kind, "GOMAXPROCS=1")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	p := &peer{b: b, in: in, out: bufio.NewReader(out), buf: make([]byte, 2<<20)}
	addr, err := p.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	if p.c, err = net.Dial("tcp", strings.TrimSpace(addr)); err != nil {
		b.Fatal(err)
	}
	if strings.HasSuffix(kind, "+tls") {
		p.c = tls.Client(p.c, &tls.Config{InsecureSkipVerify: true, NextProtos: alpnOf(kind)}) //nolint:gosec // the benchmark's own
	}
	b.Cleanup(func() {
		_ = p.c.Close()
		_ = in.Close()
		_ = cmd.Wait()
	})
	return p
}

func alpnOf(kind string) []string {
	if kind == "zap+tls" {
		return []string{ALPN}
	}
	return nil
}

// cost asks for the CPU time and the allocations so far.
func (p *peer) cost() (cpu, allocs int64) {
	fmt.Fprintln(p.in)
	if _, err := fmt.Fscan(p.out, &cpu, &allocs); err != nil {
		p.b.Fatal(err)
	}
	return cpu, allocs
}

// learn sends the request once and finds out how long answers are.
func (p *peer) learn(request []byte) {
	p.request = request
	_, _ = p.c.Write(request)
	n := 0
	for {
		// A pause after bytes is the end of the answer; TLS survives a deadline of reads.
		_ = p.c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		k, err := p.c.Read(p.buf[n:])
		n += k
		if err != nil && n > 0 {
			break
		}
	}
	_ = p.c.SetReadDeadline(time.Time{})
	p.answer = n
}

func (p *peer) run(n int) {
	for range n {
		if _, err := p.c.Write(p.request); err != nil {
			p.b.Fatal(err)
		}
		if _, err := io.ReadFull(p.c, p.buf[:p.answer]); err != nil {
			p.b.Fatal(err)
		}
	}
}

// turn runs n exchanges, and gives the CPU time of each in nanoseconds and the allocations of all.
func (p *peer) turn(n int) (cost float64, allocs int64) {
	c0, a0 := p.cost()
	p.run(n)
	c1, a1 := p.cost()
	return float64(c1-c0) / float64(n), a1 - a0
}

// BenchmarkBesideFasthttp compares the CPU that an exchange costs a ZAP server with
// what it costs fasthttp's HTTP server: the same handler, kept-alive, plain TCP, in turns, so
// that what else the machine does meets both. Of the turns' ratios the median counts, of each
// one's cost the best turn, since other work only ever adds.
func BenchmarkBesideFasthttp(b *testing.B) { compare(b, "zap", "http") }

// BenchmarkBesideHTTP1OverTLS does the same with our own HTTP/1.1, both over TLS.
func BenchmarkBesideHTTP1OverTLS(b *testing.B) { compare(b, "zap+tls", "h1+tls") }

func compare(b *testing.B, ours, theirs string) {
	for _, size := range benchSizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			zp, hp := startPeer(b, ours), startPeer(b, theirs)
			path := fmt.Sprintf("/%d", size)
			zp.learn(request(b, "GET", path, "", "Accept: application/json", "User-Agent: bench/1"))
			hp.learn([]byte("GET " + path + " HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\nUser-Agent: bench/1\r\n\r\n"))
			zp.run(100)
			hp.run(100)
			var za int64
			zbest, hbest := math.Inf(1), math.Inf(1)
			batch := max(1, min(1000, 16<<20/size))
			done := 0
			var ratios []float64
			for turn := 0; b.Loop(); turn++ {
				var z, h float64
				var allocs int64
				if turn%2 == 0 {
					z, allocs = zp.turn(batch)
					h, _ = hp.turn(batch)
				} else {
					h, _ = hp.turn(batch)
					z, allocs = zp.turn(batch)
				}
				ratios = append(ratios, z/h)
				zbest, hbest = min(zbest, z), min(hbest, h)
				za, done = za+allocs, done+batch
			}
			slices.Sort(ratios)
			b.ReportMetric(zbest, "zap-ns/op")
			b.ReportMetric(hbest, "http-ns/op")
			b.ReportMetric(ratios[len(ratios)/2], "ratio")
			b.ReportMetric(float64(za)/float64(done), "zap-allocs/op")
		})
	}
}
