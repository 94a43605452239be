package handshake

// Reason says why a handshake came to nothing. It is a label of metrics and a
// field of the log, so the set is small and closed; [Reasons] lists it.
type Reason string

// The reasons. "Ours" is the side that reports it.
const (
	NoSharedPQGroup     Reason = "no_shared_pq_group"   // pq: require, and the peer has no hybrid group of ours
	NoSharedGroup       Reason = "no_shared_group"      // the peer has no group of ours at all
	NoSharedVersion     Reason = "no_shared_version"    // no TLS version in common
	NoSharedCipher      Reason = "no_shared_cipher"     // no cipher suite in common
	NoSharedALPN        Reason = "no_shared_alpn"       // no protocol in common
	NoSNIMatch          Reason = "no_sni_match"         // no certificate for the name asked for
	NoCertificate       Reason = "no_certificate"       // a certificate could not be had or cannot sign for this peer
	BadHello            Reason = "bad_hello"            // malformed or forbidden messages
	NotTLS              Reason = "not_tls"              // what came first was no TLS record
	Timeout             Reason = "timeout"              // too slow
	Canceled            Reason = "canceled"             // given up by ourselves
	EOF                 Reason = "eof"                  // the peer closed before the end
	Reset               Reason = "reset"                // the peer, or something between, reset the connection
	ClientCertificate   Reason = "client_certificate"   // the client's certificate is missing or does not verify
	ServerCertificate   Reason = "server_certificate"   // the server's certificate does not verify (upstreams)
	CertificateRejected Reason = "certificate_rejected" // the client does not trust our certificate
	PeerAlert           Reason = "peer_alert"           // the peer broke off with another alert
	TooManyHandshakes   Reason = "too_many_handshakes"  // limit on handshakes under way, in all
	TooManyFromAddress  Reason = "too_many_from_address"
	IdentityMissing     Reason = "identity_missing"   // identity: the peer offers no protocol with +id
	IdentityMalformed   Reason = "identity_malformed" // identity: the proof is no valid message
	IdentityRole        Reason = "identity_role"      // identity: the proof is one of our own side, sent back
	IdentitySignature   Reason = "identity_signature" // identity: the proof is not for this connection
	IdentityExpired     Reason = "identity_expired"   // identity: a certificate of the chain is not valid now
	IdentityUnknown     Reason = "identity_unknown"   // identity: the chain leads to no authority that we trust
	IdentityUsage       Reason = "identity_usage"     // identity: the certificate may not be used for this
	IdentityName        Reason = "identity_name"      // identity: the server's is not for the name we called
	IdentityRejected    Reason = "identity_rejected"  // identity: the peer did not take ours
	Connect             Reason = "connect"            // no connection to begin with (upstreams)
	Internal            Reason = "internal"           // a fault of our own
)

// Reasons are all there are.
func Reasons() []Reason {
	return []Reason{
		NoSharedPQGroup, NoSharedGroup, NoSharedVersion, NoSharedCipher, NoSharedALPN, NoSNIMatch, NoCertificate,
		BadHello, NotTLS, Timeout, Canceled, EOF, Reset, ClientCertificate, ServerCertificate, CertificateRejected,
		PeerAlert, TooManyHandshakes, TooManyFromAddress, Connect, Internal,
		IdentityMissing, IdentityMalformed, IdentityRole, IdentitySignature, IdentityExpired, IdentityUnknown, IdentityUsage,
		IdentityName, IdentityRejected,
	}
}

// hints tell an operator of a listener what to check.
var hints = map[Reason]string{
	NoSharedPQGroup:     "the client has no post-quantum key exchange; pq: prefer on this listener would let it in",
	NoSharedGroup:       "the client's key exchange groups and ours have none in common; see groups",
	NoSharedVersion:     "the client is too old for min_version",
	NoSharedALPN:        "the client speaks none of this listener's protocols",
	NoSNIMatch:          "no certificate is for the name the client asked for",
	NoCertificate:       "check the certificate sources of this listener and its log",
	NotTLS:              "a client spoke something else than TLS to a TLS port",
	Timeout:             "a slow client, or a middlebox that loses long ClientHellos",
	ClientCertificate:   "the client sent no certificate, or one that client_ca does not vouch for",
	CertificateRejected: "the client does not trust our certificate; is its CA known to the client?",
	TooManyHandshakes:   "see limits.handshakes",
	TooManyFromAddress:  "see limits.handshakes_per_address",
	IdentityMissing:     "the client has no identity: set, and this listener demands one",
	IdentitySignature:   "the proof was made for another connection; is something between the hops that ends TLS?",
	IdentityExpired:     "renew the client's identity: pqgw cert issue; and compare the clocks",
	IdentityUnknown:     "the client's identity is of an authority that identity.ca does not have",
}

// upstreamHints tell what to check at an upstream.
var upstreamHints = map[Reason]string{
	NoSharedPQGroup:   "the upstream has no post-quantum key exchange; pq: prefer would go on without",
	NoSharedGroup:     "the upstream takes none of the groups offered; see pq and groups of this upstream",
	NoSharedVersion:   "the upstream is older than TLS 1.3; min_version: \"1.2\" would allow it",
	NoSharedALPN:      "the upstream speaks none of the protocols offered",
	NoSNIMatch:        "the upstream does not know the server name; see server_name",
	NotTLS:            "the upstream does not speak TLS on this port",
	ClientCertificate: "the upstream wants a client certificate, or does not trust ours",
	ServerCertificate: "the upstream's certificate does not verify; see ca and server_name",
	Connect:           "is the upstream up, and the address right?",
	Canceled:          "the caller gave up first",
	IdentityMissing:   "the upstream has no identity: set, and ours demands one",
	IdentitySignature: "the proof was made for another connection; is something between the hops that ends TLS?",
	IdentityExpired:   "renew the upstream's identity: pqgw cert issue; and compare the clocks",
	IdentityUnknown:   "the upstream's identity is of an authority that identity.ca does not have",
	IdentityName:      "the upstream's identity is for another name; see server_name",
	IdentityRejected:  "the upstream did not take our identity; its log says more",
}

// middlebox is the hint for upstreams that fall silent at a long ClientHello.
const middlebox = "a firewall on the way may kill long ClientHellos: compare with pq: off for this upstream"
