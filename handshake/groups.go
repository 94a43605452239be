package handshake

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// mlkem1024 is the pure ML-KEM group of draft-ietf-tls-mlkem, which newer
// toolchains can be asked for; here it only has a name.
const mlkem1024 tls.CurveID = 0x0202

var (
	hybrids    = []tls.CurveID{tls.X25519MLKEM768, tls.SecP256r1MLKEM768, tls.SecP384r1MLKEM1024}
	classicals = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384}
	// known are the groups that a configuration may name.
	known = append(append(slices.Clone(hybrids), classicals...), tls.CurveP521)
)

// GroupName is the name of a key exchange group as configuration, logs and
// metrics have it: "X25519MLKEM768", "P-256", … It is "none" for zero (an
// RSA key exchange, or no TLS) and "other" for a group we have no name for.
func GroupName(g tls.CurveID) string {
	switch g {
	case tls.X25519MLKEM768:
		return "X25519MLKEM768"
	case tls.SecP256r1MLKEM768:
		return "SecP256r1MLKEM768"
	case tls.SecP384r1MLKEM1024:
		return "SecP384r1MLKEM1024"
	case mlkem1024:
		return "MLKEM1024"
	case tls.X25519:
		return "X25519"
	case tls.CurveP256:
		return "P-256"
	case tls.CurveP384:
		return "P-384"
	case tls.CurveP521:
		return "P-521"
	case 0:
		return "none"
	}
	return "other"
}

// GroupNames are the names of several groups, in the same order.
func GroupNames(groups []tls.CurveID) []string {
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = GroupName(g)
	}
	return names
}

// PQGroup reports whether a key exchange over g withstands a quantum computer.
func PQGroup(g tls.CurveID) bool {
	switch g {
	case tls.X25519MLKEM768, tls.SecP256r1MLKEM768, tls.SecP384r1MLKEM1024, mlkem1024:
		return true
	}
	return false
}

// ParseGroup reads the name of a group, in any case. It fails for a group that
// crypto/tls does not have.
func ParseGroup(name string) (tls.CurveID, error) {
	for _, g := range known {
		if strings.EqualFold(name, GroupName(g)) {
			return g, nil
		}
	}
	return 0, fmt.Errorf("no key exchange group %q; there are %s", name, strings.Join(GroupNames(known), ", "))
}

// ParseGroups reads a list of group names and refuses one that appears twice.
func ParseGroups(names []string) ([]tls.CurveID, error) {
	var groups []tls.CurveID
	for _, n := range names {
		g, err := ParseGroup(n)
		if err != nil {
			return nil, err
		}
		if slices.Contains(groups, g) {
			return nil, fmt.Errorf("key exchange group %q appears twice", n)
		}
		groups = append(groups, g)
	}
	return groups, nil
}
