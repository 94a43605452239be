package handshake

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/kms/pqcert"
)

// mldsaCA is an authority for identities that lives in memory.
type mldsaCA struct {
	cert *pqcert.Certificate
	key  *pqcert.PrivateKey
}

func newMLDSACA(t testing.TB) *mldsaCA {
	t.Helper()
	key, err := pqcert.GenerateKey(pqcert.MLDSA65)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pqcert.Create(pqcert.Template{
		CommonName: "identities", CA: true, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
	}, key.PublicKey(), nil, key)
	if err != nil {
		t.Fatal(err)
	}
	return &mldsaCA{cert, key}
}

// leaf issues for the name; end says how long from now it is good.
func (a *mldsaCA) leaf(t testing.TB, name string, key *pqcert.PrivateKey, end time.Duration) *pqcert.Certificate {
	t.Helper()
	c, err := pqcert.Create(pqcert.Template{
		CommonName: name, DNSNames: []string{name}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(end),
	}, key.PublicKey(), a.cert, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (a *mldsaCA) identity(t testing.TB, name string, end time.Duration) *Identity {
	t.Helper()
	key, err := pqcert.GenerateKey(pqcert.MLDSA65)
	if err != nil {
		t.Fatal(err)
	}
	i, err := NewIdentity(IdentitySettings{
		Chain: []*pqcert.Certificate{a.leaf(t, name, key, end)}, Key: key, Roots: []*pqcert.Certificate{a.cert},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// trusting is the same identity with other roots.
func (i *Identity) trusting(t testing.TB, roots ...*pqcert.Certificate) *Identity {
	t.Helper()
	s := *i.current.Load()
	s.Roots = roots
	other, err := NewIdentity(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return other
}

// hopPair is both sides of a hop over TLS.
type hopPair struct {
	server *Server
	client *Client
}

func newHop(t testing.TB, server, client *Identity) hopPair {
	t.Helper()
	src, roots := selfSigned(t, "back.test")
	h := hopPair{server: newServer(t, Settings{Sources: []Source{src}, PQ: Require, NextProtos: []string{"zap-http/1"}, Identity: server})}
	c, err := NewClient(ClientSettings{PQ: Require, NextProtos: []string{"zap-http/1"}, Roots: roots, ServerName: "back.test", Identity: client})
	if err != nil {
		t.Fatal(err)
	}
	h.client = c
	return h
}

// serve runs the server's side of far and hands out what it makes of it.
func (h hopPair) serve(far net.Conn) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		conn := h.server.Conn(far)
		if o.server, o.serverErr = h.server.Handshake(context.Background(), conn); o.serverErr == nil {
			_, _ = io.Copy(conn, io.LimitReader(conn, 1)) // an echo, so that both know
		}
		_ = conn.Close()
		done <- o
	}()
	return done
}

// meet connects both sides as they are.
func (h hopPair) meet(t testing.TB) outcome {
	t.Helper()
	near, far := loopback(t)
	done := h.serve(far)
	conn := h.client.Conn(near, "back.test:1")
	facts, err := h.client.Handshake(context.Background(), conn, "back.test:1")
	if err == nil {
		_, err = conn.Write([]byte("x"))
	}
	if err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	_ = conn.Close()
	o := <-done
	o.client, o.clientErr = facts, err
	return o
}

// whyRefused is the reason in the error, "" where there is none.
func whyRefused(err error) Reason {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused.Reason
	}
	return ""
}

func TestBothSidesOfAHopLearnAPostQuantumIdentity(t *testing.T) {
	ca := newMLDSACA(t)
	h := newHop(t, ca.identity(t, "back.test", time.Hour), ca.identity(t, "front.test", time.Hour))
	for range 2 { // the second resumes, and proves again
		o := h.meet(t)
		if o.serverErr != nil || o.clientErr != nil {
			t.Fatalf("server: %v, client: %v", o.serverErr, o.clientErr)
		}
		if !o.server.PQIdentity || o.server.PeerName != "front.test" || !o.client.PQIdentity || o.client.PeerName != "back.test" {
			t.Errorf("server learned %+v, client %+v", o.server, o.client)
		}
		if o.server.ALPN != "zap-http/1" || o.client.ALPN != "zap-http/1" {
			t.Errorf("protocols %q and %q", o.server.ALPN, o.client.ALPN)
		}
	}
}

// turns counts how often its owner waited for the other side after it had sent.
type turns struct {
	net.Conn
	wrote atomic.Bool
	n     atomic.Int32
}

func (c *turns) Write(b []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(b)
}

func (c *turns) Read(b []byte) (int, error) {
	if c.wrote.Swap(false) {
		c.n.Add(1)
	}
	return c.Conn.Read(b)
}

func TestAProofCostsOneRoundTrip(t *testing.T) {
	ca := newMLDSACA(t)
	count := func(server, client *Identity) int32 {
		h := newHop(t, server, client)
		near, far := loopback(t)
		done := h.serve(far)
		counted := &turns{Conn: near}
		conn := h.client.Conn(counted, "back.test:1")
		if _, err := h.client.Handshake(context.Background(), conn, "back.test:1"); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		<-done
		return counted.n.Load()
	}
	bare := count(nil, nil)
	if with := count(ca.identity(t, "back.test", time.Hour), ca.identity(t, "front.test", time.Hour)); with != bare+1 {
		t.Errorf("%d round trips with proofs, %d without", with, bare)
	}
}

func TestAHopRefusesAnIdentityThatDoesNotHold(t *testing.T) {
	ca, other := newMLDSACA(t), newMLDSACA(t)
	back, front := ca.identity(t, "back.test", time.Hour), ca.identity(t, "front.test", time.Hour)
	for _, c := range []struct {
		name           string
		server, client *Identity
		serverSays     Reason
		clientSays     Reason
	}{
		{"client expired", back, ca.identity(t, "front.test", -time.Hour), IdentityExpired, IdentityRejected},
		{"client of another authority", back, other.identity(t, "front.test", time.Hour).trusting(t, ca.cert), IdentityUnknown, IdentityRejected},
		{"server expired", ca.identity(t, "back.test", -time.Hour), front, "", IdentityExpired},
		{"server of another authority", other.identity(t, "back.test", time.Hour).trusting(t, ca.cert), front, "", IdentityUnknown},
		{"server of another name", ca.identity(t, "elsewhere.test", time.Hour), front, "", IdentityName},
		{"client without", back, nil, IdentityMissing, NoSharedALPN},
		{"server without", nil, front, NoSharedALPN, IdentityMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newHop(t, c.server, c.client).meet(t)
			if got := whyRefused(o.serverErr); got != c.serverSays {
				t.Errorf("the server says %q (%v), want %q", got, o.serverErr, c.serverSays)
			}
			if got := whyRefused(o.clientErr); got != c.clientSays {
				t.Errorf("the client says %q (%v), want %q", got, o.clientErr, c.clientSays)
			}
		})
	}
}

// attack is a client that says other things than a proof. It gets the value that binds
// the connection.
type attack func(conn *tls.Conn, bound []byte) error

func (h hopPair) attacked(t testing.TB, a attack) error {
	t.Helper()
	near, far := loopback(t)
	done := h.serve(far)
	conn := h.client.Conn(near, "back.test:1")
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	cs := conn.ConnectionState()
	bound, err := bindingOf(&cs)
	if err != nil {
		t.Fatal(err)
	}
	if err := a(conn, bound); err != nil {
		t.Fatal(err)
	}
	_ = conn.CloseWrite()
	o := <-done
	_ = conn.Close()
	return o.serverErr
}

func proofOf(t testing.TB, i *Identity, r role, bound []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := i.writeProof(&b, r, bound); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAServerRefusesProofsThatAreNotForThisConnection(t *testing.T) {
	ca := newMLDSACA(t)
	back, front := ca.identity(t, "back.test", time.Hour), ca.identity(t, "front.test", time.Hour)
	h := newHop(t, back, front)
	var recorded []byte
	if err := h.attacked(t, func(conn *tls.Conn, bound []byte) error {
		recorded = proofOf(t, front, roleClient, bound)
		_, err := conn.Write(recorded)
		return err
	}); err != nil {
		t.Fatalf("a true proof is refused: %v", err)
	}
	send := func(message func(bound []byte) []byte) attack {
		return func(conn *tls.Conn, bound []byte) error {
			_, err := conn.Write(message(bound))
			return err
		}
	}
	// A second certificate of the same key, for another name.
	s := *front.current.Load()
	key := s.Key.(*pqcert.PrivateKey) //nolint:forcetypeassert // made by identity
	renamed := s
	renamed.Chain = []*pqcert.Certificate{ca.leaf(t, "admin.test", key, time.Hour)}
	swap := func(bound []byte) []byte {
		var b bytes.Buffer
		signature, _ := key.Sign(nil, signed(roleClient, bound, appendChain(nil, s.Chain)), nil)
		_ = writeMessage(&b, byte(roleClient), appendChain(nil, renamed.Chain), signature)
		return b.Bytes()
	}
	authority, err := NewIdentity(IdentitySettings{Chain: []*pqcert.Certificate{ca.cert}, Key: ca.key, Roots: []*pqcert.Certificate{ca.cert}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		message func(bound []byte) []byte
		want    Reason
	}{
		"replay of a recorded proof":       {func([]byte) []byte { return recorded }, IdentitySignature},
		"a proof of the server's role":     {func(b []byte) []byte { return proofOf(t, back, roleServer, b) }, IdentityRole},
		"the same with the role rewritten": {func(b []byte) []byte { m := proofOf(t, back, roleServer, b); m[4] = byte(roleClient); return m }, IdentitySignature},
		"another certificate of the key":   {swap, IdentitySignature},
		"the authority itself":             {func(b []byte) []byte { return proofOf(t, authority, roleClient, b) }, IdentityUsage},
		"a signature with one bit changed": {func(b []byte) []byte { m := proofOf(t, front, roleClient, b); m[len(m)-9] ^= 1; return m }, IdentitySignature},
		"no role":                          {func(b []byte) []byte { m := proofOf(t, front, roleClient, b); m[4] = 0; return m }, IdentityMalformed},
		"more bytes than the parts": {func(b []byte) []byte {
			m := append(proofOf(t, front, roleClient, b), 0)
			binary.BigEndian.PutUint32(m, uint32(len(m)-4)) //nolint:gosec // small
			return m
		}, IdentityMalformed},
		"no certificate":             {func([]byte) []byte { return []byte{0, 0, 0, 6, 1, 0, 0, 0, 0, 0} }, IdentityMalformed},
		"a length beyond all bounds": {func([]byte) []byte { return []byte{0xff, 0xff, 0xff, 0xff} }, IdentityMalformed},
		"half a proof":               {func(b []byte) []byte { return proofOf(t, front, roleClient, b)[:1000] }, EOF},
		"a request":                  {func([]byte) []byte { return []byte("GET / HTTP/1.1\r\n\r\n") }, IdentityMalformed},
		"nothing":                    {func([]byte) []byte { return nil }, EOF},
	} {
		t.Run(name, func(t *testing.T) {
			if err := h.attacked(t, send(c.message)); whyRefused(err) != c.want {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A relay ends TLS on both sides with certificates of its own, or with stolen ones,
// and passes the proofs on.
func TestARelayBetweenTwoTrueHopsIsRefused(t *testing.T) {
	ca := newMLDSACA(t)
	back, front := ca.identity(t, "back.test", time.Hour), ca.identity(t, "front.test", time.Hour)
	h := newHop(t, back, front)
	outer, toRelay := loopback(t)
	fromRelay, inner := loopback(t)
	done := h.serve(inner)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		victim := tls.Server(toRelay, h.server.Config())
		target := h.client.Conn(fromRelay, "back.test:1")
		if victim.Handshake() != nil || target.Handshake() != nil {
			t.Error("the relay's own handshakes fail")
		}
		wg.Go(func() { _, _ = io.Copy(target, victim) })
		_, _ = io.Copy(victim, target)
		_, _ = victim.Close(), target.Close()
	})
	conn := h.client.Conn(outer, "back.test:1")
	_, err := h.client.Handshake(context.Background(), conn, "back.test:1")
	_ = conn.Close()
	if got := whyRefused(err); got != IdentityRejected {
		t.Errorf("the client says %v, want %q", err, IdentityRejected)
	}
	if o := <-done; whyRefused(o.serverErr) != IdentitySignature {
		t.Errorf("the server says %v, want %q", o.serverErr, IdentitySignature)
	}
}

func TestAClientIsNotTakenInByItsOwnProof(t *testing.T) {
	ca := newMLDSACA(t)
	h := newHop(t, ca.identity(t, "back.test", time.Hour), ca.identity(t, "back.test", time.Hour))
	near, far := loopback(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn := tls.Server(far, h.server.Config())
		_, _ = io.Copy(conn, conn) // an echo: reflection
		_ = conn.Close()
	}()
	conn := h.client.Conn(near, "back.test:1")
	_, err := h.client.Handshake(context.Background(), conn, "back.test:1")
	_ = conn.Close()
	<-done
	if whyRefused(err) != IdentityRole {
		t.Errorf("%v, want %q", err, IdentityRole)
	}
}

func TestASilentServerDoesNotHoldTheClient(t *testing.T) {
	ca := newMLDSACA(t)
	h := newHop(t, ca.identity(t, "back.test", time.Hour), ca.identity(t, "front.test", time.Hour))
	near, far := loopback(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn := tls.Server(far, h.server.Config())
		_, _ = io.Copy(io.Discard, conn)
	}()
	conn := h.client.Conn(near, "back.test:1")
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := h.client.Handshake(ctx, conn, "back.test:1")
	_ = near.Close()
	<-done
	if whyRefused(err) != Timeout {
		t.Errorf("%v, want %q", err, Timeout)
	}
}

func TestARefusalFromThePeerSaysOnlyWhatWeKnow(t *testing.T) {
	for text, want := range map[string]Reason{
		string(IdentityExpired): IdentityExpired, "<script>": PeerAlert, strings.Repeat("x", 1000): PeerAlert, "": PeerAlert,
	} {
		var b bytes.Buffer
		if err := writeRefusal(&b, Reason(text)); err != nil {
			t.Fatal(err)
		}
		p, err := readProof(&b)
		if err != nil || p.refusal != want {
			t.Errorf("%.20q became %q, %v", text, p.refusal, err)
		}
	}
}

func TestAnIdentityNeedsTLS13AndItsParts(t *testing.T) {
	ca := newMLDSACA(t)
	id := ca.identity(t, "back.test", time.Hour)
	src, _ := selfSigned(t, "back.test")
	var bad *SettingsError
	if _, err := NewServer(Settings{Sources: []Source{src}, MinVersion: tls.VersionTLS12, Identity: id}); !errors.As(err, &bad) || bad.Field != "min_version" {
		t.Errorf("TLS 1.2 with an identity: %v", err)
	}
	if _, err := NewClient(ClientSettings{MinVersion: tls.VersionTLS12, Identity: id}); !errors.As(err, &bad) || bad.Field != "min_version" {
		t.Errorf("TLS 1.2 with an identity: %v", err)
	}
	good := *id.current.Load()
	for name, change := range map[string]func(*IdentitySettings){
		"no chain":    func(s *IdentitySettings) { s.Chain = nil },
		"no roots":    func(s *IdentitySettings) { s.Roots = nil },
		"another key": func(s *IdentitySettings) { s.Key = ca.key },
		"no key":      func(s *IdentitySettings) { s.Key = nil },
	} {
		s := good
		change(&s)
		if _, err := NewIdentity(s, nil); !errors.As(err, &bad) || bad.Field != "identity" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIdentityFilesAreReadAgainWhenTheyChange(t *testing.T) {
	dir := t.TempDir()
	ca, _, err := MakeIdentityAuthority(dir, pqcert.MLDSA65)
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name string) Issued {
		issued, err := ca.IssueFiles(pqcert.MLDSA65, time.Hour, name)
		if err != nil {
			t.Fatal(err)
		}
		return issued
	}
	first, second := issue("front"), issue("renamed")
	news := make(chan error, 16)
	f, err := NewIdentityFiles(IdentityPaths{Cert: first.CertFile, Key: first.KeyFile, CA: ca.CertFile()}, func(err error) { news <- err })
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := f.Describe(); got.Names[0] != "front" || got.Key != "ML-DSA-65" {
		t.Errorf("%+v", got)
	}
	replace := func(from, to string) {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+".next", data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(to+".next", to); err != nil {
			t.Fatal(err)
		}
	}
	replace(second.KeyFile, first.KeyFile)
	replace(second.CertFile, first.CertFile)
	for f.Describe().Names[0] != "renamed" {
		select {
		case <-news:
		case <-time.After(10 * time.Second):
			t.Fatal("the new files are not taken")
		}
	}
	if err := os.WriteFile(first.CertFile, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	var bad *IdentityError
	for deadline := time.After(10 * time.Second); bad == nil; {
		select {
		case err := <-news:
			errors.As(err, &bad)
		case <-deadline:
			t.Fatal("nothing is told of files that are bad")
		}
	}
	if f.Describe().Names[0] != "renamed" {
		t.Error("bad files took the identity away")
	}
	if _, err := NewIdentityFiles(IdentityPaths{Cert: filepath.Join(dir, "none.pem"), Key: first.KeyFile, CA: ca.CertFile()}, nil); !errors.As(err, &bad) {
		t.Errorf("%v", err)
	}
}

func FuzzProof(f *testing.F) {
	ca := newMLDSACA(f)
	front := ca.identity(f, "front.test", time.Hour)
	bound := make([]byte, exportedSize)
	f.Add(proofOf(f, front, roleClient, bound)[4:])
	f.Add([]byte{1, 0, 0, 0, 0, 0})
	f.Add([]byte{kindRefusal, 0, 0, 0, 0, 1, 'x'})
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := parseProof(body)
		if err != nil {
			if p2 := new(proofError); !errors.As(err, &p2) {
				t.Fatalf("an untyped error: %v", err)
			}
			return
		}
		if len(p.chain) > pqcert.MaxChain || p.refusal == "" && len(p.signature) > maxSignature {
			t.Fatal("beyond its limits")
		}
		if _, err := pqcert.Verify(p.chain, pqcert.Expect{Roots: []*pqcert.Certificate{ca.cert}, Usage: x509.ExtKeyUsageClientAuth}); err == nil && len(p.chain) == 0 {
			t.Fatal("no chain verifies")
		}
	})
}

func BenchmarkProof(b *testing.B) {
	ca := newMLDSACA(b)
	h := newHop(b, ca.identity(b, "back.test", time.Hour), ca.identity(b, "front.test", time.Hour))
	b.ReportAllocs()
	for b.Loop() {
		if o := h.meet(b); o.serverErr != nil || o.clientErr != nil {
			b.Fatal(o.serverErr, o.clientErr)
		}
	}
}
