package telemetry

import (
	"unicode/utf8"
)

// maxField is the number of bytes of one string that a line shows: longer
// than any honest path, short enough that a line has a bound.
const maxField = 4096

// Words of eight equal bytes, for looking at eight bytes at once.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plainPrefix is the length of the start of s that a JSON string shows as it
// stands, in steps of eight bytes and then of one.
func plainPrefix[T string | []byte](s T) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		// Each term sets the high bit of a byte that is not plain; a borrow or
		// carry out of one such byte may mark its neighbour as well, never less.
		if (w|(w+ones)|(w-ones*0x20)|((w^ones*'"')-ones)|((w^ones*'\\')-ones))&highs != 0 {
			break
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// appendString appends s as a JSON string with its quotes. Whatever s holds,
// the result is valid JSON and valid UTF-8 on one line: invalid UTF-8 becomes
// U+FFFD; controls (C1 and DEL too, which terminals obey) and the separators
// U+2028 and U+2029 are escaped.
func appendString[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	if n := plainPrefix(s); n == len(s) && n <= maxField {
		b = append(b, s...)
	} else {
		b = appendEscaped(b, s)
	}
	return append(b, '"')
}

func appendEscaped[T string | []byte](b []byte, s T) []byte {
	rest, cut := s, false
	if len(rest) > maxField {
		rest, cut = rest[:maxField], true
	}
	for len(rest) > 0 {
		n := plainPrefix(rest)
		b = append(b, rest[:n]...)
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
		r, size := decodeRune(rest)
		if cut && r == utf8.RuneError && size == 1 && len(rest) < utf8.UTFMax {
			break // the cut went through a character
		}
		b = appendRune(b, r)
		rest = rest[size:]
	}
	if cut {
		b = append(b, "…"...)
	}
	return b
}

func decodeRune[T string | []byte](s T) (rune, int) {
	var a [utf8.UTFMax]byte
	n := copy(a[:], s)
	return utf8.DecodeRune(a[:n])
}

const hexDigits = "0123456789abcdef"

// appendRune appends one character that plainPrefix stopped at.
func appendRune(b []byte, r rune) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(b, '\\', byte(r))
	case r == '\n':
		return append(b, '\\', 'n')
	case r == '\r':
		return append(b, '\\', 'r')
	case r == '\t':
		return append(b, '\\', 't')
	case r < 0x20 || 0x7f <= r && r <= 0x9f:
		return append(b, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&0xf])
	case r == '\u2028':
		return append(b, `\u2028`...)
	case r == '\u2029':
		return append(b, `\u2029`...)
	}
	return utf8.AppendRune(b, r)
}
