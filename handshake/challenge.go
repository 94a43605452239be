package handshake

import (
	"crypto/tls"
)

// ALPNChallenge is the protocol by which an issuer proves that a host is ours,
// in a handshake after which nothing is said (RFC 8737).
const ALPNChallenge = "acme-tls/1"

// A Challenger is a [Source] that answers an issuer's challenges.
type Challenger interface {
	// Challenge is the certificate that answers for the name in the hello; nil
	// where no challenge is awaited for it.
	Challenge(hello *tls.ClientHelloInfo) *tls.Certificate
}

// challengeConfig is the configuration for a handshake that is a challenge, nil
// for every other. An issuer has no client certificate and may be classical:
// as nothing is said on the connection, neither matters. Over QUIC there are
// no challenges.
func (s *Server) challengeConfig(hello *tls.ClientHelloInfo, a *attempt) *tls.Config {
	if !a.stream || len(hello.SupportedProtos) != 1 || hello.SupportedProtos[0] != ALPNChallenge || hello.ServerName == "" {
		return nil
	}
	for _, src := range s.sources {
		c, ok := src.(Challenger)
		if !ok {
			continue
		}
		if cert := c.Challenge(hello); cert != nil {
			return &tls.Config{
				Time: s.config.Time, Certificates: []tls.Certificate{*cert}, NextProtos: []string{ALPNChallenge},
				MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true,
			}
		}
	}
	return nil
}
