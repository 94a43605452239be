package handshake

import (
	"crypto/tls"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// devLife is how long a leaf of the dev source is good, and devRenew how long
// before its end it is made anew. Leaves live in memory only.
const (
	devLife  = 90 * 24 * time.Hour
	devRenew = 30 * 24 * time.Hour
)

// Dev is a [Source] for development: a local CA, made once in a folder, and a
// certificate for some hosts and the local machine.
type Dev struct {
	authority *Authority
	now       func() time.Time
	mu        sync.Mutex
	hosts     []string
	current   atomic.Pointer[index]
}

// NewDev opens or makes the CA in dir and issues a certificate for the hosts,
// localhost, 127.0.0.1 and ::1. created says that the CA is new, and so not
// trusted by anyone yet.
func NewDev(dir string, hosts ...string) (d *Dev, created bool, err error) {
	a, created, err := MakeAuthority(dir)
	if err != nil {
		return nil, false, err
	}
	d = &Dev{authority: a, now: time.Now, hosts: slices.Clone(hosts)}
	return d, created, d.issue()
}

// Authority is the local CA.
func (d *Dev) Authority() *Authority { return d.authority }

// SetHosts makes a new certificate if the hosts differ from the present ones.
func (d *Dev) SetHosts(hosts ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Equal(hosts, d.hosts) {
		return nil
	}
	before := d.hosts
	d.hosts = slices.Clone(hosts)
	err := d.issue()
	if err != nil {
		d.hosts = before
	}
	return err
}

// issue makes the certificate and puts it in use.
func (d *Dev) issue() error {
	cert, err := d.authority.Issue(devLife, append(slices.Clone(d.hosts), "localhost", "127.0.0.1", "::1")...)
	if err != nil {
		return err
	}
	d.current.Store(newIndex([]*tls.Certificate{cert}))
	return nil
}

// index is the one in use, with a certificate that is not about to expire. A
// handshake that finds it due makes the next one; the others go on with the old.
func (d *Dev) index() (*index, error) {
	ix := d.current.Load()
	if d.now().Before(ix.all[0].Leaf.NotAfter.Add(-devRenew)) || !d.mu.TryLock() {
		return ix, nil
	}
	defer d.mu.Unlock()
	if err := d.issue(); err != nil {
		return nil, err
	}
	return d.current.Load(), nil
}

// Certificate is the certificate if the hello asks for one of its names.
func (d *Dev) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	ix, err := d.index()
	if err != nil {
		return nil, err
	}
	return ix.find(hello), nil
}

// Default is the certificate.
func (d *Dev) Default(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	ix, err := d.index()
	if err != nil {
		return nil, err
	}
	return ix.fallback(hello), nil
}

// Describe lists the one certificate.
func (d *Dev) Describe() []CertInfo {
	return []CertInfo{InfoOf(d.current.Load().all[0].Leaf, "dev", d.authority.CertFile())}
}

// Close does nothing: nothing runs.
func (d *Dev) Close() error { return nil }
