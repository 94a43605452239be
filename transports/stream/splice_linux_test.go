package stream

import (
	"io"
	"net"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkRelay compares ways to carry a long body of known length from one clear
// socket to another: read and write through 256 KiB of memory, as the transports do, and
// splice(2) through a pipe. The CPU is the process's, source and sink included, the same
// in both.
func BenchmarkRelay(b *testing.B) {
	for _, size := range []int64{64 << 10, 1 << 20, 16 << 20} {
		for _, way := range []struct {
			name string
			copy func(dst, src *net.TCPConn, n int64) error
		}{{"memory", relayMemory}, {"splice", relaySplice}} {
			b.Run(way.name+"/"+sizeName(size), func(b *testing.B) { relay(b, size, way.copy) })
		}
	}
}

func sizeName(n int64) string {
	if n >= 1<<20 {
		return map[int64]string{1 << 20: "1MiB", 16 << 20: "16MiB"}[n]
	}
	return "64KiB"
}

func relay(b *testing.B, size int64, way func(dst, src *net.TCPConn, n int64) error) {
	from, in := pair(b)
	out, to := pair(b)
	var wg sync.WaitGroup
	n := int64(b.N)
	wg.Go(func() {
		p := make([]byte, 256<<10)
		for left := size * n; left > 0; {
			k, err := from.Write(p[:min(left, int64(len(p)))])
			if err != nil {
				return
			}
			left -= int64(k)
		}
	})
	wg.Go(func() {
		p := make([]byte, 256<<10)
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{io.LimitReader(to, size*n)}, p)
	})
	before := cpu()
	b.ResetTimer()
	for range b.N {
		if err := way(out, in, size); err != nil {
			b.Fatal(err)
		}
	}
	wg.Wait()
	b.ReportMetric(float64(cpu()-before)/1e3/float64(n)/(float64(size)/(1<<20)), "cpu-us/MiB")
	b.SetBytes(size)
}

func relayMemory(dst, src *net.TCPConn, n int64) error {
	p := relayBuf
	for n > 0 {
		k, err := src.Read(p[:min(n, int64(len(p)))])
		if err != nil {
			return err
		}
		if _, err := dst.Write(p[:k]); err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

var relayBuf = make([]byte, 256<<10)

// relaySplice is what the standard library does between two TCP connections.
func relaySplice(dst, src *net.TCPConn, n int64) error {
	_, err := dst.ReadFrom(io.LimitReader(src, n))
	return err
}

func cpu() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(unix.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

func pair(b *testing.B) (a, c *net.TCPConn) {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	x, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	y, err := ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = x.Close()
		_ = y.Close()
	})
	return x.(*net.TCPConn), y.(*net.TCPConn) //nolint:forcetypeassert // of a TCP listener
}
