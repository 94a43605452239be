package http3

import (
	"strconv"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/section"
)

// The encoder matches fields against the static table and writes the rest as it
// is: sections depend on nothing that went before, need no acknowledgement, and no secret can be
// guessed from the size of a table that others share (RFC 9204, section 7.1).

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
	return section.AppendInteger(b, patternIndexed, 6, uint64(i))
}

// appendNamed writes a field whose name is entry i of the static table.
func appendNamed[T []byte | string](b []byte, pattern byte, i uint8, value T) []byte {
	return section.AppendString(section.AppendInteger(b, pattern, 4, uint64(i)), value)
}

// appendField writes a field, its name in small letters.
func appendField(b []byte, id exchange.Name, name, value []byte) []byte {
	named, literal := byte(patternNamed), byte(patternLiteral)
	if section.Secret(id) {
		named, literal = named|neverNamed, literal|neverLiteral
	}
	i := staticByID[id]
	if id == exchange.Unknown {
		i = staticByName[string(name)]
	}
	if i != 0 {
		return appendNamed(b, named, i-1, value)
	}
	b = section.AppendInteger(b, literal, 3, uint64(len(name)))
	return section.AppendString(section.AppendName(b, name), value)
}

// appendOther writes a field that is in no table; name is in small letters.
func appendOther[T []byte | string](b []byte, name string, value T) []byte {
	b = section.AppendInteger(b, patternLiteral, 3, uint64(len(name)))
	return section.AppendString(append(b, name...), value)
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

// appendFields writes the live fields of h that travel.
func appendFields(b []byte, h *exchange.Head) []byte {
	for i := range h.Len() {
		if id := h.ID(i); !h.Dropped(i) && section.Travels(id) {
			b = appendField(b, id, h.Name(i), h.Value(i))
		}
	}
	return b
}
