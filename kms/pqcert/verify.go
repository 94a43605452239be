package pqcert

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/cryptobyte"
	casn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// Limits on what a peer may send: a certificate of ML-DSA-87 has about 7.5 KB.
const (
	MaxCertificate = 64 << 10
	MaxChain       = 8
)

// Reasons why a chain is refused; test with errors.Is.
var (
	ErrMalformed   = errors.New("pqcert: certificate is malformed")
	ErrExpired     = errors.New("pqcert: certificate is not valid at this time")
	ErrUnknown     = errors.New("pqcert: chain leads to no certificate that is trusted")
	ErrSignature   = errors.New("pqcert: signature of a certificate is wrong")
	ErrUsage       = errors.New("pqcert: certificate may not be used for this")
	ErrName        = errors.New("pqcert: certificate is not for this name")
	errNoneTrusted = fmt.Errorf("%w: none is given", ErrUnknown)
)

// Certificate is an X.509 certificate with an ML-DSA key, signed with ML-DSA.
type Certificate struct {
	*x509.Certificate            // its PublicKey and Verify know nothing of ML-DSA
	PublicKey         *PublicKey // the subject's
	signedWith        Algorithm
}

// Parse reads one certificate in DER. Errors are ErrMalformed or ErrAlgorithm.
func Parse(der []byte) (*Certificate, error) {
	if len(der) > MaxCertificate {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrMalformed, len(der))
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	key, err := ParsePKIX(parsed.RawSubjectPublicKeyInfo)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	// x509 has checked that the algorithm inside the signed part is the same.
	input := cryptobyte.String(der)
	var outer cryptobyte.String
	if !input.ReadASN1(&outer, casn1.SEQUENCE) || !outer.SkipASN1(casn1.SEQUENCE) {
		return nil, ErrMalformed
	}
	signedWith, err := readAlgorithm(&outer)
	if err != nil {
		return nil, fmt.Errorf("%w: signature: %w", ErrMalformed, err)
	}
	return &Certificate{Certificate: parsed, PublicKey: key, signedWith: signedWith}, nil
}

// ParsePEM reads all certificates in PEM, the first being the leaf. Blocks of
// other types are passed over.
func ParsePEM(data []byte) ([]*Certificate, error) {
	var chain []*Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != pemCertificate {
			continue
		}
		c, err := Parse(block.Bytes)
		if err != nil {
			return nil, err
		}
		chain = append(chain, c)
	}
	if len(chain) == 0 {
		return nil, fmt.Errorf("%w: no CERTIFICATE in PEM", ErrMalformed)
	}
	return chain, nil
}

// PEM is the certificate in PEM.
func (c *Certificate) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: c.Raw})
}

// CheckSignatureFrom checks that issuer's key signed c.
func (c *Certificate) CheckSignatureFrom(issuer *Certificate) error {
	if c.signedWith != issuer.PublicKey.algorithm || !issuer.PublicKey.Verify(c.RawTBSCertificate, c.Signature, "") {
		return ErrSignature
	}
	return nil
}

// Expect is what Verify asks of a chain.
type Expect struct {
	Roots []*Certificate // those that are trusted; required
	Time  time.Time      // now when zero
	Name  string         // DNS name or IP address of the leaf; empty for any
	// Usage of the leaf: x509.ExtKeyUsageServerAuth, …ClientAuth, or
	// …Any, which is the zero value.
	Usage x509.ExtKeyUsage
}

