package handshake

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// reasonOf is the reason in a *RefusedError.
func reasonOf(t *testing.T, err error) Reason {
	t.Helper()
	var refused *RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("no *RefusedError: %v", err)
	}
	return refused.Reason
}

// TestEachKindOfRefusalHasItsReason provokes each refusal that crypto/tls has
// only a text for, so that a toolchain which changes the text fails here.
func TestEachKindOfRefusalHasItsReason(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	other, _ := selfSigned(t, "other.example")
	base := func() Settings { return Settings{Sources: []Source{src}, NextProtos: []string{"h2", "zap/1"}} }
	tests := []struct {
		name   string
		server func(*Settings)
		client func(*tls.Config)
		want   Reason
		alert  uint8 // 0: none is sent
	}{
		{"no group in common", nil, func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP521} }, NoSharedGroup, 40},
		{
			"no hybrid group where one is required", func(s *Settings) { s.PQ = Require },
			func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256} }, NoSharedPQGroup, 40,
		},
		{
			"a hybrid group, but none of the narrowed set",
			func(s *Settings) { s.PQ, s.Groups = Require, []tls.CurveID{tls.SecP384r1MLKEM1024} },
			func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768} }, NoSharedPQGroup, 40,
		},
		{"TLS 1.2 to a TLS 1.3 listener", nil, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, NoSharedVersion, 70},
		{
			"TLS 1.1 to a TLS 1.2 listener", func(s *Settings) { s.MinVersion = tls.VersionTLS12 },
			func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, NoSharedVersion, 70,
		},
		{
			"no cipher suite in common in TLS 1.2", func(s *Settings) { s.MinVersion = tls.VersionTLS12 },
			func(c *tls.Config) {
				c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
			},
			NoSharedCipher, 40,
		},
		{"no protocol in common", nil, func(c *tls.Config) { c.NextProtos = []string{"smtp"} }, NoSharedALPN, 120},
		{"an unknown name, strictly", func(s *Settings) { s.StrictSNI = true }, func(c *tls.Config) { c.ServerName = "unknown.example" }, NoSNIMatch, 112},
		{
			"no name, strictly", func(s *Settings) { s.StrictSNI = true },
			func(c *tls.Config) { c.ServerName, c.InsecureSkipVerify = "", true }, NoSNIMatch, 112,
		},
		{
			"a source that fails", func(s *Settings) { s.Sources = []Source{&fixed{err: errors.New("signer away")}} },
			nil, NoCertificate, 80,
		},
		{
			"no client certificate", func(s *Settings) {
				s.ClientAuth, s.ClientCAs = tls.RequireAndVerifyClientCert, []*x509.Certificate{src.cert.Leaf}
			}, nil, ClientCertificate, 116,
		},
		{
			"a client certificate nobody vouches for", func(s *Settings) {
				s.ClientAuth, s.ClientCAs = tls.RequireAndVerifyClientCert, []*x509.Certificate{src.cert.Leaf}
			}, func(c *tls.Config) {
				c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &other.cert, nil }
			}, ClientCertificate, 48,
		},
		{"a client that does not trust us", nil, func(c *tls.Config) { c.RootCAs = x509.NewCertPool() }, CertificateRejected, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, c := base(), &tls.Config{RootCAs: roots, ServerName: "example.com"}
			if tt.server != nil {
				tt.server(&s)
			}
			if tt.client != nil {
				tt.client(c)
			}
			o := shake(t, newServer(t, s), c)
			if got := reasonOf(t, o.serverErr); got != tt.want {
				t.Errorf("reason %s, want %s: %v", got, tt.want, o.serverErr)
			}
			var refused *RefusedError
			if errors.As(o.serverErr, &refused); refused.SNI != c.ServerName {
				t.Errorf("SNI %q, want %q", refused.SNI, c.ServerName)
			}
			if code, _ := remoteAlert(o.clientErr); code != tt.alert {
				t.Errorf("alert %d, want %d: %v", code, tt.alert, o.clientErr)
			}
		})
	}
}

