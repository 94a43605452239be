package zapcodec

import "encoding/binary"

// The checks here read eight bytes at a time: heads are checked on every
// message, both ways, and a byte at a time this would be most of the cost. A
// quick look marks words (in the high bits of their bytes) that hold anything
// out of the ordinary; only then is each byte looked at, by the exact rule.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// blanks is a word of bytes that every quick look lets pass.
const blanks = 'a' * ones

// oddValue marks bytes below 0x10 in a field's value.
func oddValue(w uint64) uint64 { return (w - 0x10*ones) &^ w }

// oddVisible marks what is not visible ASCII.
func oddVisible(w uint64) uint64 { return (w-0x21*ones)&^w | (w + ones) | w }

// oddToken marks what is neither a letter nor '-'. Sums may carry into the next
// byte only from a byte that is marked itself.
func oddToken(w uint64) uint64 {
	lower := w | 0x20*ones
	notLetter := ^(lower + (0x80-'a')*ones) | (lower + (0x7f-'z')*ones)
	notDash := (w ^ '-'*ones) + 0x7f*ones
	return notLetter&notDash | w
}

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

// tokenOK reports whether s is a token (RFC 9110, section 5.6.2).
func tokenOK(s []byte) bool {
	var odd uint64
	if n := len(s); n >= 8 {
		for i := 0; i+8 < n; i += 8 {
			odd |= oddToken(binary.LittleEndian.Uint64(s[i : i+8]))
		}
		odd |= oddToken(binary.LittleEndian.Uint64(s[n-8:]))
	} else {
		odd = oddToken(word(s))
	}
	return odd&highs == 0 && len(s) != 0 || tokenExact(s)
}

// visible reports whether s is of visible ASCII bytes alone.
func visible(s []byte) bool {
	var odd uint64
	if n := len(s); n >= 8 {
		for i := 0; i+8 < n; i += 8 {
			odd |= oddVisible(binary.LittleEndian.Uint64(s[i : i+8]))
		}
		odd |= oddVisible(binary.LittleEndian.Uint64(s[n-8:]))
	} else {
		odd = oddVisible(word(s))
	}
	return odd&highs == 0
}

// targetOK reports whether t may be a request's target: not empty, no space
// and no control byte.
func targetOK(t []byte) bool { return len(t) != 0 && (visible(t) || targetExact(t)) }

// protoOK reports whether p may be a version token: visible ASCII.
func protoOK(p []byte) bool { return visible(p) }

// tokenExact is tokenOK by a look at each byte.
func tokenExact(s []byte) bool {
	for _, c := range s {
		if notToken[c] {
			return false
		}
	}
	return len(s) != 0
}

// valueExact reports whether v may be a field's value: no CR, LF or NUL.
func valueExact(v []byte) bool {
	for _, c := range v {
		if c == '\r' || c == '\n' || c == 0 {
			return false
		}
	}
	return true
}

// targetExact is targetOK by a look at each byte.
func targetExact(t []byte) bool {
	for _, c := range t {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	return len(t) != 0
}

// reasonOK reports whether r may be a reason phrase (RFC 9112, section 4): no
// control byte but the tab.
func reasonOK(r []byte) bool {
	for _, c := range r {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// notToken is true for the bytes that a token may not hold.
var notToken = func() (t [256]bool) {
	for c := range t {
		t[c] = true
	}
	for _, c := range "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" {
		t[c] = false
	}
	return t
}()

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

// classify tells the class of a field by its name.
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
	case 4: // the most frequent by far
		if binary.LittleEndian.Uint32(name)|0x20202020 == 'h'|'o'<<8|'s'<<16|'t'<<24 {
			return fieldHost
		}
	case 7:
		if lower(name[0]) == 't' {
			return classIf(name, "trailer", fieldDropped)
		}
		return classIf(name, "upgrade", fieldDropped)
	case 10:
		if lower(name[0]) == 'k' {
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

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

func classIf(name []byte, is string, c fieldClass) fieldClass {
	for i := range len(is) {
		if lower(name[i]) != is[i] {
			return fieldPasses
		}
	}
	return c
}

// equalFold compares two names without regard to case.
func equalFold(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}
