package exchange

// Character classes of RFC 9110, section 5.6, and RFC 3986, one bit each.
const (
	classToken  = 1 << iota // tchar
	classValue              // field-vchar, SP and HTAB, obs-text
	classTarget             // what a request target may hold
	classHost               // what a host and port may hold
)

var classes = func() (t [256]byte) {
	for c := range 256 {
		switch {
		case '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z':
			t[c] = classToken | classHost
		}
		if c >= 0x20 && c != 0x7f || c == '\t' {
			t[c] |= classValue
		}
		// Clients send raw UTF-8 in paths; a '#' would be read as a fragment by some.
		if c > 0x20 && c != 0x7f && c != '#' {
			t[c] |= classTarget
		}
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] |= classToken
	}
	for _, c := range "-._~!$&'()*+,;=%:[]" {
		t[c] |= classHost
	}
	return t
}()

func allOf(b []byte, class byte) bool {
	for _, c := range b {
		if classes[c]&class == 0 {
			return false
		}
	}
	return true
}

// IsToken tells whether b is a token, which is not empty (RFC 9110, section 5.6.2).
func IsToken(b []byte) bool { return len(b) > 0 && allOf(b, classToken) }

// IsTokenChar tells whether c may stand in a token.
func IsTokenChar(c byte) bool { return classes[c]&classToken != 0 }

// IsFieldValue tells whether b holds only what a field value may (RFC 9110, section 5.5).
func IsFieldValue(b []byte) bool { return allOf(b, classValue) }

// IsTarget tells whether b holds only what a request target may, and something.
func IsTarget(b []byte) bool { return len(b) > 0 && allOf(b, classTarget) }

// IsAuthority tells whether b is a host with or without a port, or empty; no user
// information (RFC 9110, section 4.2.4).
func IsAuthority(b []byte) bool {
	if !allOf(b, classHost) {
		return false
	}
	open := -1
	for i, c := range b {
		switch c {
		case '[':
			if i != 0 {
				return false
			}
			open = 0
		case ']':
			if open != 0 {
				return false
			}
			open = i
		}
	}
	if open == 0 && len(b) > 0 && b[0] == '[' {
		return false
	}
	rest := b
	if open > 0 {
		rest = b[open+1:]
		if len(rest) > 0 && rest[0] != ':' {
			return false
		}
	}
	return validPort(rest)
}

func validPort(b []byte) bool {
	for i, c := range b {
		if c != ':' {
			continue
		}
		port := b[i+1:]
		if len(port) > 5 {
			return false
		}
		for _, d := range port {
			if d < '0' || d > '9' {
				return false
			}
		}
		return true
	}
	return true
}

// ParseLength reads a Content-Length: decimal digits alone that fit an int64;
// -1 when it is not one (RFC 9110, section 8.6).
func ParseLength(b []byte) int64 {
	if len(b) == 0 || len(b) > 19 {
		return -1
	}
	var n int64
	for _, c := range b {
		d := int64(c) - '0'
		if d < 0 || d > 9 || n > (1<<63-1-d)/10 {
			return -1
		}
		n = n*10 + d
	}
	return n
}

// EachToken yields the elements of a comma-separated list, white space around them
// trimmed, empty ones left out (RFC 9110, section 5.6.1).
func EachToken(list []byte, yield func([]byte) bool) {
	for len(list) > 0 {
		var item []byte
		item, list = nextItem(list)
		if len(item) > 0 && !yield(item) {
			return
		}
	}
}

func nextItem(list []byte) (item, rest []byte) {
	end := len(list)
	for i, c := range list {
		if c == ',' {
			end, rest = i, list[i+1:]
			break
		}
	}
	return TrimSpace(list[:end]), rest
}

// TrimSpace takes optional white space, SP and HTAB, off both ends.
func TrimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}
