package handshake

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// PQ is a post-quantum policy.
type PQ int

const (
	// Prefer takes a hybrid group wherever the peer has one and a classical
	// group otherwise. It is the default.
	Prefer PQ = iota
	// Require refuses peers that have no hybrid group.
	Require
	// Off offers classical groups only; for upstreams behind middleboxes that
	// cannot stand a long ClientHello.
	Off
	// CNSA2 is Require with what the suite of that name has for TLS: MLKEM1024 or
	// SecP384r1MLKEM1024, and certificates of ML-DSA-87 on both sides. It needs a build with
	// Go 1.27 or later. The cipher suite stays crypto/tls's to choose.
	CNSA2
)

// String is the policy's name in the configuration.
func (p PQ) String() string {
	switch p {
	case Prefer:
		return "prefer"
	case Require:
		return "require"
	case Off:
		return "off"
	case CNSA2:
		return "cnsa2"
	}
	return fmt.Sprintf("PQ(%d)", int(p))
}

// ParsePQ reads a policy's name; "" is [Prefer].
func ParsePQ(s string) (PQ, error) {
	switch s {
	case "", "prefer":
		return Prefer, nil
	case "require":
		return Require, nil
	case "off":
		return Off, nil
	case "cnsa2":
		if !cnsa2Built {
			return 0, errNoCNSA2()
		}
		return CNSA2, nil
	}
	return 0, fmt.Errorf("no post-quantum policy %q; there are prefer, require, cnsa2 and off", s)
}

// ParseVersion reads a minimum TLS version, "1.2" or "1.3"; "" is 1.3.
func ParseVersion(s string) (uint16, error) {
	switch s {
	case "", "1.3":
		return tls.VersionTLS13, nil
	case "1.2":
		return tls.VersionTLS12, nil
	}
	return 0, fmt.Errorf("no TLS version %q to begin with; there are 1.2 and 1.3", s)
}

// SettingsError says which of some TLS settings contradicts another.
type SettingsError struct {
	Field string // as the configuration names it: "pq", "groups", "min_version", …
	Err   error
}

// Error names the field and what is wrong with it.
func (e *SettingsError) Error() string { return "tls settings: " + e.Field + ": " + e.Err.Error() }

// Unwrap is the reason without the field.
func (e *SettingsError) Unwrap() error { return e.Err }

func settingsError(field, format string, args ...any) error {
	return &SettingsError{Field: field, Err: fmt.Errorf(format, args...)}
}

// Groups are the key exchange groups that crypto/tls can be told to use with
// this policy: all that we know of under prefer, the hybrids under require,
// the classical ones under off.
func (p PQ) Groups() []tls.CurveID {
	switch p {
	case Require:
		return slices.Clone(hybrids)
	case Off:
		return slices.Clone(classicals)
	case CNSA2:
		return slices.Clone(cnsa2Groups)
	}
	return append(slices.Clone(hybrids), classicals...)
}

// rules are what a policy, a list of groups and a minimum version amount to.
type rules struct {
	pq       PQ
	groups   []tls.CurveID // in force, as crypto/tls offers them
	min      uint16
	warnings []string
}

// resolve checks the three against each other and asks crypto/tls what it
// makes of them.
func resolve(pq PQ, groups []tls.CurveID, minVersion uint16) (rules, error) {
	if minVersion == 0 {
		minVersion = tls.VersionTLS13
	}
	r := rules{pq: pq, min: minVersion}
	if pq == CNSA2 && !cnsa2Built {
		return r, &SettingsError{Field: "pq", Err: errNoCNSA2()}
	}
	if minVersion != tls.VersionTLS13 && minVersion != tls.VersionTLS12 {
		return r, settingsError("min_version", "TLS version %#x is none of 1.2 and 1.3", minVersion)
	}
	if minVersion == tls.VersionTLS12 && pq.Required() {
		return r, settingsError("min_version", "1.2 is never post-quantum and contradicts pq: %v", pq)
	}
	asked, err := pq.narrow(groups)
	if err != nil {
		return r, err
	}
	r.groups = inForce(asked)
	return r, r.judge(asked)
}

// narrow is the policy's set of groups, or the narrower list where that agrees with it.
func (p PQ) narrow(list []tls.CurveID) ([]tls.CurveID, error) {
	if len(list) == 0 {
		return p.Groups(), nil
	}
	for _, g := range list {
		switch {
		case !slices.Contains(known, g):
			return nil, settingsError("groups", "%s (%#x) is not a group that crypto/tls has", GroupName(g), uint16(g))
		case p == Require && !PQGroup(g):
			return nil, settingsError("groups", "%s is classical and contradicts pq: require", GroupName(g))
		case p == CNSA2 && !slices.Contains(cnsa2Groups, g):
			return nil, settingsError("groups", "%s is none of %s, which pq: cnsa2 has", GroupName(g), strings.Join(GroupNames(cnsa2Groups), " and "))
		case p == Off && PQGroup(g):
			return nil, settingsError("groups", "%s is post-quantum and contradicts pq: off", GroupName(g))
		}
	}
	return slices.Clone(list), nil
}

// judge refuses a set that the toolchain has emptied and warns about one that
// is weaker than it looks.
func (r *rules) judge(asked []tls.CurveID) error {
	const cause = "the toolchain took them away: look for tlsmlkem, tlssecpmlkem or fips140 in GODEBUG"
	if len(r.groups) == 0 {
		return settingsError("groups", "none of %s can be used; %s", strings.Join(GroupNames(asked), ", "), cause)
	}
	anyPQ := slices.ContainsFunc(r.groups, PQGroup)
	switch {
	case r.pq == Prefer && !anyPQ && slices.ContainsFunc(asked, PQGroup):
		r.warnings = append(r.warnings, "no post-quantum group is in force; "+cause)
	case r.pq == Prefer && !anyPQ:
		r.warnings = append(r.warnings, "the list of groups has no post-quantum one: no connection will be post-quantum")
	}
	if r.min < tls.VersionTLS13 {
		r.warnings = append(r.warnings, "TLS 1.2 is allowed, and a TLS 1.2 connection is never post-quantum")
	}
	return nil
}

// errEnough ends the handshake that only served to see a ClientHello.
var errEnough = errors.New("seen enough")

// inForce asks crypto/tls which of the groups it really offers, because build
// settings, GODEBUG and FIPS mode can drop some, or all, without a word. It
// runs one ClientHello through memory.
func inForce(groups []tls.CurveID) (offered []tls.CurveID) {
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := tls.Client(near, &tls.Config{CurvePreferences: groups, InsecureSkipVerify: true}) // #nosec G402 -- nobody is there to be verified
		_ = c.Handshake()                                                                      // the other side breaks it off
		_ = near.Close()
	}()
	s := tls.Server(far, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		offered = slices.Clone(h.SupportedCurves)
		return nil, errEnough
	}})
	_ = s.Handshake() // errEnough, or the client could make no hello of these groups
	_ = far.Close()
	<-done
	return slices.DeleteFunc(offered, func(g tls.CurveID) bool { return !slices.Contains(groups, g) })
}
