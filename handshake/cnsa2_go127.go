//go:build go1.27

package handshake

import (
	"crypto/mldsa"
	"crypto/x509"
)

// cnsa2Built tells whether this toolchain can hold pq: cnsa2.
const cnsa2Built = true

// MLKEM1024 alone is offered only where a configuration asks for it.
func init() { known = append(known, mlkem1024) }

// mldsa87 tells whether the certificate has an ML-DSA-87 key and is signed by one.
func mldsa87(c *x509.Certificate) bool {
	key, ok := c.PublicKey.(*mldsa.PublicKey)
	return ok && key.Parameters() == mldsa.MLDSA87() && c.SignatureAlgorithm == x509.MLDSA87
}
