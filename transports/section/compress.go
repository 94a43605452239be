package section

import (
	"errors"

	"github.com/hanzoai/pqgw/exchange"
)

// What HPACK and QPACK are both made of. How a field is represented, and what their
// tables hold, is the transports' own.

// Errors of compressed sections.
var (
	// ErrEnd: the section ends within a field.
	ErrEnd = errors.New("field section ends within a field")
	// ErrInteger: an integer of more bits than any length or index has.
	ErrInteger = errors.New("field section holds an integer that is too long")
)

// AppendInteger writes n after the bits of first, with a prefix of that many
// bits (RFC 7541, section 5.1).
func AppendInteger(b []byte, first byte, prefix uint, n uint64) []byte {
	mask := uint64(1)<<prefix - 1
	if n < mask {
		return append(b, first|byte(n))
	}
	b = append(b, first|byte(mask))
	for n -= mask; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// Integer reads an integer with a prefix of that many bits at the beginning of p, and
// gives what is behind it (RFC 7541, section 5.1).
func Integer(p []byte, prefix uint) (n uint64, rest []byte, err error) {
	if len(p) == 0 {
		return 0, nil, ErrEnd
	}
	mask := uint64(1)<<prefix - 1
	if n = uint64(p[0]) & mask; n < mask {
		return n, p[1:], nil
	}
	for i, shift := 1, uint(0); i < len(p); i, shift = i+1, shift+7 {
		if shift >= 56 {
			return 0, nil, ErrInteger
		}
		n += uint64(p[i]&0x7f) << shift
		if p[i]&0x80 == 0 {
			return n, p[i+1:], nil
		}
	}
	return 0, nil, ErrEnd
}

// AppendString writes a string as it is, behind its length. Huffman coding would trade our
// CPU for a few bytes, and is left out.
func AppendString[T []byte | string](b []byte, s T) []byte {
	return append(AppendInteger(b, 0, 7, uint64(len(s))), s...)
}

// AppendName writes a field's name in small letters, as both protocols want it.
func AppendName(b, name []byte) []byte {
	for _, c := range name {
		b = append(b, exchange.Lower(c))
	}
	return b
}

// Secret tells whose values must not enter the compression table of any hop
// (RFC 7541, section 7.1.3; RFC 9204, section 7.1.3).
func Secret(id exchange.Name) bool {
	switch id {
	case exchange.Authorization, exchange.Cookie, exchange.SetCookie, exchange.ProxyAuthorization:
		return true
	}
	return false
}

// Travels tells whether a field is written: not those that belong to one hop or to
// HTTP/1's framing (RFC 9113, section 8.2.2; RFC 9114, section 4.2), and not those that
// are said otherwise.
func Travels(id exchange.Name) bool {
	switch id {
	case exchange.Connection, exchange.KeepAlive, exchange.ProxyConnection, exchange.TransferEncoding,
		exchange.Upgrade, exchange.TE, exchange.ContentLength, exchange.Host, exchange.HTTP2Settings:
		return false
	}
	return true
}
