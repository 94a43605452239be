package handshake

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

// ReadCertificates reads all certificates of a PEM file: the CAs for
// [Settings].ClientCAs, or with [Pool] for [ClientSettings].Roots. It fails if
// there is none or one is malformed.
func ReadCertificates(path string) ([]*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %d: %w", path, len(certs)+1, err)
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("%s: no certificate in PEM", path)
	}
	return certs, nil
}

// Pool is a pool of the certificates.
func Pool(certs []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool
}
