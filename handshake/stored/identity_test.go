package stored

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/kms"
	"github.com/hanzoai/pqgw/kms/pqcert"
)

// identities are an ML-DSA authority whose certificates go into a store.
type identities struct {
	store  *kms.Store
	root   *pqcert.Certificate
	key    *pqcert.PrivateKey
	caFile string
}

func newIdentities(t *testing.T, store *kms.Store) *identities {
	t.Helper()
	a := &identities{store: store, caFile: filepath.Join(t.TempDir(), "ca.pem")}
	var err error
	if a.key, err = pqcert.GenerateKey(pqcert.MLDSA65); err != nil {
		t.Fatal(err)
	}
	tmpl := pqcert.Template{CommonName: "ids", CA: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	if a.root, err = pqcert.Create(tmpl, a.key.PublicKey(), nil, a.key); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.caFile, a.root.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// put stores an identity for the name as the entry.
func (a *identities) put(t *testing.T, entry, name string, life time.Duration) {
	t.Helper()
	key, err := pqcert.GenerateKey(pqcert.MLDSA65)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := pqcert.Template{CommonName: name, DNSNames: []string{name}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(life)}
	cert, err := pqcert.Create(tmpl, key.PublicKey(), a.root, a.key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	e := kms.Entry{Name: entry, Kind: kms.KindIdentity, Value: kms.NewSecret(text), Public: cert.PEM()}
	defer e.Value.Close()
	if _, err := a.store.Put(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

// prove runs a handshake between the two and gives the names that they have proven.
func prove(t *testing.T, client, server *handshake.Identity, name string) (ofClient, ofServer string, err error) {
	t.Helper()
	a := authority(t)
	leaf, err := a.IssueFiles(time.Hour, "localhost")
	if err != nil {
		t.Fatal(err)
	}
	files, err := handshake.NewFiles([]handshake.Pair{{Cert: leaf.CertFile, Key: leaf.KeyFile}}, handshake.FilesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	srv, err := handshake.NewServer(handshake.Settings{Sources: []handshake.Source{files}, NextProtos: []string{"x"}, Identity: server, PQ: handshake.Require})
	if err != nil {
		t.Fatal(err)
	}
	c, err := handshake.NewClient(handshake.ClientSettings{Roots: a.Pool(), ServerName: name, NextProtos: []string{"x"}, Identity: client, PQ: handshake.Require, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	type side struct {
		facts handshake.Facts
		err   error
	}
	served := make(chan side, 1)
	go func() {
		facts, err := srv.Handshake(t.Context(), srv.Conn(far))
		served <- side{facts, err}
	}()
	facts, err := c.Handshake(t.Context(), tls.Client(near, c.Config("localhost:1")), "localhost:1")
	s := <-served
	return s.facts.PeerName, facts.PeerName, errors.Join(err, s.err)
}

func TestIdentitiesOfAStoreAreProvenAndRenewed(t *testing.T) {
	s := newStore(t)
	ids := newIdentities(t, s)
	ids.put(t, "front", "front.test", time.Hour)
	ids.put(t, "back", "back.test", time.Hour)
	news := make(chan error, 8)
	open := func(entry string) *Identity {
		id, err := NewIdentity(s, IdentityOptions{Entry: entry, CA: ids.caFile, Poll: 10 * time.Millisecond, OnReload: func(err error) { news <- err }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = id.Close() })
		return id
	}
	front, back := open("front"), open("back")
	if a, b, err := prove(t, front.Identity, back.Identity, "back.test"); err != nil || a != "front.test" || b != "back.test" {
		t.Fatalf("%q and %q were proven, %v", a, b, err)
	}
	var audit strings.Builder
	if err := s.PrintAudit(&audit); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(audit.String(), `"op":"sign","name":"back"`); n != 1 {
		t.Errorf("%d proofs in the audit, want 1:\n%s", n, audit.String())
	}
	if info := back.Describe(); info.Location != "back" || info.Source != "identity" {
		t.Errorf("%+v", info)
	}

	ids.put(t, "back", "other.test", -time.Hour)
	var typed *IdentityError
	if err := <-news; !errors.As(err, &typed) || typed.Entry != "back" || !strings.Contains(err.Error(), "expired") {
		t.Errorf("an expired identity: %v", err)
	}
	if _, _, err := prove(t, front.Identity, back.Identity, "back.test"); err != nil {
		t.Errorf("the one before: %v", err)
	}
	ids.put(t, "back", "other.test", time.Hour)
	if err := <-news; err != nil {
		t.Errorf("%v", err)
	}
	if _, b, err := prove(t, front.Identity, back.Identity, "other.test"); err != nil || b != "other.test" {
		t.Errorf("%q, %v", b, err)
	}

	if err := os.WriteFile(ids.caFile, newIdentities(t, s).root.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // both look at the file
		if err := <-news; err != nil {
			t.Errorf("%v", err)
		}
	}
	if _, _, err := prove(t, front.Identity, back.Identity, "other.test"); err == nil {
		t.Error("proven to an authority that no longer vouches")
	}
}

func TestEntriesThatAreNoIdentitiesAreRefused(t *testing.T) {
	s := newStore(t)
	ids := newIdentities(t, s)
	ids.put(t, "front", "front.test", time.Hour)
	put(t, s, authority(t), "cert", nil, time.Hour, "a.example.com")
	for name, o := range map[string]IdentityOptions{
		"another kind":   {Entry: "cert", CA: ids.caFile},
		"no entry":       {Entry: "none", CA: ids.caFile},
		"no authorities": {Entry: "front", CA: ids.caFile + ".none"},
	} {
		_, err := NewIdentity(s, o)
		var typed *IdentityError
		if !errors.As(err, &typed) || typed.Entry != o.Entry {
			t.Errorf("%s: %v", name, err)
		}
	}
}
