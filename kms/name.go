package kms

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind says what a secret is for. It is bound to the sealed value: an entry of
// one kind cannot be passed off as another.
type Kind string

// Kinds of entries.
const (
	KindSecret      Kind = "secret"      // a named secret of the configuration
	KindCertificate Kind = "certificate" // key of a certificate; its chain is the public part
	KindCA          Kind = "ca"          // key of an issuing certificate
	KindACME        Kind = "acme"        // key of an ACME account, and what else certmagic must keep secret
	KindTicketRoot  Kind = "ticket-root" // a TicketRing
	KindECH         Kind = "ech"         // an ECHRing
	KindIdentity    Kind = "ml-dsa"      // key of a post-quantum identity
	KindPublic      Kind = "public"      // nothing secret: authenticated, not sealed
)

// Kinds lists all kinds.
func Kinds() []Kind {
	return []Kind{KindSecret, KindCertificate, KindCA, KindACME, KindTicketRoot, KindECH, KindIdentity, KindPublic}
}

// Valid reports whether k is one of Kinds.
func (k Kind) Valid() bool {
	for _, kind := range Kinds() {
		if k == kind {
			return true
		}
	}
	return false
}

const (
	// MaxName is the longest name, in bytes.
	MaxName = 1024
	// MaxValue is the largest value, and the largest public part, in bytes.
	// The largest thing stored is a chain of ML-DSA-87 certificates.
	MaxValue = 1 << 20

	// maxFileName leaves room for suffixes below the 255 bytes of common file
	// systems.
	maxFileName    = 200
	sealedSuffix   = ".sealed"
	previousSuffix = ".previous"
)

// CheckName returns ErrName when name cannot be the name of an entry: it is a
// path of one or more parts divided by "/", printable, without "." or "..".
func CheckName(name string) error {
	if name == "" || len(name) > MaxName || !utf8.ValidString(name) {
		return fail("check name", "", ErrName, "1 to 1024 bytes of UTF-8")
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return fail("check name", "", ErrName, "printable characters only")
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return fail("check name", name, ErrName, `no empty part, "." or ".."`)
		}
	}
	return nil
}

// fileName is the one file name of an entry: the name itself where it can be,
// escaped where not, shortened by a hash where that would be too long.
func fileName(name string) string {
	const hexDigits = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			out.WriteByte(c)
		default:
			out.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	if out.Len() <= maxFileName {
		return out.String()
	}
	sum := sha256.Sum256([]byte(name))
	return out.String()[:maxFileName-2*len(sum)-1] + "~" + hex.EncodeToString(sum[:])
}

// nameOfFile undoes fileName; ok is false for names that a hash has shortened.
func nameOfFile(file string) (name string, ok bool) {
	if strings.Contains(file, "~") {
		return "", false
	}
	name, err := url.PathUnescape(file)
	return name, err == nil
}
