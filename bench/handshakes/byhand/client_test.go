package byhand

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/cryptobyte"

	"github.com/hanzoai/pqgw/bench/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers one connection of crypto/tls by an echo of what is asked.
func serve(t *testing.T, auth string, group tls.CurveID, alpn string) (id identity.Identity, client net.Conn, ended <-chan result) {
	t.Helper()
	id, err := identity.New(auth)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(id.Certificate, id.Key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	_ = client.SetDeadline(time.Now().Add(20 * time.Second))
	raw, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan result, 1)
	go func() {
		defer raw.Close()
		c := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{cert}, CurvePreferences: []tls.CurveID{group}, NextProtos: []string{alpn}})
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, err := io.Copy(c, c)
		out <- result{c.ConnectionState(), err}
	}()
	return id, client, out
}

type result struct {
	state tls.ConnectionState
	err   error
}

func settings(t *testing.T, id identity.Identity) Settings {
	t.Helper()
	roots, err := id.Roots()
	if err != nil {
		t.Fatal(err)
	}
	return Settings{ServerName: identity.ServerName, Roots: roots, ALPN: "x"}
}

func TestAServerThatWantsTheHybridAsksAgainAndGetsIt(t *testing.T) {
	for _, auth := range []string{"ECDSA P-256", "RSA 2048", "Ed25519"} {
		id, raw, ended := serve(t, auth, tls.X25519MLKEM768, "x")
		c, err := Client(raw, settings(t, id))
		if err != nil {
			t.Fatalf("%s: %v", auth, err)
		}
		for _, text := range []string{"one", strings.Repeat("long", 2000)} {
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(text))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
				t.Fatalf("%s: %.20q comes back, %v", auth, got, err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		r := <-ended
		if r.err != nil || !r.state.HelloRetryRequest || r.state.CurveID != tls.X25519MLKEM768 || r.state.NegotiatedProtocol != "x" {
			t.Errorf("%s: the server says %v, retried %t, %v, %q", auth, r.state.CurveID, r.state.HelloRetryRequest, r.err, r.state.NegotiatedProtocol)
		}
		if s := c.ConnectionState(); s.CurveID != r.state.CurveID || s.CipherSuite != r.state.CipherSuite || len(s.VerifiedChains) == 0 {
			t.Errorf("%s: the client says %+v", auth, s)
		}
	}
}

func TestWhatIsNotAsItShouldBeEndsTheHandshake(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"another root": func(s *Settings) {
			other, err := identity.New("ECDSA P-256")
			if err != nil {
				t.Fatal(err)
			}
			*s = settings(t, other)
		},
		"another name": func(s *Settings) { s.ServerName = "other.test" },
	} {
		id, raw, ended := serve(t, "ECDSA P-256", tls.X25519MLKEM768, "x")
		s := settings(t, id)
		change(&s)
		if _, err := Client(raw, s); err == nil {
			t.Errorf("%s: it is taken", name)
		}
		_ = raw.Close()
		<-ended
	}
	id, raw, ended := serve(t, "ECDSA P-256", tls.X25519, "x")
	if _, err := Client(raw, settings(t, id)); err == nil || !strings.Contains(err.Error(), "no other share") {
		t.Errorf("a server without the hybrid: %v", err)
	}
	_ = raw.Close()
	<-ended
}

func TestAMessageThatEndsTooEarlyIsRefused(t *testing.T) {
	none := func(uint16, cryptobyte.String) bool { return true }
	for _, text := range []string{"", "\x00\x09\x01", "\x00\x06\x00\x33\x00\xc8\x01\x01"} {
		if err := eachExtension(cryptobyte.String(text), none); !errors.Is(err, errShort) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := certificates(cryptobyte.String("\x00\x00\x00\x05\x00\x00\x09ab")); !errors.Is(err, errShort) {
		t.Errorf("a certificate cut off: %v", err)
	}
}
