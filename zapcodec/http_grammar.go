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

// oddValue marks bytes below 0x10, and most above 0x8f, in a field's value. As in
// all quick looks, a byte can lend to the next, or borrow from it, only if it is
// marked itself.
func oddValue(w uint64) uint64 { return w - 0x10*ones }

// oddText marks bytes that are not ASCII, DEL, and bytes below those of least.
func oddText(w, least uint64) uint64 { return (w - least) | (w + ones) | w }

// What least may be.
const (
	visible   = 0x21 * ones // no space and no control byte
	printable = 0x20 * ones // no control byte
)

// oddToken marks bytes that are neither letters nor '-'.
func oddToken(w uint64) uint64 {
	lower := w | 0x20*ones
	belowA := ^uint64((0x80-'a')*ones) - lower // ^(lower + …), an instruction shorter
	notLetter := belowA ^ (lower + (0x7f-'z')*ones)
	notDash := (w ^ '-'*ones) + 0x7f*ones
	return notLetter&notDash | w
}

// textOK reports whether a quick look lets the text at s of the frame pass: see
// oddText. It goes by words, beginning with the eight bytes up to the text's end;
// what lies before the text, or in the other words, is shifted out of them. At
// least eight bytes of the frame must lie before that end.
func textOK(frame []byte, s Span, least uint64) bool {
	at, end := uint64(s.Off), uint64(s.Off)+uint64(s.Len)
	before := -uint64(s.Len) * 8 & 63
	odd := oddText(binary.LittleEndian.Uint64(frame[end-8:end])>>before, least) << before
	for i := at + 8; i < end; i += 8 {
		odd |= oddText(binary.LittleEndian.Uint64(frame[i-8:i]), least)
	}
	return odd&highs == 0
}

// statusOK reports whether s may be a status: 100 to 999.
func statusOK(s int) bool { return uint(s)-100 < 900 }

// methodOK reports whether m is a method, a token (RFC 9110, section 9.1).
func methodOK(m []byte) bool {
	switch string(m) {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return true
	}
	return tokenExact(m)
}

// tokenExact reports whether s is a token (RFC 9110, section 5.6.2).
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

// targetExact reports whether t may be a request's target: not empty, no space
// and no control byte.
func targetExact(t []byte) bool {
	for _, c := range t {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	return len(t) != 0
}

// protoExact reports whether p may be a version token: visible ASCII.
func protoExact(p []byte) bool {
	for _, c := range p {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// reasonExact reports whether r may be a reason phrase (RFC 9112, section 4): no
// control byte but the tab.
func reasonExact(r []byte) bool {
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

// specialNames tells at a glance which names have no meaning of their own: by
// the low bits of its first letter, a bit for the length of each name that is
// neither fieldPasses nor fieldHost.
var specialNames = [32]uint32{
	'c' & 31: 1<<10 | 1<<14,
	'k' & 31: 1 << 10,
	'p' & 31: 1<<16 | 1<<18 | 1<<19,
	't' & 31: 1<<2 | 1<<7 | 1<<17,
	'u' & 31: 1 << 7,
}

// isHost reports whether a name of four bytes is that of Host.
func isHost(name uint32) bool { return name|0x20202020 == 'h'|'o'<<8|'s'<<16|'t'<<24 }

// classify tells the class of a field by its name.
func classify(name []byte) fieldClass {
	switch n := len(name); {
	case n == 4:
		if isHost(binary.LittleEndian.Uint32(name)) {
			return fieldHost
		}
	case n != 0 && n < 20 && specialNames[name[0]&31]>>n&1 != 0:
		return classifySpecial(name)
	}
	return fieldPasses
}

func classifySpecial(name []byte) fieldClass {
	switch len(name) {
	case 2:
		return classIf(name, "te", fieldDropped)
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