// TestWhatIsNoHandshakeHasItsReason feeds the server bytes and ends that no
// TLS client would make.
func TestWhatIsNoHandshakeHasItsReason(t *testing.T) {
	src, _ := selfSigned(t, "example.com")
	srv := newServer(t, Settings{Sources: []Source{src}})
	tests := []struct {
		name string
		send []byte
		then func(net.Conn) // nil leaves the connection open
		want Reason
	}{
		{"plain HTTP", []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), nil, NotTLS},
		{"nothing, then closed", nil, func(c net.Conn) { _ = c.Close() }, EOF},
		{"half a record, then closed", []byte{22, 3, 1, 2, 0, 1}, func(c net.Conn) { _ = c.Close() }, EOF},
		{"half a record, then reset", []byte{22, 3, 1, 2, 0, 1}, func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() }, Reset},
		{"half a record, then silence", []byte{22, 3, 1, 2, 0, 1}, nil, Timeout},
		{"silence", nil, nil, Timeout},
		{"garbage in a handshake record", append([]byte{22, 3, 1, 0, 8, 1, 0, 0, 4}, "oops"...), nil, BadHello},
		{"another message than a hello", []byte{22, 3, 1, 0, 4, 20, 0, 0, 0}, nil, BadHello},
		{"a record that is too long", []byte{22, 3, 1, 0xff, 0xff}, nil, BadHello},
		{"a hello that is too long", []byte{22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff}, nil, BadHello},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			near, far := loopback(t)
			if tt.want == Timeout {
				if err := far.SetDeadline(time.Now().Add(30 * time.Millisecond)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := near.Write(tt.send); err != nil {
				t.Fatal(err)
			}
			if tt.then != nil {
				tt.then(near)
			}
			_, err := srv.Handshake(context.Background(), srv.Conn(far))
			if got := reasonOf(t, err); got != tt.want {
				t.Errorf("reason %s, want %s: %v", got, tt.want, err)
			}
		})
	}
}

func TestAHandshakeGivenUpByItsContextIsATimeoutOrCanceled(t *testing.T) {
	src, _ := selfSigned(t, "example.com")
	srv := newServer(t, Settings{Sources: []Source{src}})
	_, far := loopback(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := srv.Handshake(ctx, srv.Conn(far))
	if got := reasonOf(t, err); got != Timeout {
		t.Errorf("after its time: %s", got)
	}
	_, far = loopback(t)
	cancelled, giveUp := context.WithCancel(context.Background())
	giveUp()
	_, err = srv.Handshake(cancelled, srv.Conn(far))
	if got := reasonOf(t, err); got != Canceled {
		t.Errorf("given up: %s", got)
	}
}

// TestAnUpstreamFailureSaysThePolicyAndHints covers the client's side.
func TestAnUpstreamFailureSaysThePolicyAndHints(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	classical := newServer(t, Settings{Sources: []Source{src}, Groups: []tls.CurveID{tls.X25519}, NextProtos: []string{"h2"}})
	mutual := newServer(t, Settings{Sources: []Source{src}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: []*x509.Certificate{src.cert.Leaf}})
	tests := []struct {
		name   string
		server func(net.Conn)
		client ClientSettings
		want   Reason
		hint   string
	}{
		{"classical upstream, pq required", serve(classical), ClientSettings{PQ: Require}, NoSharedPQGroup, "pq: prefer"},
		{"no group in common", serve(classical), ClientSettings{PQ: Off, Groups: []tls.CurveID{tls.CurveP384}}, NoSharedGroup, "groups"},
		{"no protocol in common", serve(classical), ClientSettings{NextProtos: []string{"zap/1"}}, NoSharedALPN, "protocols"},
		{"another name", serve(classical), ClientSettings{ServerName: "other.example"}, ServerCertificate, "server_name"},
		{"unknown CA", serve(classical), ClientSettings{Roots: x509.NewCertPool()}, ServerCertificate, "ca"},
		{"no certificate of ours", serve(mutual), ClientSettings{}, ClientCertificate, "client certificate"},
		{"an upstream without TLS", func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, ClientSettings{}, NotTLS, "TLS"},
		{"a firewall that closes", func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 1000)) }, ClientSettings{}, "", "firewall"},
		{"a firewall that falls silent", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, ClientSettings{PQ: Require}, Timeout, "pq: off"},
		{"silence with pq off", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, ClientSettings{PQ: Off}, Timeout, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.client.Roots == nil {
				tt.client.Roots = roots
			}
			if tt.client.ServerName == "" {
				tt.client.ServerName = "example.com"
			}
			client, err := NewClient(tt.client)
			if err != nil {
				t.Fatal(err)
			}
			err = dialUpstream(t, client, tt.server, tt.want == Timeout)
			got := reasonOf(t, err)
			if tt.want == "" && (got == EOF || got == Reset) { // which of the two is the kernel's choice
				got = ""
			}
			if got != tt.want {
				t.Errorf("reason %s, want %s: %v", got, tt.want, err)
			}
			var refused *RefusedError
			errors.As(err, &refused)
			if h := refused.Hint(); tt.hint == "" && strings.Contains(h, "firewall") || !strings.Contains(h, tt.hint) {
				t.Errorf("hint %q, want %q in it", h, tt.hint)
			}
			if !strings.Contains(err.Error(), "pq: "+tt.client.PQ.String()) {
				t.Errorf("the policy is not in %q", err)
			}
		})
	}
}

// serve is one handshake of srv on a connection.
func serve(srv *Server) func(net.Conn) {
	return func(c net.Conn) { _, _ = srv.Handshake(context.Background(), srv.Conn(c)) }
}

