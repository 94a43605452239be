package handshake

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	caFile    = "ca.pem"
	caKeyFile = "ca-key.pem"
	// caLife is long: replacing a CA means telling every client anew.
	caLife = 10 * 365 * 24 * time.Hour
	// backdate lets machines whose clocks are behind accept a new certificate.
	backdate = time.Hour
)

// Authority is a small certificate authority in a folder: ca.pem and
// ca-key.pem (mode 0600), ECDSA P-256.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// AuthorityError is an authority's folder that cannot be used.
type AuthorityError struct {
	Dir string
	Err error
}

// Error names the folder and what is wrong with it.
func (e *AuthorityError) Error() string {
	return "certificate authority in " + e.Dir + ": " + e.Err.Error()
}

// Unwrap is the reason without the folder.
func (e *AuthorityError) Unwrap() error { return e.Err }

// MakeAuthority opens the authority in dir, or makes one where there is none.
// Of several processes that make it at the same time all get the same.
func MakeAuthority(dir string) (a *Authority, created bool, err error) {
	if err := os.MkdirAll(dir, secretDir); err != nil {
		return nil, false, &AuthorityError{Dir: dir, Err: err}
	}
	if _, err := os.Stat(filepath.Join(dir, caFile)); errors.Is(err, fs.ErrNotExist) {
		if created, err = writeAuthority(dir); err != nil {
			return nil, false, &AuthorityError{Dir: dir, Err: err}
		}
	}
	a, err = OpenAuthority(dir)
	return a, created, err
}

// writeAuthority writes the key first and then a certificate for the key that
// is there, so a crash between the two, or a second writer, does no harm.
func writeAuthority(dir string) (created bool, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return false, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return false, err
	}
	keyPath := filepath.Join(dir, caKeyFile)
	if _, err := writeOnce(keyPath, keyPEM, secretFile); err != nil {
		return false, err
	}
	signer, err := readKey(keyPath)
	if err != nil {
		return false, err
	}
	certPEM, err := selfSign(signer)
	if err != nil {
		return false, err
	}
	return writeOnce(filepath.Join(dir, caFile), certPEM, publicFile)
}

// selfSign makes the authority's own certificate.
func selfSign(key crypto.Signer) ([]byte, error) {
	id := make([]byte, 4)
	rand.Read(id) // never fails: crypto/rand ends the program instead
	tmpl := &x509.Certificate{
		Subject:               pkix.Name{Organization: []string{"pqgw"}, CommonName: "pqgw local CA " + hex.EncodeToString(id)},
		NotBefore:             time.Now().Add(-backdate),
		NotAfter:              time.Now().Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return encodeCert(der), nil
}

// OpenAuthority opens the authority in dir. Errors are *[AuthorityError].
func OpenAuthority(dir string) (*Authority, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, caFile), filepath.Join(dir, caKeyFile))
	if err != nil {
		return nil, &AuthorityError{Dir: dir, Err: err}
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	switch {
	case !ok || !pair.Leaf.IsCA:
		err = errors.New(caFile + " is not the certificate of an authority")
	case time.Now().After(pair.Leaf.NotAfter):
		err = fmt.Errorf("%s expired on %s; remove %s and %s to make a new one", caFile, pair.Leaf.NotAfter.Format(time.DateOnly), caFile, caKeyFile)
	default:
		return &Authority{dir: dir, cert: pair.Leaf, key: key}, nil
	}
	return nil, &AuthorityError{Dir: dir, Err: err}
}

// CertFile is the path of the authority's certificate: what clients must trust.
func (a *Authority) CertFile() string { return filepath.Join(a.dir, caFile) }

// KeyFile is the path of the authority's key.
func (a *Authority) KeyFile() string { return filepath.Join(a.dir, caKeyFile) }

// Certificate is the authority's certificate.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// Pool is a pool with the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	return Pool([]*x509.Certificate{a.cert})
}

// localNames are in every leaf, so that it can be tried on one machine.
var localNames = []string{"localhost", "127.0.0.1"}

// Issue makes a certificate with a new ECDSA P-256 key for the names (DNS
// names, IP addresses or a SPIFFE ID; the first is its common name) and for localhost and
// 127.0.0.1. It serves for servers and for clients.
func (a *Authority) Issue(life time.Duration, names ...string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(names, localNames)
	tmpl := &x509.Certificate{
		Subject:     pkix.Name{CommonName: all[0]},
		NotBefore:   time.Now().Add(-backdate),
		NotAfter:    time.Now().Add(life),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if len(all[0]) > maxCommonName {
		tmpl.Subject = pkix.Name{Organization: []string{"pqgw"}}
	}
	if tmpl.NotAfter.After(a.cert.NotAfter) {
		tmpl.NotAfter = a.cert.NotAfter
	}
	if err := addNames(tmpl, all); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate for %s: %w", all[0], err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("issue certificate for %s: %w", all[0], err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// maxCommonName is the upper bound of a common name (RFC 5280, appendix A.1).
const maxCommonName = 64

// addNames puts each name once into the template, as what it is.
func addNames(tmpl *x509.Certificate, names []string) error {
	for _, n := range names {
		if strings.HasPrefix(n, "spiffe://") {
			id, err := url.Parse(n)
			if err != nil || id.Host == "" || id.RawQuery != "" || id.Fragment != "" {
				return fmt.Errorf("%q is not a SPIFFE ID such as spiffe://mesh.example/front", n)
			}
			tmpl.URIs = append(tmpl.URIs, id)
			continue
		}
		n = NormalName(n)
		if ip := net.ParseIP(n); ip != nil {
			if !slices.ContainsFunc(tmpl.IPAddresses, ip.Equal) {
				tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
			}
			continue
		}
		if err := checkDNSName(n); err != nil {
			return err
		}
		if !slices.Contains(tmpl.DNSNames, n) {
			tmpl.DNSNames = append(tmpl.DNSNames, n)
		}
	}
	return nil
}

// Issued is a certificate in files.
type Issued struct {
	CertFile, KeyFile string
	Names             []string
	NotAfter          time.Time
}

// IssueFiles issues a certificate for the name, and further ones, and writes it to
// NAME.pem and NAME-key.pem (mode 0600) in the authority's folder, in place of what is
// there.
func (a *Authority) IssueFiles(life time.Duration, name string, further ...string) (Issued, error) {
	f := Issued{CertFile: filepath.Join(a.dir, name+".pem"), KeyFile: filepath.Join(a.dir, name+"-key.pem")}
	if f.CertFile == a.CertFile() || f.CertFile == a.KeyFile() {
		return f, fmt.Errorf("the name %q would overwrite the authority's own files", name)
	}
	cert, err := a.Issue(life, append([]string{name}, further...)...)
	if err != nil {
		return f, err
	}
	f.Names, f.NotAfter = namesOf(cert.Leaf), cert.Leaf.NotAfter
	for _, id := range cert.Leaf.URIs {
		f.Names = append(f.Names, id.String())
	}
	keyPEM, err := encodeKey(cert.PrivateKey)
	if err != nil {
		return f, err
	}
	if err := writeOver(f.KeyFile, keyPEM, secretFile); err != nil {
		return f, err
	}
	return f, writeOver(f.CertFile, encodeCert(cert.Certificate[0]), publicFile)
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key any) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// readKey reads a private key of PKCS #8.
func readKey(path string) (crypto.Signer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s: no PEM block", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: a %T cannot sign", path, key)
	}
	return signer, nil
}
