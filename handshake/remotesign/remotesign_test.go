package remotesign

import (
	"bufio"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/kms"
	"github.com/hanzoai/pqgw/zapcodec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a store with a key, an authority, and the certificates of all who take part.
type world struct {
	ca    *handshake.Authority
	dir   string
	store *kms.Store
	chain string // file of the certificate for the key "site"
	key   crypto.Signer
}

func newWorld(t testing.TB) *world {
	t.Helper()
	dir := t.TempDir()
	master := kms.MasterFile{Path: filepath.Join(dir, "master")}
	mk, err := master.Create()
	if err != nil {
		t.Fatal(err)
	}
	if err := kms.Init(filepath.Join(dir, "store"), mk); err != nil {
		t.Fatal(err)
	}
	store, err := kms.Open(filepath.Join(dir, "store"), kms.Options{Master: master})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	ca, _, err := handshake.MakeAuthority(filepath.Join(dir, "ca"))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{ca: ca, dir: dir, store: store}
	w.put(t, "site.test")
	return w
}

// put makes a certificate for the name, its key being the store's "site".
func (w *world) put(t testing.TB, name string) {
	t.Helper()
	cert, err := w.ca.Issue(time.Hour, name)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	value := kms.NewSecret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	defer value.Close()
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	if _, err := w.store.Put(context.Background(), kms.Entry{Name: "site", Kind: kms.KindCertificate, Value: value, Public: chain}); err != nil {
		t.Fatal(err)
	}
	w.chain = filepath.Join(w.dir, "site.pem")
	if err := os.WriteFile(w.chain, chain, 0o600); err != nil {
		t.Fatal(err)
	}
	w.key = cert.PrivateKey.(crypto.Signer) //nolint:forcetypeassert // an ECDSA key
}

func (w *world) files(t testing.TB, name string) *handshake.Files {
	t.Helper()
	issued, err := w.ca.IssueFiles(time.Hour, name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := handshake.NewFiles([]handshake.Pair{{Cert: issued.CertFile, Key: issued.KeyFile}}, handshake.FilesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

const siteRules = "keys: {site: [{peer: edge, for: [tls-server]}]}"

// server runs one at the address, until the test or stop ends it.
func (w *world) server(t testing.TB, address, rules string) (addr string, stop func()) {
	t.Helper()
	allow, err := ParseAllow([]byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(ServerSettings{
		Keys: w.store, Allow: allow, Certificates: []handshake.Source{w.files(t, "signer")},
		ClientCAs: []*x509.Certificate{w.ca.Certificate()},
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	stop = sync.OnceFunc(func() {
		if err := errors.Join(s.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return ln.Addr().String(), stop
}

func (w *world) client(t testing.TB, name string, change func(*ClientSettings), servers ...string) *Client {
	t.Helper()
	side, err := handshake.NewClient(handshake.ClientSettings{
		PQ: handshake.Require, Roots: w.ca.Pool(), ServerName: "signer", Certificate: w.files(t, name),
	})
	if err != nil {
		t.Fatal(err)
	}
	set := ClientSettings{Servers: servers, TLS: side}
	if change != nil {
		change(&set)
	}
	c, err := NewClient(set)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *world) sign(t testing.TB, c *Client, purpose string) error {
	t.Helper()
	s, err := c.SignerOf("site", purpose, w.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte("x"))
	signature, err := s.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err == nil && !ecdsa.VerifyASN1(w.key.Public().(*ecdsa.PublicKey), digest[:], signature) { //nolint:forcetypeassert // an ECDSA key
		t.Fatal("the signature does not verify")
	}
	return err
}

func status(err error) uint32 {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused.Status
	}
	return 0
}

func TestAListenerServesByAKeyThatItDoesNotHold(t *testing.T) {
	w := newWorld(t)
	addr, _ := w.server(t, "127.0.0.1:0", siteRules)
	var signed atomic.Int32
	c := w.client(t, "edge", func(s *ClientSettings) {
		s.Observe = func(d time.Duration, err error) {
			if d > 0 && err == nil {
				signed.Add(1)
			}
		}
	}, addr)
	src, err := NewSource(c, SourceSettings{Key: "site", Chain: w.chain})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	srv, err := handshake.NewServer(handshake.Settings{Sources: []handshake.Source{src}, PQ: handshake.Require})
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() {
		_, err := srv.Handshake(context.Background(), srv.Conn(far))
		served <- err
	}()
	conn := tls.Client(near, &tls.Config{RootCAs: w.ca.Pool(), ServerName: "site.test", SessionTicketsDisabled: true})
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	if err := errors.Join(conn.Handshake(), <-served); err != nil {
		t.Fatal(err)
	}
	_, _ = near.Close(), far.Close()
	if signed.Load() != 1 {
		t.Errorf("%d signatures were told of", signed.Load())
	}
	if info := src.Describe(); len(info) != 1 || info[0].Source != "remote" || info[0].Location != w.chain {
		t.Errorf("%+v", info)
	}
}

func TestOnlyWhoIsOnTheListSignsAndOnlyForItsPurpose(t *testing.T) {
	w := newWorld(t)
	addr, _ := w.server(t, "127.0.0.1:0", siteRules)
	edge, other := w.client(t, "edge", nil, addr), w.client(t, "other", nil, addr)
	if err := w.sign(t, edge, PurposeServer); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"another purpose": w.sign(t, edge, PurposeClient),
		"no purpose":      w.sign(t, edge, ""),
		"another peer":    w.sign(t, other, PurposeServer),
	} {
		if status(err) != zapcodec.RPCForbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := edge.Signer(t.Context(), "site", PurposeServer); err != nil {
		t.Error(err)
	}
	if _, err := edge.Signer(t.Context(), "none", PurposeServer); status(err) != zapcodec.RPCForbidden {
		t.Errorf("a key that is not listed: %v", err)
	}
	if _, err := other.Public(t.Context(), "site"); status(err) != zapcodec.RPCForbidden {
		t.Errorf("another peer gets the public key: %v", err)
	}
}

func TestInputsThatTLSDoesNotSignAreRefused(t *testing.T) {
	w := newWorld(t)
	addr, _ := w.server(t, "127.0.0.1:0", siteRules)
	c := w.client(t, "edge", nil, addr)
	s, err := c.Signer(t.Context(), "site", PurposeServer)
	if err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]struct {
		input []byte
		opts  crypto.SignerOpts
	}{
		"SHA-1":                 {make([]byte, 20), crypto.SHA1},
		"a digest too short":    {make([]byte, 20), crypto.SHA256},
		"a message":             {[]byte("pay me"), crypto.Hash(0)},
		"PSS with an ECDSA key": {make([]byte, 32), &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}},
	} {
		if _, err := s.Sign(nil, opts.input, opts.opts); status(err) != zapcodec.RPCForbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Sign(nil, make([]byte, 64<<10), crypto.Hash(0)); err == nil || status(err) != 0 {
		t.Errorf("64 KiB: %v", err)
	}
}

func TestACertificateOfAnotherKeyIsToldOf(t *testing.T) {
	w := newWorld(t)
	addr, _ := w.server(t, "127.0.0.1:0", siteRules)
	old := w.chain + ".old"
	data, err := os.ReadFile(w.chain)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, data, 0o600); err != nil {
		t.Fatal(err)
	}
	w.put(t, "site.test") // a new version of the key
	told := make(chan error, 8)
	src, err := NewSource(w.client(t, "edge", nil, addr), SourceSettings{Key: "site", Chain: old, Poll: 10 * time.Millisecond, OnReload: func(err error) { told <- err }})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	await := func(text string) {
		t.Helper()
		deadline := time.After(10 * time.Second)
		for {
			select {
			case err := <-told:
				if text == "" && err == nil || err != nil && text != "" && strings.Contains(err.Error(), text) {
					return
				}
			case <-deadline:
				t.Fatalf("nothing is told of %q", text)
			}
		}
	}
	await("another key")
	if data, err = os.ReadFile(w.chain); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, data, 0o600); err != nil {
		t.Fatal(err)
	}
	await("")
	cert, err := src.Default(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cert.PrivateKey.(crypto.Signer).Sign(nil, make([]byte, 32), crypto.SHA256); err != nil { //nolint:forcetypeassert // it is one
		t.Errorf("after the new chain: %v", err)
	}
}

func TestSigningSurvivesARestartOfTheSigner(t *testing.T) {
	w := newWorld(t)
	addr, stop := w.server(t, "127.0.0.1:0", siteRules)
	c := w.client(t, "edge", nil, addr)
	if err := w.sign(t, c, PurposeServer); err != nil {
		t.Fatal(err)
	}
	stop()
	done := make(chan error, 8)
	for range cap(done) {
		go func() { done <- w.sign(t, c, PurposeServer) }()
	}
	w.server(t, addr, siteRules)
	for range cap(done) {
		if err := <-done; err != nil {
			t.Errorf("a signature was lost: %v", err)
		}
	}
}

func TestAnotherServerIsAskedWhereOneIsGoneOrSilent(t *testing.T) {
	w := newWorld(t)
	addr, _ := w.server(t, "127.0.0.1:0", siteRules)
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	gone := func() string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		return ln.Addr().String()
	}()
	for name, first := range map[string]string{"gone": gone, "silent": deaf.Addr().String()} {
		c := w.client(t, "edge", func(s *ClientSettings) { s.Attempt = 100 * time.Millisecond }, first, addr)
		if err := w.sign(t, c, PurposeServer); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.preferred.Load() != 1 {
			t.Errorf("%s: the server that answered is not asked first afterwards", name)
		}
	}
}

func TestASignatureIsBoundedInTime(t *testing.T) {
	w := newWorld(t)
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	c := w.client(t, "edge", func(s *ClientSettings) { s.Timeout, s.Attempt = 200*time.Millisecond, 50*time.Millisecond }, deaf.Addr().String())
	begun := time.Now()
	if err := w.sign(t, c, PurposeServer); !errors.Is(err, ErrUnreachable) {
		t.Errorf("%v", err)
	}
	if d := time.Since(begun); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
}

func TestStrangersGetNoAnswer(t *testing.T) {
	w := newWorld(t)
	addr, _ := w.server(t, "127.0.0.1:0", siteRules)
	good, err := w.files(t, "edge").Default(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]*tls.Config{
		"no certificate": {},
		"classical":      {CurvePreferences: []tls.CurveID{tls.X25519}, Certificates: []tls.Certificate{*good}},
	} {
		cfg.RootCAs, cfg.ServerName, cfg.NextProtos = w.ca.Pool(), "signer", []string{ALPN}
		conn, err := tls.Dial("tcp", addr, cfg)
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: w.ca.Pool(), ServerName: "signer", NextProtos: []string{ALPN}, Certificates: []tls.Certificate{*good}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{0xff, 0xff, 0xff, 0x7f, 1, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(conn).ReadByte(); err == nil {
		t.Error("a frame beyond all bounds is answered")
	}
}

func TestAClassicalClientIsNotMade(t *testing.T) {
	side, err := handshake.NewClient(handshake.ClientSettings{PQ: handshake.Prefer})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewClient(ClientSettings{Servers: []string{"a:1"}, TLS: side}); err == nil {
		t.Error("pq: prefer is taken")
	}
}

func TestTheListIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "there are none",
		"keys: {a: [{peer: b}]}":               "keys.a[0].for: is missing",
		"keys: {a: [{for: [tls-server]}]}":     "keys.a[0].peer: is missing",
		"keys: {a: [{peer: b, for: [email]}]}": `unknown purpose "email"`,
		"keys: {a: [{peer: b, fro: [email]}]}": "fro",
		"keys: []":                             "",
	} {
		if _, err := ParseAllow([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzRequest(f *testing.F) {
	r := request{name: "site", purpose: PurposeServer, hash: crypto.SHA256, input: make([]byte, 32)}
	good, err := r.append()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, payload []byte) {
		var r request
		if parseRequest(payload, &r) != nil {
			return
		}
		back, err := r.append()
		if err != nil || string(back) != string(payload) {
			t.Fatalf("%x became %x, %v", payload, back, err)
		}
	})
}

func BenchmarkSignature(b *testing.B) {
	w := newWorld(b)
	digest := sha256.Sum256([]byte("x"))
	local, err := w.store.Signer(b.Context(), "site", PurposeServer)
	if err != nil {
		b.Fatal(err)
	}
	addr, _ := w.server(b, "127.0.0.1:0", siteRules)
	remote, err := w.client(b, "edge", nil, addr).Signer(b.Context(), "site", PurposeServer)
	if err != nil {
		b.Fatal(err)
	}
	for name, s := range map[string]crypto.Signer{"in memory": w.key, "in the store": local, "remote": remote} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Sign(rand.Reader, digest[:], crypto.SHA256); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// poorListener has no descriptor left at first.
type poorListener struct {
	net.Listener
	tried atomic.Bool
}

func (l *poorListener) Accept() (net.Conn, error) {
	if l.tried.CompareAndSwap(false, true) {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

func TestAServerOutlivesWantOfDescriptors(t *testing.T) {
	w := newWorld(t)
	allow, err := ParseAllow([]byte(siteRules))
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(ServerSettings{
		Keys: w.store, Allow: allow, Certificates: []handshake.Source{w.files(t, "signer")},
		ClientCAs: []*x509.Certificate{w.ca.Certificate()},
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(&poorListener{Listener: ln}) }()
	if _, err := w.client(t, "edge", nil, ln.Addr().String()).Public(t.Context(), "site"); err != nil {
		t.Error(err)
	}
	if err := errors.Join(s.Close(), <-done); err != nil {
		t.Error(err)
	}
}
