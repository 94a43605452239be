package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

// KMS is the store of keys and secrets, which `pqgw kms init` makes. From it
// come ${kms:name}, session-ticket roots, ECH keys and certificates, and in it
// ACME keeps accounts and keys.
type KMS struct {
	// Dir is the folder of the store.
	Dir File `yaml:"dir" required:"true"`
	// Master is where the key that opens the store comes from; exactly one.
	Master Master `yaml:"master"`
	// Tickets is the entry of session-ticket roots, made when there is none. All gateways that read it resume each other's sessions.
	Tickets string `yaml:"tickets" default:"tickets"`
	// TicketRotation is the age at which the newest ticket root gets a successor, which is accepted an hour before it is used. 0s: only by `pqgw kms rotate`.
	TicketRotation time.Duration `yaml:"ticket_rotation" default:"24h"`
	// ECH is the entry of the keys for listeners with `ech: true`. The newest gets a successor after 30 days and is accepted for 90.
	ECH string `yaml:"ech" default:"ech"`
	// ECHPublicName is the name that encrypted hellos show outside; a certificate must bear it. It is needed to make the entry, not to read it.
	ECHPublicName string `yaml:"ech_public_name"`
}

// Master is where a store's master key comes from.
type Master struct {
	// File of mode 0600 with the key.
	File File `yaml:"file"`
	// Credential is the name of a systemd credential with the key.
	Credential string `yaml:"credential"`
	// Env is the name of an environment variable with the key.
	Env string `yaml:"env"`
	// PassphraseFile of mode 0600 has a passphrase that the key is derived from.
	PassphraseFile File `yaml:"passphrase_file"`
}

// StoreFor is the store that TLS settings draw on, nil where they need none.
func (t *Tree) StoreFor(s *TLS) *KMS {
	c := s.Certificates
	if c.KMS != nil && len(c.KMS.Store) > 0 || c.ACME != nil || s.Identity != nil && s.Identity.Store != "" {
		return t.KMS
	}
	return nil
}

// given counts the sources that are named.
func (m Master) given() int {
	n := 0
	for _, s := range []string{string(m.File), m.Credential, m.Env, string(m.PassphraseFile)} {
		if s != "" {
			n++
		}
	}
	return n
}

// StoreCertificates are certificates whose keys never leave a store: ours, that of
// signing servers, which `pqgw kms serve` runs, or a token.
type StoreCertificates struct {
	// Store names entries of kind certificate: the key, with the chain as its public part.
	Store []string `yaml:"store" one:"true"`
	// Server are signing servers, each zap-rpc+tls://host:port, which sign by Key; one that answers is enough.
	Server []Endpoint `yaml:"server" one:"true"`
	// Vault is the URL of a HashiCorp Vault, or what speaks its API, whose Transit engine signs by Key.
	Vault string `yaml:"vault"`
	// Mount is the path of the Transit engine.
	Mount string `yaml:"mount" default:"transit"`
	// Token is the file of the token for it, read for each signature.
	Token File `yaml:"token"`
	// PKCS11 is a token, such as an HSM, that signs by Key. It needs a build with -tags pkcs11.
	PKCS11 *PKCS11 `yaml:"pkcs11"`
	// Key is the name of the key at the signing servers, or in the engine; its label in a token.
	Key string `yaml:"key"`
	// Cert is the PEM file of the certificate for that key: the leaf first, then intermediates. It is read again when it changes. With pkcs11 it may be left out where the token has the certificate.
	Cert File `yaml:"cert"`
	// TLS names the settings under `tls` to ask by. For signing servers: pq require, and the certificate that their list knows us by. For Vault it may be left out where the system knows its CA.
	TLS string `yaml:"tls"`
}

// PKCS11 is a token of a PKCS#11 module.
type PKCS11 struct {
	// Module is the path of the library, such as /usr/lib/softhsm/libsofthsm2.so.
	Module File `yaml:"module" required:"true"`
	// Token is the label of the token.
	Token string `yaml:"token"`
	// Slot is the number of the slot that the token is in, instead of its label.
	Slot string `yaml:"slot"`
	// PIN opens the token; better as ${kms:…} or ${file:…} than in clear. One that the token refuses is not tried again, so that the token does not lock itself.
	PIN string `yaml:"pin"`
	// ID is the key's CKA_ID in hexadecimal, where its label does not tell.
	ID string `yaml:"id"`
}

// SlotNumber is Slot as a number, 0 where it is left out.
func (p *PKCS11) SlotNumber() (uint, error) {
	if p.Slot == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(p.Slot, 10, 32)
	return uint(n), err
}

// Remote tells whether the key is at somebody else than our own store.
func (k *StoreCertificates) Remote() bool {
	return k != nil && (len(k.Server) > 0 || k.Vault != "" || k.PKCS11 != nil)
}

// errNoKMS is what ${kms:name} says in a tree without a store.
var errNoKMS = errors.New("there is no store: the file has no kms: {dir, master}")

// secrets resolves ${kms:name} by the store that the tree itself names, which
// is decoded before all else. The store is opened at the first use.
func (o Options) secrets(t *Tree) Resolver {
	var resolve Resolver
	return func(name string) (string, error) {
		if t.KMS == nil || t.KMS.Dir == "" {
			return "", errNoKMS
		}
		if resolve == nil {
			var err error
			if resolve, err = o.KMS(t.KMS); err != nil {
				return "", err
			}
		}
		return resolve(name)
	}
}

