package handshake

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The client of the benchmarks runs in a process of its own, so that what is
// counted is the server's part alone.
const (
	clientAddress = "HANDSHAKE_TEST_CLIENT" // address to connect to, again and again
	clientRoots   = "HANDSHAKE_TEST_ROOTS"  // PEM file
	clientResumes = "HANDSHAKE_TEST_RESUME" // "1": with a session cache
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(clientAddress); addr != "" {
		os.Exit(beClient(addr))
	}
	goleak.VerifyTestMain(m)
}

// beClient connects until the server is gone.
func beClient(addr string) int {
	pem, err := os.ReadFile(os.Getenv(clientRoots))
	if err != nil {
		return 1
	}
	c := &tls.Config{ServerName: "example.com", RootCAs: x509.NewCertPool()}
	c.RootCAs.AppendCertsFromPEM(pem)
	if os.Getenv(clientResumes) == "1" {
		c.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	for {
		raw, err := net.Dial("tcp", addr)
		if err != nil {
			return 0
		}
		_, _ = tls.Client(raw, c).Read(make([]byte, 1)) // the byte comes after the ticket
		_ = raw.Close()
	}
}

// clients is a listener at which another process makes one connection after the other.
func clients(tb testing.TB, leaf *x509.Certificate, resume string) net.Listener {
	tb.Helper()
	roots := filepath.Join(tb.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, encodeCert(leaf.Raw), publicFile); err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), clientAddress+"="+l.Addr().String(), clientRoots+"="+roots, clientResumes+"="+resume)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = l.Close()
		if err := cmd.Wait(); err != nil {
			tb.Errorf("client: %v %s", err, stderr.String())
		}
	})
	return l
}

// serveOne accepts a connection, runs the handshake and says a byte.
func serveOne(tb testing.TB, l net.Listener, srv *Server) Facts {
	raw, err := l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	conn := srv.Conn(raw)
	f, err := srv.Handshake(context.Background(), conn)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := conn.Write([]byte{0}); err != nil {
		tb.Fatal(err)
	}
	if err := raw.Close(); err != nil {
		tb.Fatal(err)
	}
	return f
}

// cpu is the time that this process has computed.
func cpu(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchmarkServer(b *testing.B, resume string) {
	src, _ := selfSigned(b, "example.com")
	srv := newServer(b, Settings{Sources: []Source{src}})
	l := clients(b, src.cert.Leaf, resume)
	serveOne(b, l, srv)
	b.ReportAllocs()
	begin := cpu(b)
	for b.Loop() {
		if f := serveOne(b, l, srv); !f.PQ() || f.Resumed != (resume == "1") {
			b.Fatal(f)
		}
	}
	b.ReportMetric(float64((cpu(b)-begin).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// BenchmarkServerFull is the server's part of a full post-quantum handshake.
func BenchmarkServerFull(b *testing.B) { benchmarkServer(b, "0") }

// BenchmarkServerResumed is the server's part of a resumed one.
func BenchmarkServerResumed(b *testing.B) { benchmarkServer(b, "1") }

// TestOurPartOfAHandshakeIsSmall compares the allocations of a handshake
// through a Server with those of a bare configuration of crypto/tls.
func TestOurPartOfAHandshakeIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("counts allocations over many handshakes")
	}
	src, _ := selfSigned(t, "example.com")
	srv := newServer(t, Settings{Sources: []Source{src}})
	bare := &Server{rules: srv.rules, config: &tls.Config{
		Certificates: []tls.Certificate{src.cert}, MinVersion: tls.VersionTLS13, CurvePreferences: srv.rules.groups,
	}}
	for name, resume := range map[string]string{"full": "0", "resumed": "1"} {
		l := clients(t, src.cert.Leaf, resume)
		count := func(s *Server) float64 {
			serveOne(t, l, s)
			return testing.AllocsPerRun(100, func() { serveOne(t, l, s) })
		}
		ours, theirs := count(srv), count(bare)
		t.Logf("%s: %v allocations with the accept; bare crypto/tls %v", name, ours, theirs)
		// The attempt and the description of the hello; the rest is noise.
		if most := theirs + 5; ours > most {
			t.Errorf("%s: %v allocations, more than %v", name, ours, most)
		}
	}
}
