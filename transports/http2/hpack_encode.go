package http2

import (
	"strconv"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/section"
)

// The encoder keeps no dynamic table: fields are matched against the static
// one and written as they are. So a block depends on nothing that went before, holds no
// buffer of ours alive, and no secret can be guessed from the size of a table
// that others share (RFC 7541, section 7.1).

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
	return section.AppendString(section.AppendInteger(b, pattern, 4, uint64(i)), value)
}

// appendField writes a field, its name in small letters.
func appendField(b []byte, id exchange.Name, name, value []byte) []byte {
	pattern := byte(patternLiteral)
	if section.Secret(id) {
		pattern = patternNever
	}
	i := staticByID[id]
	if id == exchange.Unknown {
		i = staticByName[string(name)]
	}
	if i != 0 {
		return appendNamed(b, pattern, int(i), value)
	}
	b = section.AppendInteger(append(b, pattern), 0, 7, uint64(len(name)))
	return section.AppendString(section.AppendName(b, name), value)
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

// appendFields writes the live fields of h that travel, without those of the known name
// skip.
func appendFields(b []byte, h *exchange.Head, skip exchange.Name) []byte {
	for i := range h.Len() {
		id := h.ID(i)
		if h.Dropped(i) || !section.Travels(id) || id == skip && id != exchange.Unknown {
			continue
		}
		b = appendField(b, id, h.Name(i), h.Value(i))
	}
	return b
}
