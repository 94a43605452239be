package handshake

import (
	"crypto/tls"
	"crypto/x509"
)

// Facts are what is known of a connection's handshake. The zero value stands
// for a connection without TLS. Facts are comparable and hold on to nothing.
type Facts struct {
	Version     uint16      // tls.VersionTLS13, …; 0 without TLS
	CipherSuite uint16      // tls.TLS_AES_128_GCM_SHA256, …
	Group       tls.CurveID // key exchange group; 0 for an RSA key exchange
	HRR         bool        // a HelloRetryRequest was needed
	Resumed     bool        // the session was resumed from a ticket
	ClientAuth  bool        // the peer's certificate was verified: on a listener, that of the client
	ECH         bool        // the client's hello was encrypted, and the SNI with it
	EarlyData   bool        // what follows came as 0-RTT (QUIC only; its transport sets it)
	ALPN        string      // protocol agreed on, without "+id"; "" for none
	SNI         string      // server name that the client sent, "" for none
	JA4         string      // kind of client (see [JA4]) where a listener met one without a hybrid group, else ""
	PeerName    string      // verified name of the peer: SPIFFE URI, else DNS name, else common name
	PQIdentity  bool        // a post-quantum signature proved PeerName, see [Identity]
}

// FactsOf reads the facts from the state of a connection whose handshake is
// complete.
func FactsOf(cs *tls.ConnectionState) Facts {
	f := Facts{
		Version:     cs.Version,
		CipherSuite: cs.CipherSuite,
		Group:       cs.CurveID,
		HRR:         cs.HelloRetryRequest,
		Resumed:     cs.DidResume,
		ALPN:        BaseProtocol(cs.NegotiatedProtocol),
		SNI:         cs.ServerName,
		ECH:         cs.ECHAccepted,
	}
	if len(cs.VerifiedChains) > 0 && len(cs.PeerCertificates) > 0 {
		f.ClientAuth = true
		f.PeerName = PeerName(cs.PeerCertificates[0])
	}
	return f
}

// TLS reports whether the connection has TLS at all.
func (f *Facts) TLS() bool { return f.Version != 0 }

// PQ reports whether what is said on the connection stays secret from one who
// records it today and has a quantum computer later.
func (f *Facts) PQ() bool { return f.Version >= tls.VersionTLS13 && PQGroup(f.Group) }

// GroupName is the name of the key exchange group, as [GroupName] has it.
func (f *Facts) GroupName() string { return GroupName(f.Group) }

// VersionName is the TLS version as configuration names it: "1.3", "1.2"; "" without TLS.
func (f *Facts) VersionName() string { return VersionName(f.Version) }

// CipherName is the IANA name of the cipher suite; "" without TLS.
func (f *Facts) CipherName() string { return cipherNames[f.CipherSuite] }

// VersionName is the name of a TLS version: "1.3", "1.2", "1.1", "1.0"; "" for zero.
func VersionName(v uint16) string {
	switch v {
	case tls.VersionTLS13:
		return "1.3"
	case tls.VersionTLS12:
		return "1.2"
	case tls.VersionTLS11:
		return "1.1"
	case tls.VersionTLS10:
		return "1.0"
	case 0:
		return ""
	}
	return "other"
}

// cipherNames is filled once: tls.CipherSuiteName builds its lists anew at each call.
var cipherNames = func() map[uint16]string {
	m := make(map[uint16]string)
	for _, s := range tls.CipherSuites() {
		m[s.ID] = s.Name
	}
	for _, s := range tls.InsecureCipherSuites() {
		m[s.ID] = s.Name
	}
	return m
}()

// PeerName is the name that a certificate gives its holder: its SPIFFE ID
// where it has exactly one URI (SPIFFE X509-SVID, section 2), else its first
// DNS name, else the common name of its subject. It says nothing about trust.
func PeerName(c *x509.Certificate) string {
	if len(c.URIs) == 1 && c.URIs[0].Scheme == "spiffe" {
		return c.URIs[0].String()
	}
	if len(c.DNSNames) > 0 {
		return c.DNSNames[0]
	}
	return c.Subject.CommonName
}
