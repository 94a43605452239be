package handshake

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"time"
)

// A Source has certificates and keeps them fresh. Several can serve one
// listener side by side: they are asked in their order. Its methods are safe
// for concurrent use.
type Source interface {
	// Certificate is the certificate for the name in the hello. It is nil,
	// without an error, where the source has none for that name or the hello
	// has no name. An error ends the handshake.
	Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
	// Default is the certificate for a client that named no host, or one that
	// no source knows; nil where the source has none to offer. hello is nil
	// when we are the client.
	Default(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
	// Describe lists what the source has now.
	Describe() []CertInfo
	// Close stops what keeps the certificates fresh; what was handed out stays usable.
	Close() error
}

// CertInfo describes a certificate in use, for status pages and metrics.
type CertInfo struct {
	Source   string   `json:"source"`             // kind: "files", "dev", …
	Location string   `json:"location,omitempty"` // file or store entry it came from
	Names    []string `json:"names"`              // DNS names and IP addresses
	Issuer   string   `json:"issuer"`
	Key      string   `json:"key"` // "ECDSA P-256", "RSA 2048", …

	NotBefore time.Time `json:"not_before"`
	NotAfter  time.Time `json:"not_after"`
}

// NormalName is a host name as certificates and routes look it up: lower case,
// without the trailing dot of a fully qualified name, an IPv6 literal without
// its brackets. It allocates only where the name is not in that form already.
func NormalName(host string) string {
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// wildcardOf is the wildcard name that covers name, "" where none can: a
// wildcard stands for exactly one label (RFC 9525, section 6.3).
func wildcardOf(name string) string {
	if _, parent, ok := strings.Cut(name, "."); ok && strings.Contains(parent, ".") {
		return "*." + parent
	}
	return ""
}

// namesOf are the DNS names and addresses a certificate is for, in normal
// form; its common name only where it has neither.
func namesOf(c *x509.Certificate) []string {
	var names []string
	for _, n := range c.DNSNames {
		names = append(names, NormalName(n))
	}
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 && c.Subject.CommonName != "" {
		names = append(names, NormalName(c.Subject.CommonName))
	}
	return names
}

// maxDNSName is the longest host name (RFC 1035, section 3.1), in characters.
const maxDNSName = 253

// checkDNSName refuses what is no host name in normal form. A wildcard may
// stand for the first label. Underscores are let through, being in use.
func checkDNSName(n string) error {
	if n == "" || len(n) > maxDNSName {
		return fmt.Errorf("%q is not a host name: it must have 1 to %d characters", n, maxDNSName)
	}
	for label := range strings.SplitSeq(strings.TrimPrefix(n, "*."), ".") {
		bad := strings.ContainsFunc(label, func(r rune) bool {
			return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
		})
		if bad || label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return fmt.Errorf("%q is not a host name", n)
		}
	}
	return nil
}