// Verify checks a chain as a peer sends it, leaf first, each next one the
// issuer of the one before, and returns it with the root at its end. All of it
// must be ML-DSA: one classical link would be the weakest. It follows RFC 5280,
// section 6, without revocation and policies; a name constraint or a critical
// extension that is not understood is a refusal.
func Verify(chain []*Certificate, expect Expect) ([]*Certificate, error) {
	switch {
	case len(chain) == 0:
		return nil, fmt.Errorf("%w: the chain is empty", ErrMalformed)
	case len(chain) > MaxChain:
		return nil, fmt.Errorf("%w: the chain has %d certificates", ErrMalformed, len(chain))
	case len(expect.Roots) == 0:
		return nil, errNoneTrusted
	}
	now := expect.Time
	if now.IsZero() {
		now = time.Now()
	}
	if err := checkLeaf(chain[0], expect); err != nil {
		return nil, err
	}
	for i, c := range chain {
		if err := checkLink(c, i, now); err != nil {
			return nil, err
		}
		if !allows(c, expect.Usage) { // an authority's usages bound those below it
			return nil, fmt.Errorf("%w: extended key usage of %s", ErrUsage, c.Subject)
		}
		whole, err := trusted(chain[:i+1:i+1], expect.Roots, now)
		if whole != nil || err != nil {
			return whole, err
		}
		if i+1 == len(chain) {
			break
		}
		if !names(chain[i+1], c) {
			return nil, fmt.Errorf("%w: certificate %d did not issue the one before", ErrUnknown, i+1)
		}
		if err := c.CheckSignatureFrom(chain[i+1]); err != nil {
			return nil, err
		}
	}
	return nil, ErrUnknown
}

// trusted returns the chain with a root that its last certificate is, or that issued it,
// at its end; nil where there is none. An authority that was renewed with its key has
// two: one of them is to be good, and the error is of the first where none is.
func trusted(chain, roots []*Certificate, now time.Time) (whole []*Certificate, err error) {
	c := chain[len(chain)-1]
	if slices.ContainsFunc(roots, func(r *Certificate) bool { return r.Equal(c.Certificate) }) {
		return chain, nil
	}
	for _, r := range roots {
		if !names(r, c) || c.CheckSignatureFrom(r) != nil {
			continue
		}
		bad := checkLink(r, len(chain), now)
		if bad == nil {
			return append(chain, r), nil
		}
		if err == nil {
			err = bad
		}
	}
	return nil, err
}

// names reports whether issuer is the one that c names.
func names(issuer, c *Certificate) bool {
	return bytes.Equal(issuer.RawSubject, c.RawIssuer) &&
		(len(c.AuthorityKeyId) == 0 || len(issuer.SubjectKeyId) == 0 || bytes.Equal(c.AuthorityKeyId, issuer.SubjectKeyId))
}

func checkLeaf(c *Certificate, expect Expect) error {
	if c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return fmt.Errorf("%w: its key may not sign", ErrUsage)
	}
	if expect.Name != "" {
		if err := c.VerifyHostname(expect.Name); err != nil {
			return fmt.Errorf("%w: %w", ErrName, err)
		}
	}
	return nil
}

func allows(c *Certificate, usage x509.ExtKeyUsage) bool {
	if usage == x509.ExtKeyUsageAny || len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) == 0 {
		return true
	}
	return slices.Contains(c.ExtKeyUsage, usage) || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny)
}

// checkLink checks what each certificate of a chain must be; below is how many
// stand below it, of which all but the leaf issue.
func checkLink(c *Certificate, below int, now time.Time) error {
	switch {
	case now.Before(c.NotBefore) || now.After(c.NotAfter):
		return fmt.Errorf("%w: %s is good from %s to %s", ErrExpired, c.Subject, c.NotBefore.Format(time.RFC3339), c.NotAfter.Format(time.RFC3339))
	case len(c.UnhandledCriticalExtensions) > 0:
		return fmt.Errorf("%w: critical extension %v is unknown", ErrUsage, c.UnhandledCriticalExtensions[0])
	case constrained(c):
		return fmt.Errorf("%w: name constraints are not supported", ErrUsage)
	case below == 0:
		return nil
	case !c.BasicConstraintsValid || !c.IsCA:
		return fmt.Errorf("%w: %s is no authority", ErrUsage, c.Subject)
	case c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0:
		return fmt.Errorf("%w: %s may not issue", ErrUsage, c.Subject)
	case (c.MaxPathLen > 0 || c.MaxPathLenZero) && below-1 > c.MaxPathLen:
		return fmt.Errorf("%w: the chain below %s is too long", ErrUsage, c.Subject)
	}
	return nil
}

func constrained(c *Certificate) bool {
	return len(c.PermittedDNSDomains)+len(c.ExcludedDNSDomains)+len(c.PermittedIPRanges)+len(c.ExcludedIPRanges)+
		len(c.PermittedEmailAddresses)+len(c.ExcludedEmailAddresses)+len(c.PermittedURIDomains)+len(c.ExcludedURIDomains) > 0
}
