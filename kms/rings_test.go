package kms

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// clockStore is a store whose clock the test sets.
func clockStore(t *testing.T, now *time.Time) *Store {
	t.Helper()
	dir := t.TempDir()
	master := MasterFile{Path: filepath.Join(dir, "master")}
	key, err := master.Create()
	if err != nil {
		t.Fatal(err)
	}
	if err := Init(filepath.Join(dir, "store"), key); err != nil {
		t.Fatal(err)
	}
	s, err := Open(filepath.Join(dir, "store"), Options{Master: master, Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestTicketRootsAreRotatedWithOverlap(t *testing.T) {
	start := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	now := start
	s := clockStore(t, &now)
	rotate := func() TicketRing {
		t.Helper()
		if _, err := s.RotateTicketRoot(t.Context(), "tickets"); err != nil {
			t.Fatal(err)
		}
		ring, err := s.TicketRoots(t.Context(), "tickets", "test")
		if err != nil {
			t.Fatal(err)
		}
		return ring
	}
	first := rotate()
	a := first.Roots[0].Root
	if got := first.At(start); len(got) != 1 || !bytes.Equal(got[0], a) {
		t.Fatalf("the first root does not serve at once: %d roots", len(got))
	}
	now = start.Add(24 * time.Hour)
	ring := rotate()
	b := ring.Roots[1].Root
	for _, test := range []struct {
		after time.Duration
		want  [][]byte
	}{
		{0, [][]byte{a, b}},
		{TicketLead - 1, [][]byte{a, b}},
		{TicketLead, [][]byte{b, a}},
		{TicketLead + TicketOverlap - 1, [][]byte{b, a}},
		{TicketLead + TicketOverlap, [][]byte{b}},
	} {
		got := ring.At(now.Add(test.after))
		if len(got) != len(test.want) || !bytes.Equal(bytes.Join(got, nil), bytes.Join(test.want, nil)) {
			t.Errorf("after %v there are %d roots, want %d in their order", test.after, len(got), len(test.want))
		}
	}
	if next := ring.Next(now); !next.Equal(now.Add(TicketLead)) {
		t.Errorf("the next change is at %v", next)
	}
	if next := ring.Next(now.Add(24 * time.Hour)); !next.IsZero() {
		t.Errorf("the next change is at %v", next)
	}
	now = now.Add(24 * time.Hour)
	if ring = rotate(); len(ring.Roots) != 2 || !bytes.Equal(ring.Roots[0].Root, b) {
		t.Errorf("the first root is still kept: %v", ring)
	}
	for _, shown := range []string{fmt.Sprintf("%v", ring), fmt.Sprintf("%+v", ring), fmt.Sprintf("%#v", ring)} {
		if shown != "2 ticket roots" {
			t.Errorf("a ring prints %s", shown)
		}
	}
}

func TestTicketRootsRotatedInHasteAreAllAccepted(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	s := clockStore(t, &now)
	for range 4 {
		if _, err := s.RotateTicketRoot(t.Context(), "tickets"); err != nil {
			t.Fatal(err)
		}
	}
	ring, err := s.TicketRoots(t.Context(), "tickets", "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{0, TicketLead, TicketLead + time.Minute} {
		seen := make(map[string]bool)
		for _, root := range ring.At(now.Add(after)) {
			seen[string(root)] = true
		}
		if len(seen) != 4 || len(ring.At(now.Add(after))) != 4 {
			t.Errorf("after %v %d roots are accepted", after, len(seen))
		}
	}
	_, err = s.ECH(t.Context(), "tickets", "test")
	wantErr(t, err, ErrKind)
}

// echServer is a TLS configuration with ECH keys, whose certificate is good
// for the public and the private name.
func echServer(t *testing.T, keys []ECHKey) (*tls.Config, *x509.CertPool) {
	t.Helper()
	cert, pool := selfSigned(t, "public.example.com", "private.example.com")
	c := &tls.Config{Certificates: []tls.Certificate{cert}}
	for _, k := range keys {
		c.EncryptedClientHelloKeys = append(c.EncryptedClientHelloKeys, tls.EncryptedClientHelloKey(k))
	}
	return c, pool
}

func TestGosClientTakesOurECHKeysThroughRotation(t *testing.T) {
	start := time.Now().UTC()
	now := start
	s := clockStore(t, &now)
	read := func() ECHRing {
		t.Helper()
		ring, err := s.ECH(t.Context(), "ech", "test")
		if err != nil {
			t.Fatal(err)
		}
		return ring
	}
	rotate := func(want bool) {
		t.Helper()
		rotated, err := s.RotateECH(t.Context(), "ech", "public.example.com", false)
		if err != nil || rotated != want {
			t.Fatalf("rotated: %v, %v", rotated, err)
		}
	}
	rotate(true)
	old := read().ConfigList(now)
	rotate(false)
	now = start.Add(ECHPublished)
	rotate(true)
	if list := read().ConfigList(now); !bytes.Equal(list, old) {
		t.Error("the new key is published before the fleet can have it")
	}
	now = now.Add(ECHLead)
	fresh := read().ConfigList(now)
	if bytes.Equal(fresh, old) {
		t.Error("the new key is not published")
	}
	connect := func(list []byte) error {
		server, pool := echServer(t, read().Keys(now))
		client := &tls.Config{RootCAs: pool, ServerName: "private.example.com", EncryptedClientHelloConfigList: list, MinVersion: tls.VersionTLS13}
		return echHandshake(t, server, client)
	}
	for _, list := range [][]byte{old, fresh} {
		if err := connect(list); err != nil {
			t.Errorf("%v", err)
		}
	}
	now = start.Add(ECHAccepted)
	var rejected *tls.ECHRejectionError
	if err := connect(old); !errors.As(err, &rejected) {
		t.Fatalf("a key of 90 days: %v", err)
	}
	if !bytes.Equal(rejected.RetryConfigList, fresh) {
		t.Error("the client is not told of the key that is published")
	}
	if err := connect(rejected.RetryConfigList); err != nil {
		t.Errorf("the retry: %v", err)
	}
}

// echHandshake returns the client's error; without one it checks that ECH was
// accepted and the server saw the private name.
func echHandshake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	seen := make(chan string, 1)
	go func() {
		conn := tls.Server(a, server)
		_ = conn.HandshakeContext(t.Context())
		seen <- conn.ConnectionState().ServerName
		_ = a.Close()
	}()
	conn := tls.Client(b, client)
	err := conn.HandshakeContext(t.Context())
	_, _ = conn.Read(make([]byte, 1))
	_ = b.Close()
	name := <-seen
	if err == nil && (!conn.ConnectionState().ECHAccepted || name != "private.example.com") {
		t.Errorf("ECH was not accepted; the server saw %q", name)
	}
	return err
}

func TestTheHTTPSRecordReadsBack(t *testing.T) {
	now := time.Now()
	s := clockStore(t, &now)
	if _, err := s.RotateECH(t.Context(), "ech", "public.example.com", false); err != nil {
		t.Fatal(err)
	}
	ring, err := s.ECH(t.Context(), "ech", "test")
	if err != nil {
		t.Fatal(err)
	}
	text := ring.HTTPSRecord("api.example.com", 5*time.Minute, []string{"h2", "h3"}, now)
	rr, err := dns.NewRR(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	https, ok := rr.(*dns.HTTPS)
	if !ok || https.Hdr.Ttl != 300 || https.Hdr.Name != "api.example.com." || https.Priority != 1 || len(https.Value) != 2 {
		t.Fatalf("record is %v", rr)
	}
	if https.Value[0].String() != "h2,h3" || https.Value[1].String() != base64.StdEncoding.EncodeToString(ring.ConfigList(now)) {
		t.Errorf("record is %v", rr)
	}
}

func TestECHPublicNamesAreThoseThatClientsTake(t *testing.T) {
	now := time.Now()
	s := clockStore(t, &now)
	for _, bad := range []string{"", "a..b", "-a.com", "a-.com", "a_b.com", "127.0.0.1", "a.0x7f", strings.Repeat("a", 64) + ".com", "é.com"} {
		if _, err := s.RotateECH(t.Context(), "ech", bad, true); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := s.RotateECH(t.Context(), "ech", "a.com", true); err != nil {
		t.Error(err)
	}
	if _, err := s.RotateECH(t.Context(), "ech", "b.com", true); err == nil {
		t.Error("the public name was changed")
	}
	if _, err := s.RotateECH(t.Context(), "ech", "", true); err != nil {
		t.Error(err)
	}
}

func FuzzParseRings(f *testing.F) {
	ring, err := ECHRing{PublicName: "a.com"}.rotate(time.Now())
	if err != nil {
		f.Fatal(err)
	}
	_ = ring
	f.Add([]byte(`{"public_name":"a.com","keys":[{"id":1,"config":"AAAAAAEA","private":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}]}`))
	f.Add([]byte(`{"roots":[{"root":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		now := time.Now()
		if ring, err := ParseECHRing(NewSecret(bytes.Clone(data))); err == nil {
			ring.Keys(now)
			if len(ring.ConfigList(now)) == 0 {
				t.Error("a ring publishes nothing")
			}
		}
		if ring, err := ParseTicketRing(NewSecret(bytes.Clone(data))); err == nil {
			ring.At(now)
			ring.Next(now)
		}
	})
}

func TestTicketRootsAreRotatedByAgeOnlyWhenDue(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	s := clockStore(t, &now)
	for _, test := range []struct {
		after, age time.Duration
		want       bool
	}{
		{0, 0, true}, // there is none yet
		{0, time.Hour, false},
		{time.Hour - 1, time.Hour, false},
		{1, time.Hour, true},
		{time.Hour, 0, false},
		{0, time.Hour, true},
	} {
		now = now.Add(test.after)
		got, err := s.RotateTicketRootAfter(t.Context(), "tickets", test.age)
		if err != nil || got != test.want {
			t.Errorf("after %v more, at the age of %v: rotated %v, %v; want %v", test.after, test.age, got, err, test.want)
		}
	}
}
