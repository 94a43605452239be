package http2

import (
	"strconv"

	"github.com/hanzoai/pqgw/exchange"
)

// The encoder keeps no dynamic table: fields are matched against the static
// one and written as they are. So a block depends on nothing that went before, holds no
// buffer of ours alive, and no secret can be guessed from the size of a table
// that others share (RFC 7541, section 7.1). Huffman coding would trade our CPU for a
// few bytes, and is left out.

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

// Patterns of the representations (RFC 7541, section 6).
const (
	patternIndexed = 0x80
	patternLiteral = 0x00
	patternNever   = 0x10
	patternSize    = 0x20
)

func appendIndexed(b []byte, i int) []byte { return append(b, patternIndexed|byte(i)) }

// appendNamed writes a field whose name is entry i of the static table.
func appendNamed[T []byte | string](b []byte, pattern byte, i int, value T) []byte {
	b = appendVarint(b, pattern, 4, uint64(i))
	b = appendVarint(b, 0, 7, uint64(len(value)))
	return append(b, value...)
}

// appendField writes a field, its name in small letters.
func appendField(b []byte, id exchange.Name, name, value []byte) []byte {
	pattern := byte(patternLiteral)
	if secret(id) {
		pattern = patternNever
	}
	i := staticByID[id]
	if id == exchange.Unknown {
		i = staticByName[string(name)]
	}
	if i != 0 {
		return appendNamed(b, pattern, int(i), value)
	}
	b = append(b, pattern)
	b = appendVarint(b, 0, 7, uint64(len(name)))
	for _, c := range name {
		b = append(b, exchange.Lower(c))
	}
	b = appendVarint(b, 0, 7, uint64(len(value)))
	return append(b, value...)
}

// secret tells whose values must not enter the compression table of any hop
// (RFC 7541, section 7.1.3).
func secret(id exchange.Name) bool {
	switch id {
	case exchange.Authorization, exchange.Cookie, exchange.SetCookie, exchange.ProxyAuthorization:
		return true
	}
	return false
}

func appendStatus(b []byte, status int) []byte {
	switch status {
	case 200:
		return appendIndexed(b, 8)
	case 204:
		return appendIndexed(b, 9)
	case 206:
		return appendIndexed(b, 10)
	case 304:
		return appendIndexed(b, 11)
	case 400:
		return appendIndexed(b, 12)
	case 404:
		return appendIndexed(b, 13)
	case 500:
		return appendIndexed(b, 14)
	}
	var digits [8]byte
	return appendNamed(b, patternLiteral, staticStatus, strconv.AppendInt(digits[:0], int64(status), 10))
}

func appendContentLength(b []byte, n int64) []byte {
	var digits [20]byte
	return appendNamed(b, patternLiteral, staticContentLength, strconv.AppendInt(digits[:0], n, 10))
}

// appendFields writes the live fields of h without those that belong to one
// hop or to HTTP/1's framing (RFC 9113, section 8.2.2), and without those of the
// known name skip.
func appendFields(b []byte, h *exchange.Head, skip exchange.Name) []byte {
	for i := range h.Len() {
		if h.Dropped(i) {
			continue
		}
		switch id := h.ID(i); id {
		case exchange.Connection, exchange.KeepAlive, exchange.ProxyConnection, exchange.TransferEncoding,
			exchange.Upgrade, exchange.TE, exchange.ContentLength, exchange.Host, exchange.HTTP2Settings:
		default:
			if id == skip && id != exchange.Unknown {
				continue
			}
			b = appendField(b, id, h.Name(i), h.Value(i))
		}
	}
	return b
}
