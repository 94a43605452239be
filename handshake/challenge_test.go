package handshake

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"
)

// awaiting is a source that an issuer is about to ask for one name.
type awaiting struct {
	Set
	name string
	cert *tls.Certificate
}

func (a *awaiting) Challenge(hello *tls.ClientHelloInfo) *tls.Certificate {
	if hello.ServerName == a.name {
		return a.cert
	}
	return nil
}

func (a *awaiting) Close() error { return nil }

func TestAChallengeIsAnsweredAndNothingElseIsLetIn(t *testing.T) {
	ca, _, err := MakeAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue(time.Hour, "a.example.com")
	if err != nil {
		t.Fatal(err)
	}
	src := &awaiting{name: "a.example.com", cert: cert}
	srv, err := NewServer(Settings{
		Sources: []Source{src}, PQ: Require, NextProtos: []string{"h2"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: []*x509.Certificate{ca.Certificate()},
	})
	if err != nil {
		t.Fatal(err)
	}
	classical := []tls.CurveID{tls.X25519}
	for name, c := range map[string]struct {
		protos []string
		host   string
		quic   bool
		want   bool
	}{
		"the issuer":            {[]string{ALPNChallenge}, "a.example.com", false, true},
		"of a name not awaited": {[]string{ALPNChallenge}, "b.example.com", false, false},
		"with other protocols":  {[]string{ALPNChallenge, "h2"}, "a.example.com", false, false},
		"a client":              {[]string{"h2"}, "a.example.com", false, false},
		"as QUIC would run it":  {[]string{ALPNChallenge}, "a.example.com", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			defer near.Close()
			defer far.Close()
			client := tls.Client(far, &tls.Config{RootCAs: ca.Pool(), ServerName: c.host, NextProtos: c.protos, CurvePreferences: classical})
			go func() {
				_ = client.Handshake()
				_ = far.Close()
			}()
			var facts Facts
			var err error
			if c.quic {
				err = srv.Conn(near).HandshakeContext(Watch(context.Background()))
			} else {
				facts, err = srv.Handshake(t.Context(), srv.Conn(near))
			}
			if (err == nil) != c.want {
				t.Fatalf("got %v", err)
			}
			if c.want && (facts.ALPN != ALPNChallenge || facts.ClientAuth || facts.Group != tls.X25519) {
				t.Errorf("facts %+v", facts)
			}
		})
	}
}
