package scenario

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/hanzoai/pqgw/internal/peers"
)

// The promise: a browser that reads the record which `pqgw kms ech publish`
// prints hides the name of the site that it asks for.

// resolver is a resolver over HTTPS (RFC 8484) that says of every name that it
// is here, and gives the published record for it.
func resolver(t *testing.T, ca *CA, record string) (url, spki string) {
	t.Helper()
	leaf := ca.Leaf(t, "localhost", "127.0.0.1")
	pair, err := tls.LoadX509KeyPair(leaf.CertFile, leaf.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if r.Method == http.MethodGet {
			raw, err = base64.RawURLEncoding.DecodeString(r.URL.Query().Get("dns"))
		}
		q := new(dns.Msg)
		if err != nil || q.Unpack(raw) != nil || len(q.Question) != 1 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		a, name := new(dns.Msg).SetReply(q), q.Question[0].Name
		switch q.Question[0].Qtype {
		case dns.TypeA:
			rr, _ := dns.NewRR(name + " 60 IN A 127.0.0.1")
			a.Answer = append(a.Answer, rr)
		case dns.TypeHTTPS:
			_, rest, _ := strings.Cut(record, " ")
			if _, host, other := strings.Cut(name, "._https."); other { // of a port that is not 443
				rest = strings.Replace(rest, " 1 . ", " 1 "+host+" ", 1)
			}
			if rr, err := dns.NewRR(name + " " + rest); err == nil {
				a.Answer = append(a.Answer, rr)
			}
		}
		packed, _ := a.Pack()
		w.Header().Set("Content-Type", "application/dns-message")
		_, _ = w.Write(packed)
	}))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.URL + "/dns-query{?dns}", leaf.SPKI
}

// wiretap passes connections on and keeps what clients say first.
type wiretap struct {
	ln net.Listener

	mu    sync.Mutex
	heard [][]byte
}

func newWiretap(t *testing.T, to string) *wiretap {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wiretap{ln: ln}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { w.relay(c, to) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return w
}

func (w *wiretap) relay(c net.Conn, to string) {
	defer c.Close()
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer up.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(c, up)
		_ = c.Close()
	}()
	var said bytes.Buffer
	_, _ = io.Copy(up, io.TeeReader(io.LimitReader(c, 1<<20), &said))
	_ = up.Close()
	<-done
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = append(w.heard, said.Bytes())
}

// all is what was heard of connections that have ended.
func (w *wiretap) all() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Join(w.heard, nil)
}

func TestBrowserHidesTheNameByThePublishedRecord(t *testing.T) {
	ca, s := NewCA(t), NewStore(t)
	leaf := ca.Leaf(t, "cover.example.com", "hidden.example.com")
	s.putLeaf(t, "edge", leaf)
	g, addr := storeGateway(t, s, ", ech: true", "")
	tap := newWiretap(t, addr)
	doh, spki := resolver(t, ca, s.publish(t).Record)
	profile := t.TempDir()
	state := fmt.Sprintf(`{"dns_over_https": {"mode": "secure", "templates": %q}}`, doh)
	if err := os.WriteFile(filepath.Join(profile, "Local State"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*Patience)
	defer cancel()
	args := append(peers.ChromiumFlags(profile), "--ignore-certificate-errors-spki-list="+leaf.SPKI+","+spki,
		"--dump-dom", "https://hidden.example.com:"+Port(t, tap.ln.Addr().String())+"/")
	out, err := exec.CommandContext(ctx, peers.Chromium(t), args...).Output()
	if err != nil || !strings.Contains(strings.ToLower(string(out)), "post-quantum") {
		t.Fatalf("chromium: %v\n%s", err, out)
	}
	g.AwaitAccess(t, "the inner name", func(a Access) bool { return a.TLSSNI == "hidden.example.com" })
	heard := tap.all()
	if !bytes.Contains(heard, []byte("cover.example.com")) {
		t.Errorf("the outer hello does not name the cover")
	}
	if bytes.Contains(heard, []byte("hidden.example.com")) {
		t.Error("the name was said in clear")
	}
}
