package relay

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rtt = 60 * time.Millisecond

// within reports whether took is so many round trips, a third of one late at most.
func within(t *testing.T, what string, took time.Duration, trips int) {
	t.Helper()
	if want := time.Duration(trips) * rtt; took < want-time.Millisecond || took > want+rtt/3 {
		t.Errorf("%s took %v, want %v", what, took, want)
	}
}

func TestTCPIsDelayedByARoundTripAndItsSYNByOneMore(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	r, err := ListenTCP(l.Addr().String(), rtt)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	began := time.Now()
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, 5)
	for i, trips := range []int{2, 1, 1} {
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "hello" {
			t.Fatalf("%q %v", buf, err)
		}
		within(t, []string{"the first exchange", "the second", "the third"}[i], time.Since(began), trips)
		began = time.Now()
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(c); err != nil || len(rest) != 0 {
		t.Errorf("after the end: %q %v", rest, err)
	}
}

func TestTCPCarriesWhatIsLargerThanAnyBufferWhole(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sent := bytes.Repeat([]byte("0123456789abcdef"), 256<<10) // 4 MiB
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Write(sent)
		_ = c.Close()
	}()
	r, err := ListenTCP(l.Addr().String(), 4*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d, %v", len(got), len(sent), err)
	}
}

func TestUDPIsDelayedForEachClientApart(t *testing.T) {
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		buf := make([]byte, 64)
		for {
			n, from, err := server.ReadFromUDP(buf)
			if err != nil {
				return
			}
			_, _ = server.WriteToUDP(buf[:n], from)
		}
	}()
	r, err := ListenUDP(server.LocalAddr().String(), rtt)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, word := range []string{"one", "two"} {
		c, err := net.Dial("udp", r.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		began := time.Now()
		if _, err := c.Write([]byte(word)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64)
		_ = c.SetReadDeadline(began.Add(5 * time.Second))
		n, err := c.Read(buf)
		if err != nil || string(buf[:n]) != word {
			t.Fatalf("%q %v", buf[:n], err)
		}
		within(t, word, time.Since(began), 1)
	}
}
