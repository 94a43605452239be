package kms

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"testing"
	"time"
)

func selfSigned(t *testing.T, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestABlobOpensWhereItWasSealedTo(t *testing.T) {
	s, _ := newStore(t)
	other, _ := newStore(t)
	blob, err := SealBlob("deploy/token", NewSecret([]byte("value")), s.Recipients())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(blob, []byte("value")) {
		t.Error("the blob shows its value")
	}
	label, value, err := s.OpenBlob(t.Context(), blob, "test")
	if err != nil || label != "deploy/token" || string(value.Reveal()) != "value" {
		t.Errorf("%q, %v", label, err)
	}
	_, _, err = other.OpenBlob(t.Context(), blob, "test")
	wantErr(t, err, ErrNoKey)
	_, err = s.Import(t.Context(), blob, false)
	wantErr(t, err, ErrCorrupt)
	_, err = SealBlob("x", NewSecret([]byte("value")), nil)
	if err == nil {
		t.Error("sealed to nobody")
	}
	wantCleanAudit(t, s)
}

func TestAnExportGoesIntoAnotherStore(t *testing.T) {
	s, _ := newStore(t)
	other, _ := newStore(t)
	put(t, s, "a", "value of a")
	put(t, s, "b/c", "value of c")
	if _, err := s.Put(t.Context(), Entry{Name: "cert", Kind: KindPublic, Public: []byte("chain")}); err != nil {
		t.Fatal(err)
	}
	data, err := s.Export(t.Context(), other.Recipients())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Import(t.Context(), data, true)
	wantErr(t, err, ErrNoKey)
	infos, err := other.Import(t.Context(), data, false)
	if err != nil || len(infos) != 3 {
		t.Fatalf("%d, %v", len(infos), err)
	}
	wantValue(t, other, "a", "value of a")
	wantValue(t, other, "b/c", "value of c")
	if info, err := other.Stat("cert"); err != nil || string(info.Public) != "chain" {
		t.Errorf("%+v, %v", info, err)
	}
	_, err = other.Import(t.Context(), data, false)
	wantErr(t, err, ErrExists)
	if _, err = other.Import(t.Context(), data, true); err != nil {
		t.Error(err)
	}
	_, err = s.Export(t.Context(), other.Recipients(), "missing")
	wantErr(t, err, ErrNotFound)
	wantCleanAudit(t, other)
}

func FuzzOpenBlob(f *testing.F) {
	dir := f.TempDir()
	master := MasterFile{Path: dir + "/master"}
	key, err := master.Create()
	if err != nil {
		f.Fatal(err)
	}
	if err := Init(dir+"/store", key); err != nil {
		f.Fatal(err)
	}
	s, err := Open(dir+"/store", Options{Master: master})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	blob, err := SealBlob("a", NewSecret([]byte("value")), s.Recipients())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(blob)
	f.Fuzz(func(t *testing.T, data []byte) {
		_, value, err := s.OpenBlob(context.Background(), data, "fuzz")
		if err == nil && string(value.Reveal()) != "value" {
			t.Error("another value came out")
		}
	})
}
