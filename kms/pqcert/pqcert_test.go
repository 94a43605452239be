package pqcert

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"golang.org/x/crypto/cryptobyte"
	casn1 "golang.org/x/crypto/cryptobyte/asn1"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

type authority struct {
	cert *Certificate
	key  *PrivateKey
}

func generate(t testing.TB, a Algorithm) *PrivateKey {
	t.Helper()
	key, err := GenerateKey(a)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue makes a certificate; a nil parent makes it self-signed.
func issue(t testing.TB, a Algorithm, tmpl Template, parent *authority) authority {
	t.Helper()
	if tmpl.NotBefore.IsZero() {
		tmpl.NotBefore, tmpl.NotAfter = noon.Add(-time.Hour), noon.Add(24*time.Hour)
	}
	key := generate(t, a)
	var issuer *Certificate
	var signer crypto.Signer = key
	if parent != nil {
		issuer, signer = parent.cert, parent.key
	}
	cert, err := Create(tmpl, key.PublicKey(), issuer, signer)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

func ca(name string, pathLen int) Template {
	return Template{CommonName: name, CA: true, MaxPathLen: pathLen}
}

func leafOf(name string) Template {
	uri, _ := url.Parse("spiffe://example.com/" + name)
	return Template{CommonName: name, DNSNames: []string{name, "localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, URIs: []*url.URL{uri}}
}

func TestChainsVerify(t *testing.T) {
	for _, a := range []Algorithm{MLDSA65, MLDSA87} {
		t.Run(a.String(), func(t *testing.T) {
			root := issue(t, a, ca("root", 1), nil)
			middle := issue(t, MLDSA65, ca("middle", 0), &root)
			leaf := issue(t, a, leafOf("a.example.com"), &middle)
			direct := issue(t, a, leafOf("b.example.com"), &root)
			roots := []*Certificate{root.cert}
			for _, chain := range [][]*Certificate{
				{leaf.cert, middle.cert}, {leaf.cert, middle.cert, root.cert}, {direct.cert},
			} {
				verified, err := Verify(chain, Expect{Roots: roots, Time: noon, Usage: x509.ExtKeyUsageServerAuth})
				if err != nil || !verified[len(verified)-1].Equal(root.cert.Certificate) {
					t.Errorf("chain of %d: %d, %v", len(chain), len(verified), err)
				}
			}
			for _, name := range []string{"a.example.com", "localhost", "127.0.0.1", "::1"} {
				if _, err := Verify([]*Certificate{leaf.cert, middle.cert}, Expect{Roots: roots, Time: noon, Name: name}); err != nil {
					t.Errorf("name %s: %v", name, err)
				}
			}
			if len(leaf.cert.URIs) != 1 || leaf.cert.URIs[0].Host != "example.com" {
				t.Errorf("URIs are %v", leaf.cert.URIs)
			}
		})
	}
}

func TestOneOfTheRootsOfARenewedAuthorityIsToBeGood(t *testing.T) {
	key := generate(t, MLDSA65)
	self := func(from, to time.Time) *Certificate {
		tmpl := ca("root", 1)
		tmpl.NotBefore, tmpl.NotAfter = from, to
		cert, err := Create(tmpl, key.PublicKey(), nil, key)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	before := self(noon.Add(-48*time.Hour), noon.Add(-time.Hour))
	now := self(noon.Add(-2*time.Hour), noon.Add(48*time.Hour))
	leaf := issue(t, MLDSA65, leafOf("a.example.com"), &authority{now, key})
	for _, roots := range [][]*Certificate{{before, now}, {now, before}} {
		verified, err := Verify([]*Certificate{leaf.cert}, Expect{Roots: roots, Time: noon})
		if err != nil || !verified[len(verified)-1].Equal(now.Certificate) {
			t.Errorf("%d, %v", len(verified), err)
		}
	}
	if _, err := Verify([]*Certificate{leaf.cert}, Expect{Roots: []*Certificate{before}, Time: noon}); !errors.Is(err, ErrExpired) {
		t.Errorf("the old one alone: %v", err)
	}
}

func TestChainsAreRefusedWithTheirReason(t *testing.T) {
	root := issue(t, MLDSA65, ca("root", 1), nil)
	evil := issue(t, MLDSA65, ca("root", 1), nil) // same name, other key
	middle := issue(t, MLDSA65, ca("middle", 0), &root)
	third := issue(t, MLDSA65, ca("third", 0), &middle)
	leaf := issue(t, MLDSA65, leafOf("a.example.com"), &middle)
	tooDeep := issue(t, MLDSA65, leafOf("a.example.com"), &third)
	underLeaf := issue(t, MLDSA65, leafOf("b.example.com"), &leaf)
	forged := issue(t, MLDSA65, leafOf("a.example.com"), &evil)
	short := leafOf("a.example.com")
	short.NotBefore, short.NotAfter = noon.Add(-2*time.Hour), noon.Add(-time.Hour)
	expired := issue(t, MLDSA65, short, &root)
	broken := *leaf.cert
	brokenX := *leaf.cert.Certificate
	brokenX.Signature = bytes.Clone(brokenX.Signature)
	brokenX.Signature[100] ^= 1
	broken.Certificate = &brokenX
	long := make([]*Certificate, MaxChain+1)
	for i := range long {
		long[i] = leaf.cert
	}
	roots := []*Certificate{root.cert}
	tests := []struct {
		name   string
		chain  []*Certificate
		expect Expect
		want   error
	}{
		{"an empty chain", nil, Expect{Roots: roots}, ErrMalformed},
		{"a chain that is too long", long, Expect{Roots: roots}, ErrMalformed},
		{"no roots", []*Certificate{leaf.cert}, Expect{}, ErrUnknown},
		{"a missing link", []*Certificate{leaf.cert}, Expect{Roots: roots}, ErrUnknown},
		{"links in the wrong order", []*Certificate{leaf.cert, root.cert, middle.cert}, Expect{Roots: roots}, ErrUnknown},
		{"a root of the same name", []*Certificate{forged.cert}, Expect{Roots: roots}, ErrUnknown},
		{"a root of the same name, sent", []*Certificate{forged.cert, evil.cert}, Expect{Roots: roots}, ErrUnknown},
		{"a wrong signature", []*Certificate{&broken, middle.cert}, Expect{Roots: roots}, ErrSignature},
		{"an expired leaf", []*Certificate{expired.cert}, Expect{Roots: roots}, ErrExpired},
		{"an expired root", []*Certificate{leaf.cert, middle.cert}, Expect{Roots: roots, Time: noon.Add(48 * time.Hour)}, ErrExpired},
		{"a leaf that issues", []*Certificate{underLeaf.cert, leaf.cert, middle.cert}, Expect{Roots: roots}, ErrUsage},
		{"a path that is too long", []*Certificate{tooDeep.cert, third.cert, middle.cert}, Expect{Roots: roots}, ErrUsage},
		{"an authority as a leaf", []*Certificate{middle.cert}, Expect{Roots: roots}, ErrUsage},
		{"another usage", []*Certificate{leaf.cert, middle.cert}, Expect{Roots: roots, Usage: x509.ExtKeyUsageCodeSigning}, ErrUsage},
		{"another name", []*Certificate{leaf.cert, middle.cert}, Expect{Roots: roots, Name: "b.example.com"}, ErrName},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.expect.Time.IsZero() {
				test.expect.Time = noon
			}
			if _, err := Verify(test.chain, test.expect); !errors.Is(err, test.want) {
				t.Errorf("error is %v, want %v", err, test.want)
			}
		})
	}
}

func TestKeysComeBackFromAllForms(t *testing.T) {
	for _, a := range []Algorithm{MLDSA65, MLDSA87} {
		key := generate(t, a)
		seedOnly, err := key.MarshalPKCS8()
		if err != nil {
			t.Fatal(err)
		}
		if len(seedOnly) != 54 { // as in RFC 9881, appendix C
			t.Errorf("%v: the seed form has %d bytes", a, len(seedOnly))
		}
		expandedOnly, err := (&PrivateKey{algorithm: a, k65: key.k65, k87: key.k87}).MarshalPKCS8()
		if err != nil {
			t.Fatal(err)
		}
		for i, der := range [][]byte{seedOnly, expandedOnly, bothForms(t, key, key), bothForms(t, key, generate(t, a))} {
			got, err := ParsePKCS8(der)
			if i == 3 {
				if err == nil {
					t.Error("a seed and an expanded key that differ were taken")
				}
				continue
			}
			if err != nil || !got.Equal(key) || !got.PublicKey().Equal(key.Public()) {
				t.Errorf("%v: form %d: %v", a, i, err)
			}
		}
		der, err := key.PublicKey().MarshalPKIX()
		if err != nil {
			t.Fatal(err)
		}
		public, err := ParsePKIX(der)
		if err != nil || !public.Equal(key.Public()) {
			t.Error(err)
		}
	}
}

func bothForms(t *testing.T, seed, expanded *PrivateKey) []byte {
	t.Helper()
	var b cryptobyte.Builder
	b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1Int64(0)
		addAlgorithm(b, seed.algorithm)
		b.AddASN1(casn1.OCTET_STRING, func(b *cryptobyte.Builder) {
			b.AddASN1(casn1.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1OctetString(seed.seed)
				b.AddASN1OctetString(expanded.expanded())
			})
		})
	})
	return b.BytesOrPanic()
}

