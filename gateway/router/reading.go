package router

import "bytes"

// HasDotSegment tells whether a path has a segment "." or "..", also with its
// dots percent-encoded. Such a path means one place to routes and another to an
// upstream that resolves it (RFC 3986, section 5.2.4), some of which cut a ";…"
// off before they do; clients resolve them before they send.
func HasDotSegment(path []byte) bool {
	for rest := path; ; {
		i := bytes.IndexByte(rest, '/')
		if i < 0 {
			return false
		}
		rest = rest[i+1:]
		if len(rest) > 0 && (rest[0] == '.' || rest[0] == '%') && dotSegment(rest) {
			return true
		}
	}
}

func dotSegment(b []byte) bool {
	dots := 0
	for len(b) > 0 && b[0] != '/' && b[0] != '\\' && b[0] != ';' {
		switch {
		case b[0] == '.':
			b = b[1:]
		case len(b) >= 3 && b[0] == '%' && b[1] == '2' && hexE(b[2]):
			b = b[3:]
		default:
			return false
		}
		if dots++; dots > 2 {
			return false
		}
	}
	return dots > 0
}

func hexE(c byte) bool { return c == 'e' || c == 'E' }

// Plain tells whether every upstream reads the path as it stands. Others hold
// something that some resolve before they look at it: percent-encoding, "\\" for "/",
// "//" for "/", a ";…" behind a segment.
func Plain(path []byte) bool {
	return bytes.IndexByte(path, '%') < 0 && bytes.IndexByte(path, ';') < 0 && bytes.IndexByte(path, '\\') < 0 &&
		!bytes.Contains(path, []byte("//"))
}

// AppendResolved appends to dst what the path is to an upstream that resolves all of
// that: decoded once, every kind of slash a single "/", segments without what
// follows a ";".
func AppendResolved(dst, path []byte) []byte {
	begin, parameter := len(dst), false
	for len(path) > 0 {
		c := path[0]
		if n, ok := encoded(path); ok {
			c, path = n, path[2:]
		}
		path = path[1:]
		switch {
		case c == '/' || c == '\\':
			parameter = false
			if len(dst) == begin || dst[len(dst)-1] != '/' {
				dst = append(dst, '/')
			}
		case c == ';' || parameter:
			parameter = true
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// encoded is the octet that a percent-encoding at the beginning of b stands for.
func encoded(b []byte) (c byte, ok bool) {
	if len(b) < 3 || b[0] != '%' {
		return 0, false
	}
	high, low := unhex(b[1]), unhex(b[2])
	return high<<4 | low, high < 16 && low < 16
}

// unhex is the value of a hexadecimal digit, 16 or more of anything else.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}
