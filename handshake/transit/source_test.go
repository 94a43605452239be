package transit

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/handshake/remotesign"
)

func TestAListenerServesByAKeyOfTheEngine(t *testing.T) {
	e, c := newEngine(t, nil)
	key := e.Keys["site"][1]
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"site.test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	chain := filepath.Join(t.TempDir(), "site.pem")
	if err := os.WriteFile(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	src, err := remotesign.NewSource(c, remotesign.SourceSettings{Key: "site", Chain: chain})
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
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	conn := tls.Client(near, &tls.Config{RootCAs: pool, ServerName: "site.test"})
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	if err := errors.Join(conn.Handshake(), <-served); err != nil {
		t.Error(err)
	}
	_, _ = near.Close(), far.Close()
}
