//go:build !go1.27

package handshake

import "crypto/x509"

// cnsa2Built tells whether this toolchain can hold pq: cnsa2: it has no ML-DSA in TLS.
const cnsa2Built = false

func mldsa87(*x509.Certificate) bool { return false }
