package http2

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/internal/peers"
)

// certificate makes a key pair for 127.0.0.1.
func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func h2specServer(t *testing.T, secure bool) (port string) {
	t.Helper()
	o := &Options{
		Handler: refusing(func(x *exchange.Exchange) {
			if x.Body != nil {
				for {
					if _, err := x.Body.Next(); err != nil {
						break
					}
				}
			}
			text(x, 200, "hello from the test of the specification")
		}),
		Limits: exchange.Limits{HeadBytes: 32 << 10, Fields: 128}, IdleTimeout: time.Minute, HeadTimeout: time.Minute,
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if secure {
		l = tls.NewListener(l, &tls.Config{
			Certificates: []tls.Certificate{certificate(t)}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		})
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { _ = Serve(nc, &exchange.Conn{Protocol: exchange.HTTP2}, o) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

func TestH2specPassesStrictWithoutAFailure(t *testing.T) {
	program := peers.H2spec(t)
	for _, c := range []struct {
		name   string
		secure bool
	}{{"in the clear", false}, {"over TLS", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--strict", "-h", "127.0.0.1", "-p", h2specServer(t, c.secure), "-o", "2"}
			if c.secure {
				args = append(args, "-t", "-k")
			}
			out, err := exec.Command(program, args...).CombinedOutput()
			if err != nil || !regexp.MustCompile(`14\d tests, 14\d passed, 0 skipped, 0 failed`).Match(out) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
