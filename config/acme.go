package config

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// ACME gets certificates from an issuer by itself (RFC 8555), one for each host
// of the routes that listeners with these settings serve.
type ACME struct {
	// Email is where the issuer writes to when something is wrong.
	Email string `yaml:"email"`
	// Directory is the issuer's URL.
	Directory string `yaml:"directory" default:"https://acme-v02.api.letsencrypt.org/directory"`
	// CA is a PEM file of the CAs that the issuer's own TLS certificate must chain to. Empty: the system's.
	CA File `yaml:"ca"`
	// Hosts beside those of the routes.
	Hosts []string `yaml:"hosts" one:"true"`
	// Challenges by which we prove that a host is ours. Empty: tls-alpn-01, http-01 where a TCP listener without tls speaks h1, and dns-01 where dns is given. Wildcards take dns-01.
	Challenges []Challenge `yaml:"challenges" one:"true"`
	// EAB binds the account to one that the issuer knows already (RFC 8555, section 7.3.4).
	EAB *EAB `yaml:"eab"`
	// PreferredChain is the common name of an issuer in the chain to choose where several are offered.
	PreferredChain string `yaml:"preferred_chain"`
	// DNS is how records of dns-01 are written.
	DNS *DNS `yaml:"dns"`
	// OnDemand gets certificates for hosts that no route names when a client asks for them.
	OnDemand *OnDemand `yaml:"on_demand"`
	// CheckEvery is how often certificates are looked at: whether they are due for renewal, and whether another gateway has renewed them.
	CheckEvery time.Duration `yaml:"check_every" default:"10m"`
}

// Challenge is a way to prove that a host is ours.
type Challenge string

// Challenges of RFC 8555 and RFC 8737.
const (
	HTTP01    Challenge = "http-01"
	TLSALPN01 Challenge = "tls-alpn-01"
	DNS01     Challenge = "dns-01"
)

func (Challenge) values() []string { return []string{"http-01", "tls-alpn-01", "dns-01"} }

// EAB is an external account.
type EAB struct {
	// KeyID is the name of the key.
	KeyID string `yaml:"key_id" required:"true"`
	// MACKey is the key in base64url, better as ${kms:…} than in clear.
	MACKey string `yaml:"mac_key" required:"true"`
}

// DNS writes TXT records, by RFC 2136 or by a program.
type DNS struct {
	// RFC2136 sends updates to the zone's primary server.
	RFC2136 *RFC2136 `yaml:"rfc2136"`
	// Exec is a program with its arguments. It is called with three more: `present` or `cleanup`, the record's name, and its value.
	Exec []string `yaml:"exec" one:"true"`
	// Resolvers are asked, as host:port, for the zone and whether the record is there. Empty: the server of rfc2136, else the system's and then those of the zone.
	Resolvers []string `yaml:"resolvers" one:"true"`
	// Timeout is how long a record may take to be seen.
	Timeout time.Duration `yaml:"timeout" default:"2m"`
}

// RFC2136 is a server that takes dynamic updates.
type RFC2136 struct {
	// Server is host:port.
	Server string `yaml:"server" required:"true"`
	// KeyName is the name of the TSIG key (RFC 8945). Empty: updates are not signed, and the server must know us by our address.
	KeyName string `yaml:"key_name"`
	// KeySecret is the key in base64, better as ${kms:…} than in clear.
	KeySecret string `yaml:"key_secret"`
	// KeyAlgorithm of the TSIG key.
	KeyAlgorithm TSIGAlgorithm `yaml:"key_algorithm" default:"hmac-sha256"`
}

// TSIGAlgorithm is how updates are signed.
type TSIGAlgorithm string

func (TSIGAlgorithm) values() []string {
	return []string{"hmac-sha256", "hmac-sha384", "hmac-sha512"}
}

// OnDemand bounds what strangers can make us ask for.
type OnDemand struct {
	// Ask is a URL of ours that decides: it is called with ?domain=NAME, and 200 means yes.
	Ask string `yaml:"ask" required:"true"`
	// Rate is the most certificates an hour.
	Rate int `yaml:"rate" default:"10"`
}

// ACMEHosts are the hosts that need certificates under the settings of that
// name: those of the routes that its listeners serve, and its own.
func (t *Tree) ACMEHosts(name string) []string {
	s := t.TLS[name]
	if s == nil || s.Certificates.ACME == nil {
		return nil
	}
	serves := map[string]bool{}
	for _, l := range t.Listeners {
		serves[l.Name] = l.TLS == name
	}
	var hosts []string
	for _, h := range s.Certificates.ACME.Hosts {
		hosts = append(hosts, normalHost(h))
	}
	for _, r := range t.Routes {
		if len(r.Match.Listener) > 0 && !slices.ContainsFunc(r.Match.Listener, func(l string) bool { return serves[l] }) {
			continue
		}
		for _, h := range r.Match.Host {
			if _, err := netip.ParseAddr(strings.Trim(h, "[]")); err != nil {
				hosts = append(hosts, h)
			}
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// HTTPListener is the first listener that can answer http-01: in the clear, on
// TCP, HTTP/1.1. It is nil where there is none.
func (t *Tree) HTTPListener() *Listener {
	for _, l := range t.Listeners {
		if l.TLS == "" && !l.Address.IsUnix() && l.Speaks(H1) {
			return l
		}
	}
	return nil
}

// Uses reports whether the challenge may be used, by name or by default.
func (a *ACME) Uses(t *Tree, c Challenge) bool {
	if len(a.Challenges) > 0 {
		return slices.Contains(a.Challenges, c)
	}
	switch c {
	case HTTP01:
		return t.HTTPListener() != nil
	case DNS01:
		return a.DNS != nil
	}
	return true
}
