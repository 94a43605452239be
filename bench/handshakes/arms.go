package handshakes

import (
	"crypto/tls"
	"fmt"

	"github.com/hanzoai/pqgw/handshake"
)

// What the matrix is made of.
const (
	overTCP  = "tls"  // TLS over TCP
	overQUIC = "quic" // QUIC

	full    = "full"    // certificate and key exchange
	resumed = "resumed" // from a ticket, with a key exchange
	retried = "hrr"     // full, after a HelloRetryRequest
	early   = "0-rtt"   // resumed, the request among the first packets

	// authMLDSA: the server's certificate is ECDSA P-256, and after TLS's own
	// handshake both sides prove an ML-DSA-65 identity, as on a hop.
	authMLDSA = "ML-DSA-65 identity"
	authECDSA = "ECDSA P-256"
)

var (
	groups     = []tls.CurveID{tls.X25519, tls.CurveP256, tls.X25519MLKEM768, tls.SecP256r1MLKEM768, tls.SecP384r1MLKEM1024}
	auths      = []string{authECDSA, "RSA 2048", "Ed25519", authMLDSA}
	transports = []string{overTCP, overQUIC}
	kinds      = []string{full, resumed, retried, early}
)

// task is one arm of the matrix.
type task struct {
	Transport string      `json:"transport"`
	Group     tls.CurveID `json:"group"`
	Auth      string      `json:"auth"`
	Kind      string      `json:"kind"`
}

func (t task) name() string {
	return fmt.Sprintf("%s %s %s %s", t.Transport, handshake.GroupName(t.Group), t.Auth, t.Kind)
}

func (t task) labels() map[string]string {
	return map[string]string{"transport": t.Transport, "group": handshake.GroupName(t.Group), "auth": t.Auth, "kind": t.Kind}
}

// missing is why an arm cannot be measured with this toolchain, "" where it can.
func (t task) missing() string {
	switch {
	case t.Auth == authMLDSA && t.Kind == early:
		return "an identity is proven over a finished handshake, so no request goes out as 0-RTT before it"
	case t.neverAsked() && t.Transport == overQUIC:
		return "needs a client that offers X25519MLKEM768 and sends no share of it; over TCP it is made by hand, but quic-go takes its handshake from crypto/tls, which always sends one"
	case t.neverAsked() && t.Auth == authMLDSA:
		return "needs a client that offers X25519MLKEM768 and sends no share of it; the one made by hand gives no exported keys, which an identity is proven with"
	}
	return ""
}

// neverAsked is the retry that no client of crypto/tls needs: it always sends a
// share of X25519MLKEM768 where it offers it.
func (t task) neverAsked() bool { return t.Kind == retried && t.Group == tls.X25519MLKEM768 }

// byHand reports whether the client is package byhand's, not crypto/tls's.
func (t task) byHand() bool { return t.neverAsked() && t.Transport == overTCP }

// certificate is the kind of key in the server's TLS certificate.
func (t task) certificate() string {
	if t.Auth == authMLDSA {
		return authECDSA
	}
	return t.Auth
}

// protocol is what is agreed on by ALPN.
func (t task) protocol() string {
	if t.Auth == authMLDSA {
		return handshake.WithIdentity([]string{alpn})[0]
	}
	return alpn
}

// wrongShare is the group that a client also offers and sends its share of,
// so that a server that takes only the task's group must ask again: the
// dearest mistake that crypto/tls's fixed order allows.
func (t task) wrongShare() tls.CurveID {
	if t.Group == tls.SecP256r1MLKEM768 || t.Group == tls.SecP384r1MLKEM1024 {
		return tls.X25519MLKEM768
	}
	if t.Group == tls.CurveP256 {
		return tls.X25519
	}
	return tls.SecP256r1MLKEM768
}

// matrix is every arm, those of one authentication together.
func matrix() []task {
	var out []task
	for _, auth := range auths {
		for _, transport := range transports {
			for _, kind := range kinds {
				for _, group := range groups {
					if kind == early && transport != overQUIC {
						continue
					}
					out = append(out, task{Transport: transport, Group: group, Auth: auth, Kind: kind})
				}
			}
		}
	}
	return out
}