func (c *checker) kms() {
	k := c.tree.KMS
	if k == nil {
		for i, l := range c.tree.Listeners {
			if l.ECH && l.TLS != "" {
				c.fail(join(index("listeners", i), "ech"), "its keys come from a store, and there is no kms", "add kms: {dir, master}")
			}
		}
		return
	}
	if n := k.Master.given(); n != 1 && !c.failedBelow("kms.master") {
		c.fail("kms.master", "needs exactly one of file, credential, env and passphrase_file", "")
	}
	for _, f := range []struct{ key, name string }{{"tickets", k.Tickets}, {"ech", k.ECH}} {
		if f.name == "" {
			c.fail(join("kms", f.key), "must name an entry", "leave it out for the default")
		}
	}
}

// storeCertificates checks that exactly one kind of store is named, and wholly.
func (c *checker) storeCertificates(k *StoreCertificates, name, at string) {
	if k == nil || c.failedBelow(at) {
		return
	}
	kinds := 0
	for _, given := range []bool{len(k.Store) > 0, len(k.Server) > 0, k.Vault != "", k.PKCS11 != nil} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		c.fail(at, "needs one of store, entries of our own, server, those who sign for us, vault, and pkcs11", "")
	case len(k.Server) > 0:
		c.signingServers(k, name, at)
	case k.Vault != "":
		c.vault(k, name, at)
	case k.PKCS11 != nil:
		c.pkcs11(k, at)
	case k.Key != "" || k.Cert != "" || k.TLS != "" || k.Token != "":
		c.fail(at, "key, cert, tls and token go with server, vault or pkcs11", "")
	case c.tree.KMS == nil:
		c.fail(at, "there is no store", "add kms: {dir, master} at the top")
	}
}

// pkcs11 checks what using a token needs.
func (c *checker) pkcs11(k *StoreCertificates, at string) {
	p, in := k.PKCS11, join(at, "pkcs11")
	if !builtPKCS11 {
		c.fail(in, "this build has no PKCS#11", "build with -tags pkcs11, which needs cgo")
	}
	if (p.Token == "") == (p.Slot == "") {
		c.fail(in, "needs exactly one of token, its label, and slot", "")
	}
	if _, err := p.SlotNumber(); err != nil {
		c.fail(join(in, "slot"), fmt.Sprintf("%q is not a whole number", p.Slot), "")
	}
	if k.Key == "" && p.ID == "" {
		c.fail(join(at, "key"), "is missing", "pkcs11 needs key, the label, or pkcs11.id")
	}
	if _, err := hex.DecodeString(p.ID); err != nil {
		c.fail(join(in, "id"), "is not hexadecimal, two digits a byte", "")
	}
	if k.TLS != "" || k.Token != "" {
		c.fail(at, "tls and token go with server or vault", "the token's label is pkcs11.token")
	}
}

// vault checks what asking a Transit engine needs.
func (c *checker) vault(k *StoreCertificates, name, at string) {
	u, err := url.Parse(k.Vault)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" {
		c.fail(join(at, "vault"), fmt.Sprintf("%q is not a URL as https://vault:8200 is", k.Vault), "")
	} else if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		c.warn(join(at, "vault"), "the token and all signatures go in the clear to another machine", "write https://")
	}
	for _, f := range []struct{ key, value string }{{"key", k.Key}, {"cert", string(k.Cert)}, {"token", string(k.Token)}} {
		if f.value == "" {
			c.fail(join(at, f.key), "is missing", "vault needs key, cert and token")
		}
	}
	if k.TLS != "" {
		c.askingTLS(k, name, join(at, "tls"))
	}
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (c *checker) signingServers(k *StoreCertificates, name, at string) {
	for i, e := range k.Server {
		if e.Scheme != "" && e.Scheme != SchemeZAPRPCTLS {
			c.fail(itemPath(c, join(at, "server"), i), "a signing server is zap-rpc+tls://host:port", "")
		}
	}
	for _, f := range []struct{ key, value string }{{"key", k.Key}, {"cert", string(k.Cert)}, {"tls", k.TLS}} {
		if f.value == "" {
			c.fail(join(at, f.key), "is missing", "server needs key, cert and tls")
		}
	}
	if k.TLS == "" {
		return
	}
	s := c.askingTLS(k, name, join(at, "tls"))
	if s != nil && !s.PQ.Required() && !c.failed(join("tls", k.TLS)) {
		c.fail(join(at, "tls"), fmt.Sprintf("the settings %q do not have pq: require", k.TLS), "signing servers take nothing else")
	}
}

// askingTLS are the settings that a remote key is asked for by; they cannot have
// one themselves.
func (c *checker) askingTLS(k *StoreCertificates, name, at string) *TLS {
	s := c.tlsNamed(k.TLS, at)
	if s == nil {
		return nil
	}
	if k.TLS == name || s.Certificates.KMS.Remote() {
		c.fail(at, fmt.Sprintf("the settings %q have a remote key themselves", k.TLS), "their key must be here: files, or a store of our own")
	}
	return s
}
