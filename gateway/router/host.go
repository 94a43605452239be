package router

import (
	"bytes"
	"net/netip"

	"github.com/hanzoai/pqgw/exchange"
)

// MaxHost is the longest host that a rule can name (RFC 1035, section 2.3.4).
const MaxHost = 255

// NormalizeHost appends to dst the host of an authority in the one form that
// routes are looked up by: lower case, no port, no trailing dot, IPv6 literals
// without brackets and in their canonical form. A host longer than MaxHost
// gives the empty one, which no rule names.
func NormalizeHost(dst, authority []byte) []byte {
	host := authority
	if len(host) > 0 && host[0] == '[' {
		if end := bytes.IndexByte(host, ']'); end > 0 {
			return appendLiteral(dst, host[1:end])
		}
		return dst
	}
	if i := bytes.IndexByte(host, ':'); i >= 0 {
		if bytes.IndexByte(host[i+1:], ':') >= 0 {
			return appendLiteral(dst, host)
		}
		host = host[:i]
	}
	if n := len(host); n > 1 && host[n-1] == '.' {
		host = host[:n-1]
	}
	if len(host) > MaxHost {
		return dst
	}
	for _, c := range host {
		dst = append(dst, exchange.Lower(c))
	}
	return dst
}

// appendLiteral appends an IPv6 address; what is none stays as it is.
func appendLiteral(dst, literal []byte) []byte {
	if len(literal) > MaxHost {
		return dst
	}
	if addr, err := netip.ParseAddr(string(literal)); err == nil {
		return addr.AppendTo(dst)
	}
	for _, c := range literal {
		dst = append(dst, exchange.Lower(c))
	}
	return dst
}
