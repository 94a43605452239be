package zapcodec

import "encoding/binary"

// The checks here read eight bytes at a time: heads are checked on every
// message, both ways, and a byte at a time this would be most of the cost.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// below marks (in some high bit) that w holds a byte less than n, n ≤ 128.
func below(w, n uint64) uint64 { return (w - ones*n) &^ w & highs }

// word gathers a string of 0 to 7 bytes into one word; its other bytes repeat
// some of the string, or are blanks.
func word(b []byte) uint64 {
	switch n := len(b); {
	case n >= 4:
		return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[n-4:]))<<32
	case n >= 2:
		return uint64(binary.LittleEndian.Uint16(b)) | uint64(binary.LittleEndian.Uint16(b[n-2:]))<<16 | blanks>>32<<32
	case n == 1:
		return uint64(b[0]) | blanks>>8<<8
	}
	return blanks
}

// blanks is a word of bytes that every check here lets pass.
const blanks = 'a' * ones

// valueOK reports whether v may be a field's value: no CR, LF or NUL.
func valueOK(v []byte) bool {
	// One quick look for any byte below 0x10, and a second for which it is
	// only when there is one (a tab is allowed).
	var bad uint64
	if n := len(v); n >= 8 {
		for i := 0; i+8 < n; i += 8 {
			bad |= below(binary.LittleEndian.Uint64(v[i:i+8]), 0x10)
		}
		bad |= below(binary.LittleEndian.Uint64(v[n-8:]), 0x10)
	} else {
		bad = below(word(v), 0x10)
	}
	return bad == 0 || valueOKSlow(v)
}

func valueOKSlow(v []byte) bool {
	for _, c := range v {
		if c == '\r' || c == '\n' || c == 0 {
			return false
		}
	}
	return true
}

// targetOK reports whether t may be a request's target: not empty, no space
// and no control byte.
func targetOK(t []byte) bool {
	var bad uint64
	i := 0
	for ; i+8 <= len(t); i += 8 {
		w := binary.LittleEndian.Uint64(t[i : i+8])
		bad |= below(w, 0x21) | below(w^0x7f*ones, 1)
	}
	w := word(t[i:])
	bad |= below(w, 0x21) | below(w^0x7f*ones, 1)
	return bad == 0 && len(t) != 0
}

// protoOK reports whether p may be a version token: visible ASCII.
func protoOK(p []byte) bool {
	var bad uint64
	i := 0
	for ; i+8 <= len(p); i += 8 {
		w := binary.LittleEndian.Uint64(p[i : i+8])
		bad |= below(w, 0x21) | below(w^0x7f*ones, 1) | w&highs
	}
	w := word(p[i:])
	bad |= below(w, 0x21) | below(w^0x7f*ones, 1) | w&highs
	return bad == 0
}

// reasonOK reports whether r may be a reason phrase (RFC 9112, section 4): no
// control byte but the tab.
func reasonOK(r []byte) bool {
	for _, c := range r {
		if c < 0x20 && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// notToken is true for the bytes that a token may not hold (RFC 9110, section
// 5.6.2).
var notToken = func() (t [256]bool) {
	for c := range t {
		t[c] = true
	}
	for _, c := range "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" {
		t[c] = false
	}
	return t
}()

// tokenOK reports whether s is a token: not empty, and of token bytes alone.
func tokenOK(s []byte) bool {
	// Nearly all tokens are of letters, digits and dashes.
	good := uint64(highs)
	if n := len(s); n >= 8 {
		for i := 0; i+8 < n; i += 8 {
			good &= plain(binary.LittleEndian.Uint64(s[i : i+8]))
		}
		good &= plain(binary.LittleEndian.Uint64(s[n-8:]))
	} else {
		good = plain(word(s))
	}
	return good == highs && len(s) != 0 || tokenOKSlow(s)
}

// plain sets the high bit of each byte of w that is a letter, a digit or '-'.
func plain(w uint64) uint64 {
	const low = ^uint64(highs)
	v := w & low // so that no sum below carries into the next byte
	lower := v | 0x20*ones
	letter := (lower + (0x80-'a')*ones) &^ (lower + (0x7f-'z')*ones)
	digit := (v + (0x80-'0')*ones) &^ (v + (0x7f-'9')*ones)
	dash := ^((v ^ '-'*ones) + low)
	return (letter | digit | dash) &^ w & highs
}

func tokenOKSlow(s []byte) bool {
	for _, c := range s {
		if notToken[c] {
			return false
		}
	}
	return len(s) != 0
}

// fieldClass is what becomes of a field for the sake of its name.
type fieldClass uint8

const (
	fieldPasses     fieldClass = iota
	fieldDropped               // hop-by-hop, or Trailer: the trailers cell says it
	fieldLength                // Content-Length: dropped, the body cell says it
	fieldConnection            // dropped, and so are the fields that it names
	fieldHost                  // at most one
	fieldRefused               // Transfer-Encoding
)

// specialLengths has a bit for the length of each name that is not fieldPasses,
// and for the empty name, which is none.
const specialLengths = 1<<0 | 1<<2 | 1<<4 | 1<<7 | 1<<10 | 1<<14 | 1<<16 | 1<<17 | 1<<18 | 1<<19

// classify tells the class of a field by its name, which must be a token.
func classify(name []byte) fieldClass {
	if len(name) < 20 && specialLengths>>(len(name)&31)&1 != 0 {
		return classifySpecial(name)
	}
	return fieldPasses
}

func classifySpecial(name []byte) fieldClass {
	switch len(name) {
	case 2:
		return classIf(name, "te", fieldDropped)
	case 4:
		return classIf(name, "host", fieldHost)
	case 7:
		if fold(name[0]) == 't' {
			return classIf(name, "trailer", fieldDropped)
		}
		return classIf(name, "upgrade", fieldDropped)
	case 10:
		if fold(name[0]) == 'k' {
			return classIf(name, "keep-alive", fieldDropped)
		}
		return classIf(name, "connection", fieldConnection)
	case 14:
		return classIf(name, "content-length", fieldLength)
	case 16:
		return classIf(name, "proxy-connection", fieldDropped)
	case 17:
		return classIf(name, "transfer-encoding", fieldRefused)
	case 18:
		return classIf(name, "proxy-authenticate", fieldDropped)
	case 19:
		return classIf(name, "proxy-authorization", fieldDropped)
	}
	return fieldPasses
}

func fold(c byte) byte { return c | 0x20 }

func classIf(name []byte, lower string, c fieldClass) fieldClass {
	if equalFold(name, lower) {
		return c
	}
	return fieldPasses
}

// equalFold compares a token to a name in lower case. Folding by one bit is
// exact here: the bytes that it would confuse with letters or '-' are no token
// bytes.
func equalFold[T string | []byte](token []byte, lower T) bool {
	if len(token) != len(lower) {
		return false
	}
	for i := range len(lower) {
		if fold(token[i]) != fold(lower[i]) {
			return false
		}
	}
	return true
}
