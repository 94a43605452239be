package handshake

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hanzoai/pqgw/kms/pqcert"
)

// IdentityAuthority is an Authority whose certificates have ML-DSA keys (RFC
// 9881): identities of peers, which TLS in Go 1.26 cannot use itself. The files
// have the same names.
type IdentityAuthority struct {
	dir  string
	cert *pqcert.Certificate
	key  *pqcert.PrivateKey
}

// MakeIdentityAuthority opens the authority in dir, or makes one with a key of
// the algorithm where there is none. Of several processes that make it at the
// same time all get the same. Errors are *[AuthorityError]: also where the
// authority that is there has a key of another algorithm.
func MakeIdentityAuthority(dir string, algorithm pqcert.Algorithm) (a *IdentityAuthority, created bool, err error) {
	if err := os.MkdirAll(dir, secretDir); err != nil {
		return nil, false, &AuthorityError{Dir: dir, Err: err}
	}
	if _, err := os.Stat(filepath.Join(dir, caFile)); errors.Is(err, fs.ErrNotExist) {
		if created, err = writeIdentityAuthority(dir, algorithm); err != nil {
			return nil, false, &AuthorityError{Dir: dir, Err: err}
		}
	}
	if a, err = OpenIdentityAuthority(dir); err != nil {
		return nil, false, err
	}
	if got := a.key.Algorithm(); got != algorithm {
		return nil, false, &AuthorityError{Dir: dir, Err: fmt.Errorf("it has a key of %v, not %v; take another folder", got, algorithm)}
	}
	return a, created, nil
}

// writeIdentityAuthority writes the key first and then a certificate for the
// key that is there, as writeAuthority does.
func writeIdentityAuthority(dir string, algorithm pqcert.Algorithm) (created bool, err error) {
	key, err := pqcert.GenerateKey(algorithm)
	if err != nil {
		return false, err
	}
	keyPEM, err := key.PEM()
	if err != nil {
		return false, err
	}
	keyPath := filepath.Join(dir, caKeyFile)
	if _, err := writeOnce(keyPath, keyPEM, secretFile); err != nil {
		return false, err
	}
	if key, err = readIdentityKey(keyPath); err != nil {
		return false, err
	}
	id := make([]byte, 4)
	rand.Read(id) // never fails: crypto/rand ends the program instead
	now := time.Now()
	cert, err := pqcert.Create(pqcert.Template{
		CommonName: "pqgw identity CA " + hex.EncodeToString(id),
		NotBefore:  now.Add(-backdate),
		NotAfter:   now.Add(caLife),
		CA:         true,
	}, key.PublicKey(), nil, key)
	if err != nil {
		return false, err
	}
	return writeOnce(filepath.Join(dir, caFile), cert.PEM(), publicFile)
}

func readIdentityKey(path string) (*pqcert.PrivateKey, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	defer clear(data)
	return pqcert.ParsePrivateKeyPEM(data)
}

// OpenIdentityAuthority opens the authority in dir. Errors are *[AuthorityError].
func OpenIdentityAuthority(dir string) (*IdentityAuthority, error) {
	a, err := openIdentityAuthority(dir)
	if err != nil {
		return nil, &AuthorityError{Dir: dir, Err: err}
	}
	return a, nil
}

func openIdentityAuthority(dir string) (*IdentityAuthority, error) {
	data, err := os.ReadFile(filepath.Join(dir, caFile))
	if err != nil {
		return nil, err
	}
	certs, err := pqcert.ParsePEM(data)
	if errors.Is(err, pqcert.ErrAlgorithm) {
		return nil, fmt.Errorf("%s has no ML-DSA key; take another folder for identities: %w", caFile, err)
	}
	if err != nil {
		return nil, err
	}
	key, err := readIdentityKey(filepath.Join(dir, caKeyFile))
	if err != nil {
		return nil, err
	}
	cert := certs[0]
	switch {
	case !cert.IsCA || !cert.PublicKey.Equal(key.Public()):
		return nil, errors.New(caFile + " is not the certificate of an authority with the key of " + caKeyFile)
	case time.Now().After(cert.NotAfter):
		return nil, fmt.Errorf("%s expired on %s; remove %s and %s to make a new one", caFile, cert.NotAfter.Format(time.DateOnly), caFile, caKeyFile)
	}
	return &IdentityAuthority{dir: dir, cert: cert, key: key}, nil
}

// CertFile is the path of the authority's certificate: what peers must trust.
func (a *IdentityAuthority) CertFile() string { return filepath.Join(a.dir, caFile) }

// KeyFile is the path of the authority's key.
func (a *IdentityAuthority) KeyFile() string { return filepath.Join(a.dir, caKeyFile) }

// Certificate is the authority's certificate.
func (a *IdentityAuthority) Certificate() *pqcert.Certificate { return a.cert }

// IssueFiles issues a certificate with a new key of the algorithm for the name,
// localhost and 127.0.0.1, and writes it to NAME.pem and NAME-key.pem (mode
// 0600) in the authority's folder, in place of what is there.
func (a *IdentityAuthority) IssueFiles(algorithm pqcert.Algorithm, life time.Duration, name string) (Issued, error) {
	f := Issued{CertFile: filepath.Join(a.dir, name+".pem"), KeyFile: filepath.Join(a.dir, name+"-key.pem")}
	if f.CertFile == a.CertFile() || f.CertFile == a.KeyFile() {
		return f, fmt.Errorf("the name %q would overwrite the authority's own files", name)
	}
	cert, key, err := a.issue(algorithm, life, name)
	if err != nil {
		return f, fmt.Errorf("issue certificate for %s: %w", name, err)
	}
	f.Names, f.NotAfter = namesOf(cert.Certificate), cert.NotAfter
	keyPEM, err := key.PEM()
	if err != nil {
		return f, err
	}
	defer clear(keyPEM)
	if err := writeOver(f.KeyFile, keyPEM, secretFile); err != nil {
		return f, err
	}
	return f, writeOver(f.CertFile, cert.PEM(), publicFile)
}

func (a *IdentityAuthority) issue(algorithm pqcert.Algorithm, life time.Duration, name string) (*pqcert.Certificate, *pqcert.PrivateKey, error) {
	var names x509.Certificate
	if err := addNames(&names, slices.Concat([]string{name}, localNames)); err != nil {
		return nil, nil, err
	}
	key, err := pqcert.GenerateKey(algorithm)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	tmpl := pqcert.Template{
		DNSNames: names.DNSNames, IPs: names.IPAddresses,
		NotBefore: now.Add(-backdate), NotAfter: now.Add(life),
	}
	if len(name) <= maxCommonName {
		tmpl.CommonName = name
	}
	if tmpl.NotAfter.After(a.cert.NotAfter) {
		tmpl.NotAfter = a.cert.NotAfter
	}
	cert, err := pqcert.Create(tmpl, key.PublicKey(), a.cert, a.key)
	return cert, key, err
}