func TestSignaturesAreOfTheMessageAndItsContext(t *testing.T) {
	for _, a := range []Algorithm{MLDSA65, MLDSA87} {
		key := generate(t, a)
		message := []byte("message")
		plain, err := key.Sign(nil, message, crypto.Hash(0))
		if err != nil {
			t.Fatal(err)
		}
		bound, err := key.Sign(nil, message, &Options{Context: "label"})
		if err != nil {
			t.Fatal(err)
		}
		p := key.PublicKey()
		if !p.Verify(message, plain, "") || p.Verify(message, plain, "label") || !p.Verify(message, bound, "label") || p.Verify(message, bound, "") {
			t.Error("contexts are mixed up")
		}
		if p.Verify([]byte("massage"), plain, "") || generate(t, a).PublicKey().Verify(message, plain, "") {
			t.Error("a wrong signature was taken")
		}
		if _, err := key.Sign(nil, make([]byte, 32), crypto.SHA256); err == nil {
			t.Error("a digest was signed")
		}
	}
}

func TestAPrivateKeyIsNotPrinted(t *testing.T) {
	key, err := NewKeyFromSeed(MLDSA65, bytes.Repeat([]byte{0xAB}, SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%s"} {
		if got := fmt.Sprintf(verb, key); got != "ml-dsa-65 private key" {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}

func TestLongLivesUseGeneralizedTime(t *testing.T) {
	tmpl := ca("root", 0)
	tmpl.NotBefore, tmpl.NotAfter = noon, time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC)
	if got := issue(t, MLDSA65, tmpl, nil); !got.cert.NotAfter.Equal(tmpl.NotAfter) {
		t.Errorf("ends %v", got.cert.NotAfter)
	}
}

func FuzzParse(f *testing.F) {
	root := issue(f, MLDSA65, ca("root", 1), nil)
	f.Add(root.cert.Raw)
	f.Add(root.cert.RawTBSCertificate)
	f.Fuzz(func(t *testing.T, der []byte) {
		c, err := Parse(der)
		if err != nil {
			return
		}
		_, err = Verify([]*Certificate{c}, Expect{Roots: []*Certificate{root.cert}, Time: noon})
		if err == nil && !bytes.Equal(der, root.cert.Raw) {
			t.Error("another certificate than the root was trusted")
		}
	})
}

func FuzzParsePKCS8(f *testing.F) {
	key := generate(f, MLDSA65)
	der, err := key.MarshalPKCS8()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(der)
	f.Fuzz(func(t *testing.T, der []byte) {
		k, err := ParsePKCS8(der)
		if err != nil {
			return
		}
		again, err := k.MarshalPKCS8()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParsePKCS8(again); err != nil || !back.Equal(k) {
			t.Errorf("it does not come back: %v", err)
		}
	})
}

func FuzzParsePKIX(f *testing.F) {
	der, err := generate(f, MLDSA87).PublicKey().MarshalPKIX()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(der)
	f.Fuzz(func(t *testing.T, der []byte) {
		p, err := ParsePKIX(der)
		if err != nil {
			return
		}
		if again, err := p.MarshalPKIX(); err != nil || !bytes.Equal(again, der) {
			t.Errorf("it does not come back: %v", err)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	for _, a := range []Algorithm{MLDSA65, MLDSA87} {
		b.Run(a.String(), func(b *testing.B) {
			key := generate(b, a)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := key.Sign(nil, []byte("message"), nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerifyChain(b *testing.B) {
	root := issue(b, MLDSA65, ca("root", 1), nil)
	leaf := issue(b, MLDSA65, leafOf("a"), &root)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Verify([]*Certificate{leaf.cert}, Expect{Roots: []*Certificate{root.cert}, Time: noon}); err != nil {
			b.Fatal(err)
		}
	}
}
