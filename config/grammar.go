package config

import (
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/idna"
)

// normalHost is a host in lower case, in ASCII, without the dot of the root.
// What is not a host is returned as it is, for the checks to find.
func normalHost(host string) string {
	wildcard, name := "", strings.TrimSuffix(host, ".")
	if rest, ok := strings.CutPrefix(name, "*."); ok {
		wildcard, name = "*.", rest
	}
	if ascii, err := idna.Lookup.ToASCII(name); err == nil {
		name = ascii
	}
	return wildcard + strings.ToLower(name)
}

// checkHost checks a DNS name or an IP address without a port.
func checkHost(host string) error {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && addr.Zone() == "" {
		return nil
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		return fmt.Errorf("%q has a port; hosts are matched without one", host)
	}
	if strings.Contains(host, "*") {
		return fmt.Errorf("%q has a * in it; it may stand only for whole labels in front, as in *.example.com", host)
	}
	if len(host) > 253 {
		return fmt.Errorf("the host is longer than 253 characters")
	}
	for label := range strings.SplitSeq(normalHost(host), ".") {
		if !validLabel(label) {
			return fmt.Errorf("%q is not a host", host)
		}
	}
	return nil
}

func validLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for _, b := range []byte(label) {
		if b != '-' && b != '_' && (b < '0' || b > '9') && (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') {
			return false
		}
	}
	return true
}

// checkPath checks a path to match: absolute, in its normal form, `*` only as a whole last segment.
func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") {
		return fmt.Errorf("%q does not begin with /; write it as /v1/*", path)
	}
	body := strings.TrimSuffix(path, "/*")
	if strings.Contains(body, "*") {
		return fmt.Errorf("%q has a * in it; it may stand only for the last segments, as in /v1/*", path)
	}
	if i := strings.IndexAny(body, "?# "); i >= 0 {
		return fmt.Errorf("%q has %q in it, which no path has", path, body[i])
	}
	for _, b := range []byte(body) {
		if b < 0x21 || b > 0x7e {
			return fmt.Errorf("%q has a character that no path has; percent-encode it", path)
		}
	}
	for segment := range strings.SplitSeq(body, "/") {
		if segment == "." || segment == ".." {
			return fmt.Errorf("%q has a segment of dots, which requests never have here", path)
		}
	}
	if strings.Contains(path, "//") {
		return fmt.Errorf("%q has an empty segment", path)
	}
	return nil
}

func checkMethod(method string) error {
	if !validToken(method) {
		return fmt.Errorf("%q is not a method", method)
	}
	if upper := strings.ToUpper(method); upper != method {
		return fmt.Errorf("methods are in capitals; did you mean %q?", upper)
	}
	return nil
}

// validToken reports whether s is a token. RFC 9110, section 5.6.2.
func validToken(s string) bool { return httpguts.ValidHeaderFieldName(s) }

// validValue reports whether s can be a field's value as it is. RFC 9110, section 5.5.
func validValue(s string) bool {
	return httpguts.ValidHeaderFieldValue(s) && strings.Trim(s, " \t") == s
}
