package config

// TLS is a set of TLS settings. A listener serves by it; an upstream that
// refers to it presents its certificates and verifies by CA and ServerName.
type TLS struct {
	// Certificates to serve with; towards an upstream, the client certificate.
	Certificates Certificates `yaml:"certificates"`
	// PQ says what becomes of a peer without post-quantum key exchange: `require` refuses it, `prefer` serves it. `off` (upstreams only) offers no hybrid group, for peers behind middleboxes that drop long hellos. `cnsa2` (builds with Go 1.27 or later) is `require` with MLKEM1024 or SecP384r1MLKEM1024 and certificates of ML-DSA-87 on both sides.
	PQ PQ `yaml:"pq" default:"prefer"`
	// MinVersion is the oldest TLS version that is spoken. TLS 1.2 is never post-quantum.
	MinVersion TLSVersion `yaml:"min_version" default:"1.3"`
	// Groups narrows the key-exchange groups. Empty: the hybrids, and under `prefer` the classical ones too; their order has no meaning.
	Groups []Group `yaml:"groups"`
	// ClientCA is a PEM file of the CAs that a client's certificate must chain to. Empty: clients are not asked for one.
	ClientCA File `yaml:"client_ca"`
	// ClientAuth says whether a client must have a certificate. Default where client_ca is set: require.
	ClientAuth ClientAuth `yaml:"client_auth"`
	// SessionTickets lets clients resume, which saves both sides most of a handshake.
	SessionTickets bool `yaml:"session_tickets" default:"true"`
	// CA is a PEM file of the CAs that an upstream's certificate must chain to. Empty: client_ca where that is set, else the system's.
	CA File `yaml:"ca"`
	// ServerName is the name that is sent to an upstream and that its certificate must bear. Empty: the endpoint's host.
	ServerName string `yaml:"server_name"`
	// Identity is the post-quantum identity of a hop, which is proven to each peer and demanded of it. Left out: peers are known by their TLS certificates alone.
	Identity *Identity `yaml:"identity"`
}

// Identity is an ML-DSA certificate, as `pqgw cert issue --alg ml-dsa-65` makes
// one. Both sides of a hop prove theirs right after the TLS handshake.
type Identity struct {
	// Cert is a PEM file: the leaf first, then intermediates.
	Cert File `yaml:"cert"`
	// Key is the PEM file of the leaf's private key.
	Key File `yaml:"key"`
	// Store names an entry of kind ml-dsa of the key store instead of Cert and Key: the key, with the chain as its public part. Each proof is a line in its audit.
	Store string `yaml:"store"`
	// CA is a PEM file of the authorities that vouch for peers.
	CA File `yaml:"ca" required:"true"`
}

// UpstreamCA is the file of the CAs that an upstream's certificate must chain
// to; empty means the system's.
func (t *TLS) UpstreamCA() File {
	if t.CA != "" {
		return t.CA
	}
	return t.ClientCA
}

// Certificates says where certificates come from; sources may stand side by side.
type Certificates struct {
	// Files are certificates in PEM files, chosen by SNI and read again when they change.
	Files []CertFiles `yaml:"files" one:"true"`
	// Dev makes a leaf certificate from a local CA that is made once; for trying things out.
	Dev *DevCertificates `yaml:"dev"`
	// ACME gets certificates from an issuer and renews them.
	ACME *ACME `yaml:"acme"`
	// KMS are certificates of the key store.
	KMS *StoreCertificates `yaml:"kms"`
}

// None reports whether no source of certificates is given.
func (c Certificates) None() bool {
	return len(c.Files) == 0 && c.Dev == nil && c.ACME == nil && c.KMS == nil
}

// CertFiles is one certificate chain and its key.
type CertFiles struct {
	// Cert is a PEM file: the leaf first, then intermediates.
	Cert File `yaml:"cert" required:"true"`
	// Key is the PEM file of the leaf's private key.
	Key File `yaml:"key" required:"true"`
}

// DevCertificates asks for a leaf of the local CA.
type DevCertificates struct {
	// Hosts are DNS names and IP addresses beside localhost and 127.0.0.1, which are always in.
	Hosts []string `yaml:"hosts" one:"true"`
}

// PQ is a policy on post-quantum key exchange.
type PQ string

// Policies on post-quantum key exchange.
const (
	PQRequire PQ = "require"
	PQPrefer  PQ = "prefer"
	PQOff     PQ = "off"
	PQCNSA2   PQ = "cnsa2" // with Go 1.27 or later
)

// Required tells whether a peer without post-quantum key exchange is refused.
func (p PQ) Required() bool { return p == PQRequire || p == PQCNSA2 }

// TLSVersion is a version of TLS.
type TLSVersion string

// Versions of TLS.
const (
	TLS12 TLSVersion = "1.2"
	TLS13 TLSVersion = "1.3"
)

// ClientAuth says whether a client must have a certificate.
type ClientAuth string

// What a client's certificate may be. A certificate that is given is always verified.
const (
	ClientAuthNone     ClientAuth = ""
	ClientAuthRequire  ClientAuth = "require"
	ClientAuthOptional ClientAuth = "optional"
)

// Group is a key-exchange group by its name in the IANA registry.
type Group string

// The groups of this build; ML-KEM-1024 alone (MLKEM1024) comes with Go 1.27.
const (
	X25519MLKEM768     Group = "X25519MLKEM768"
	SecP256r1MLKEM768  Group = "SecP256r1MLKEM768"
	SecP384r1MLKEM1024 Group = "SecP384r1MLKEM1024"
	MLKEM1024          Group = "MLKEM1024"
	X25519             Group = "X25519"
	P256               Group = "P-256"
	P384               Group = "P-384"
)

// PostQuantum reports whether what the group agrees on stays secret from a quantum computer.
func (g Group) PostQuantum() bool {
	switch g {
	case X25519MLKEM768, SecP256r1MLKEM768, SecP384r1MLKEM1024, MLKEM1024:
		return true
	}
	return false
}

// EffectiveGroups are the groups that the settings amount to: Groups where
// given, else those that PQ implies.
func (t *TLS) EffectiveGroups() []Group {
	if len(t.Groups) > 0 {
		return t.Groups
	}
	hybrids := []Group{X25519MLKEM768, SecP256r1MLKEM768, SecP384r1MLKEM1024}
	classical := []Group{X25519, P256, P384}
	switch t.PQ {
	case PQRequire:
		return hybrids
	case PQCNSA2:
		return []Group{SecP384r1MLKEM1024, MLKEM1024}
	case PQOff:
		return classical
	}
	return append(hybrids, classical...)
}
