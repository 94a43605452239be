// Package pqcert makes, reads and verifies X.509 certificates with ML-DSA keys
// as RFC 9881 has them, which Go 1.26's crypto/x509 does not. It is pure: it
// knows bytes and a time, no files and no network.
package pqcert
