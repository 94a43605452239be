package scenario

import (
	"bufio"
	"bytes"
	bigendian "encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/zapcodec"
)

// BenchmarkGatewayZAPBesideHTTP1 tells what an exchange of 1 KiB costs the gateway in CPU from
// ZAP to ZAP, beside what it costs from HTTP/1.1 to HTTP/1.1, both in the clear. The arms run in
// turns of one process, so that what else the machine does meets both; of the turns' ratios the
// median counts. `-benchtime 100x` is a hundred turns.
func BenchmarkGatewayZAPBesideHTTP1(b *testing.B) {
	fields := [][2]string{{"Content-Type", "application/json"}, {"Server", "bench"}}
	body := bytes.Repeat([]byte("b"), 1<<10)
	head := "HTTP/1.1 200 OK\r\n"
	pairs := make([]zapcodec.Pair, 0, len(fields))
	for _, f := range fields {
		head += f[0] + ": " + f[1] + "\r\n"
		pairs = append(pairs, zapcodec.Pair{Name: []byte(f[0]), Value: []byte(f[1])})
	}
	answer, err := (&zapcodec.Response{Status: 200, Headers: pairs, Body: body}).Append(nil, zapcodec.Prefix)
	if err != nil {
		b.Fatal(err)
	}
	asked := []zapcodec.Pair{{Name: []byte("Host"), Value: []byte("a")}, {Name: []byte("Accept"), Value: []byte("application/json")}}
	question, err := (&zapcodec.Request{Method: []byte("GET"), Target: []byte("/v1/models"), Headers: asked}).Append(nil, zapcodec.Prefix)
	if err != nil {
		b.Fatal(err)
	}
	h1, z := FreeAddr(b), FreeAddr(b)
	g := Run(b, fmt.Sprintf(`
version: 1
access_log: off
listeners: [{name: h1, address: %q, protocols: [h1], limits: {requests_per_connection: 0}}, {name: zap, address: %q, protocols: [zap], limits: {requests_per_connection: 0}}]
routes: [{match: {listener: h1}, to: h1}, {match: {listener: zap}, to: zap}]
upstreams: {h1: {endpoints: "http://%s"}, zap: {endpoints: "zap://%s"}}
`, h1, z, canned(b, readHead, fmt.Appendf(nil, "%sContent-Length: %d\r\n\r\n%s", head, len(body), body)), canned(b, readMessage, answer)))
	arms := []*benchArm{
		{addr: z, question: question},
		{addr: h1, question: []byte("GET /v1/models HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n")},
	}
	for _, a := range arms {
		a.connect(b)
		a.run(b, 500)
	}
	var ratios []float64
	for turn := 0; b.Loop(); turn++ {
		for i := range arms {
			arms[(i+turn)%2].turn(b, g.PID())
		}
		ratios = append(ratios, arms[0].last()/arms[1].last())
	}
	b.ReportMetric(median(arms[0].costs), "zap-cpu-µs/op")
	b.ReportMetric(median(arms[1].costs), "h1-cpu-µs/op")
	b.ReportMetric(median(ratios), "ratio")
}

// benchArm is one way through the gateway, on kept connections.
type benchArm struct {
	addr     string
	question []byte
	answer   []byte // room for one
	conns    [benchConns]net.Conn
	costs    []float64 // of each turn, µs of CPU for an exchange
}

// benchConns is how many connections ask at once: what the kernel takes to wake a gateway that
// sleeps, the same for all protocols, would hide what they cost.
const benchConns = 16

// turnExchanges is how many exchanges make a turn: some 20 ms.
const turnExchanges = 100 * benchConns

func (a *benchArm) connect(b *testing.B) {
	b.Helper()
	for i := range a.conns {
		c, err := net.Dial("tcp", a.addr)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() })
		a.conns[i] = c
	}
	a.learn(b, a.conns[0])
}

// learn finds out how long answers are: all are equally.
func (a *benchArm) learn(b *testing.B, c net.Conn) {
	b.Helper()
	_, err := c.Write(a.question)
	if err != nil {
		b.Fatal(err)
	}
	// A pause behind bytes is the end of the answer.
	room := make([]byte, 64<<10)
	n := 0
	for err == nil || n == 0 {
		_ = c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		var k int
		k, err = c.Read(room[n:])
		n += k
	}
	_ = c.SetReadDeadline(time.Time{})
	if !bytes.HasSuffix(room[:n], []byte("bbbb")) {
		b.Fatalf("the answer is %.300q", room[:n])
	}
	a.answer = room[:n]
}

func (a *benchArm) run(b *testing.B, n int) {
	for range n / benchConns {
		for _, c := range a.conns {
			if _, err := c.Write(a.question); err != nil {
				b.Fatal(err)
			}
		}
		for _, c := range a.conns {
			if _, err := io.ReadFull(c, a.answer); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func (a *benchArm) turn(b *testing.B, pid int) {
	before, err := bench.ProcessCPU(pid)
	if err != nil {
		b.Fatal(err)
	}
	a.run(b, turnExchanges)
	after, err := bench.ProcessCPU(pid)
	if err != nil {
		b.Fatal(err)
	}
	a.costs = append(a.costs, float64((after-before).Nanoseconds())/1e3/turnExchanges)
}

func (a *benchArm) last() float64 { return a.costs[len(a.costs)-1] }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// canned answers every request on a connection with the same bytes.
func canned(b *testing.B, read func(r *bufio.Reader) error, answer []byte) string {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for r := bufio.NewReader(c); read(r) == nil; {
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

func readHead(r *bufio.Reader) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil || strings.TrimSpace(string(line)) == "" {
			return err
		}
	}
}

func readMessage(r *bufio.Reader) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	_, err := r.Discard(int(bigendian.BigEndian.Uint32(size[:])))
	return err
}
