package http3

import (
	"strconv"

	"github.com/hanzoai/pqgw/exchange"
)

// The encoder matches fields against the static table and writes the rest as it
// is: sections depend on nothing that went before, need no acknowledgement, and no secret can be
// guessed from the size of a table that others share (RFC 9204, section 7.1).
// Huffman coding would trade our CPU for a few bytes, and is left out.

// appendVarint writes n after the bits of first, with a prefix of that many
// bits (RFC 7541, section 5.1).
func appendVarint(b []byte, first byte, prefix uint, n uint64) []byte {
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

// Patterns of the representations, with the bit for the static table set (RFC
// 9204, section 4.5). The bit for "never index" is added to secrets.
const (
	patternIndexed = 0xc0
	patternNamed   = 0x50
	neverNamed     = 0x20
	patternLiteral = 0x20
	neverLiteral   = 0x10
)

// appendPrefix begins a section: no inserts needed, base 0.
func appendPrefix(b []byte) []byte { return append(b, 0, 0) }

func appendIndexed(b []byte, i uint8) []byte {
	return appendVarint(b, patternIndexed, 6, uint64(i))
}

// appendNamed writes a field whose name is entry i of the static table.
func appendNamed[T []byte | string](b []byte, pattern byte, i uint8, value T) []byte {
	b = appendVarint(b, pattern, 4, uint64(i))
	b = appendVarint(b, 0, 7, uint64(len(value)))
	return append(b, value...)
}

// appendField writes a field, its name in small letters.
func appendField(b []byte, id exchange.Name, name, value []byte) []byte {
	named, literal := byte(patternNamed), byte(patternLiteral)
	if secret(id) {
		named, literal = named|neverNamed, literal|neverLiteral
	}
	i := staticByID[id]
	if id == exchange.Unknown {
		i = staticByName[string(name)]
	}
	if i != 0 {
		return appendNamed(b, named, i-1, value)
	}
	b = appendVarint(b, literal, 3, uint64(len(name)))
	for _, c := range name {
		b = append(b, exchange.Lower(c))
	}
	b = appendVarint(b, 0, 7, uint64(len(value)))
	return append(b, value...)
}

// appendOther writes a field that is in no table; name is in small letters.
func appendOther[T []byte | string](b []byte, name string, value T) []byte {
	b = appendVarint(b, patternLiteral, 3, uint64(len(name)))
	b = append(b, name...)
	b = appendVarint(b, 0, 7, uint64(len(value)))
	return append(b, value...)
}

// secret tells whose values must not enter the compression table of any hop
// (RFC 9204, section 7.1.3).
func secret(id exchange.Name) bool {
	switch id {
	case exchange.Authorization, exchange.Cookie, exchange.SetCookie, exchange.ProxyAuthorization:
		return true
	}
	return false
}

func appendStatus(b []byte, status int) []byte {
	if status < len(staticStatuses) && staticStatuses[status] != 0 {
		return appendIndexed(b, staticStatuses[status]-1)
	}
	var digits [8]byte
	return appendNamed(b, patternNamed, staticStatus, strconv.AppendInt(digits[:0], int64(status), 10))
}

func appendContentLength(b []byte, n int64) []byte {
	if n == 0 {
		return appendIndexed(b, staticContentLength)
	}
	var digits [20]byte
	return appendNamed(b, patternNamed, staticContentLength, strconv.AppendInt(digits[:0], n, 10))
}

// appendFields writes the live fields of h without those that belong to one
// hop or to HTTP/1's framing (RFC 9114, section 4.2).
func appendFields(b []byte, h *exchange.Head) []byte {
	for i := range h.Len() {
		if h.Dropped(i) {
			continue
		}
		switch id := h.ID(i); id {
		case exchange.Connection, exchange.KeepAlive, exchange.ProxyConnection, exchange.TransferEncoding,
			exchange.Upgrade, exchange.TE, exchange.ContentLength, exchange.Host, exchange.HTTP2Settings:
		default:
			b = appendField(b, id, h.Name(i), h.Value(i))
		}
	}
	return b
}