// dialUpstream runs a handshake with an upstream and the first read after it.
func dialUpstream(t *testing.T, client *Client, upstream func(net.Conn), silent bool) error {
	t.Helper()
	near, far := loopback(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		upstream(far)
		_ = far.Close()
	}()
	if silent {
		if err := near.SetDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	conn := client.Conn(near, "127.0.0.1:1")
	_, err := client.Handshake(context.Background(), conn, "127.0.0.1:1")
	if err == nil {
		if _, err = conn.Read(make([]byte, 1)); err != nil {
			err = client.Refuse(err)
		}
	}
	_ = near.Close()
	<-done
	return err
}

func TestAnUpstreamThatIsNotThereIsConnect(t *testing.T) {
	client, err := NewClient(ClientSettings{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, err = net.Dial("tcp", addr)
	if r := client.Refuse(err); r.Reason != Connect || r.Hint() == "" {
		t.Errorf("%v: %s, %q", r, r.Reason, r.Hint())
	}
}

// TestAHelloSplitInAnyWayIsRead sends one hello, with a ticket of 2 KiB, in
// all the ways that have broken others.
func TestAHelloSplitInAnyWayIsRead(t *testing.T) {
	src, roots := selfSigned(t, "example.com")
	srv := newServer(t, Settings{Sources: []Source{src}, NextProtos: []string{"h2"}, PQ: Require})
	client := func() *tls.Config {
		return &tls.Config{
			RootCAs: roots, ServerName: "example.com", NextProtos: []string{"h2"}, CurvePreferences: []tls.CurveID{tls.X25519MLKEM768},
			ClientSessionCache: bigTicket(t, srv, roots),
		}
	}
	split := func(sizes func(n int) []int) func([]byte) [][]byte {
		return func(b []byte) (parts [][]byte) {
			for _, n := range sizes(len(b)) {
				parts, b = append(parts, b[:n]), b[n:]
			}
			return append(parts, b)
		}
	}
	bytewise := split(func(n int) []int { return slicesRepeat(1, n-1) })
	tests := map[string]func([]byte) [][]byte{
		"whole":                  split(func(int) []int { return nil }),
		"a byte at a time":       bytewise,
		"two segments":           split(func(n int) []int { return []int{n / 2} }),
		"inside the header":      split(func(int) []int { return []int{3} }),
		"two records":            rerecord(700),
		"records of one byte":    rerecord(1),
		"records of 16 bytes":    rerecord(16),
		"bytes of many records":  func(b []byte) [][]byte { return bytewise(bytes.Join(rerecord(64)(b), nil)) },
		"two records, a segment": func(b []byte) [][]byte { return [][]byte{bytes.Join(rerecord(1000)(b), nil)} },
	}
	for name, cut := range tests {
		t.Run(name, func(t *testing.T) {
			near, far := loopback(t)
			go func() {
				conn := tls.Client(&cuttingConn{Conn: near, cut: cut}, client())
				_ = conn.Handshake()
			}()
			f, err := srv.Handshake(context.Background(), srv.Conn(far))
			if err != nil {
				t.Fatal(err)
			}
			if f.SNI != "example.com" || f.ALPN != "h2" || !f.PQ() {
				t.Errorf("facts %+v", f)
			}
		})
	}
}

func slicesRepeat(v, n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = v
	}
	return s
}

// rerecord cuts the one record of a hello into records of at most n bytes.
func rerecord(n int) func([]byte) [][]byte {
	return func(b []byte) (records [][]byte) {
		head, body := b[:3], b[5:]
		for len(body) > 0 {
			m := min(n, len(body))
			r := append(bytes.Clone(head), byte(m>>8), byte(m))
			records, body = append(records, append(r, body[:m]...)), body[m:]
		}
		return records
	}
}

// cuttingConn sends the first write, the hello, in parts.
type cuttingConn struct {
	net.Conn
	cut  func([]byte) [][]byte
	sent bool
}

func (c *cuttingConn) Write(b []byte) (int, error) {
	if c.sent {
		return c.Conn.Write(b)
	}
	c.sent = true
	if len(b) < 2048+1184 { // the ticket and the hybrid key share
		return 0, fmt.Errorf("a hello of %d bytes is not the long one", len(b))
	}
	for _, p := range c.cut(b) {
		if _, err := c.Conn.Write(p); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// bigTicket is a session cache with a ticket of 2 KiB, which the server cannot read.
func bigTicket(t *testing.T, srv *Server, roots *x509.CertPool) tls.ClientSessionCache {
	t.Helper()
	cache := tls.NewLRUClientSessionCache(1)
	o := shake(t, srv, &tls.Config{RootCAs: roots, ServerName: "example.com", ClientSessionCache: cache})
	if o.clientErr != nil {
		t.Fatal(o.clientErr)
	}
	cs, ok := cache.Get("example.com")
	if !ok {
		t.Fatal("no ticket")
	}
	_, state, err := cs.ResumptionState()
	if err != nil {
		t.Fatal(err)
	}
	if cs, err = tls.NewResumptionState(make([]byte, 2048), state); err != nil {
		t.Fatal(err)
	}
	cache.Put("example.com", cs)
	return cache
}
