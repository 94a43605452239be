// Package http1 is the wire side of HTTP/1.1 (RFC 9112): one strict parser for
// heads and chunks, a server's loop and a client's, over streams that may
// live inside a read callback.
package http1

import (
	"bytes"

	"github.com/hanzoai/pqgw/exchange"
)

// scanHead looks for the empty line that ends a head which begins at b[0],
// going on at from. It returns the position behind it, or 0 and where to go on when it
// has not come yet. Each line must end in CR LF: a bare LF is where parsers
// disagree (RFC 9112, section 2.2).
func scanHead(b []byte, from int) (end, next int, r *exchange.Refusal) {
	for {
		i := bytes.IndexByte(b[from:], '\n')
		if i < 0 {
			return 0, len(b), nil
		}
		i += from
		if i == 0 || b[i-1] != '\r' {
			return 0, i, exchange.RefuseLineEnd
		}
		if i == 1 || b[i-2] == '\n' {
			return i + 1, i + 1, nil
		}
		from = i + 1
	}
}

// parseRequest takes a request head apart, b being all of it with its last
// empty line, and lets h point into it. It checks the shape of lines; what they
// say is for exchange.CheckRequest.
func parseRequest(b []byte, h *exchange.Head, maxFields int) (minor int, r *exchange.Refusal) {
	h.Reset(b)
	eol := bytes.IndexByte(b, '\n') - 1
	line := b[:eol]
	sp := bytes.IndexByte(line, ' ')
	if sp <= 0 {
		return 1, exchange.RefuseRequestLine
	}
	h.SetMethodWire(0, sp)
	sp2 := bytes.IndexByte(line[sp+1:], ' ')
	if sp2 <= 0 {
		return 1, exchange.RefuseRequestLine
	}
	sp2 += sp + 1
	minor, r = parseVersion(line[sp2+1:])
	if r != nil {
		return 1, r
	}
	h.SetVersionWire(sp2+1, eol)
	if r := setTarget(h, b, sp+1, sp2); r != nil {
		return minor, r
	}
	return minor, parseFields(b, eol+2, h, maxFields)
}

// parseVersion reads "HTTP/1.1" or "HTTP/1.0".
func parseVersion(v []byte) (minor int, r *exchange.Refusal) {
	switch string(v) {
	case "HTTP/1.1":
		return 1, nil
	case "HTTP/1.0":
		return 0, nil
	}
	if len(v) == 8 && string(v[:5]) == "HTTP/" && v[6] == '.' && isDigit(v[5]) && isDigit(v[7]) {
		return 0, exchange.RefuseVersion
	}
	return 0, exchange.RefuseRequestLine
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// setTarget brings the absolute form into the origin form, its authority set
// apart (RFC 9112, section 3.2.2).
func setTarget(h *exchange.Head, b []byte, off, end int) *exchange.Refusal {
	t := b[off:end]
	if t[0] == '/' || h.Method == exchange.CONNECT {
		h.SetTargetWire(off, end)
		return nil
	}
	var scheme int
	switch {
	case len(t) > 7 && exchange.EqualFold(t[:7], "http://"):
		scheme = 7
	case len(t) > 8 && exchange.EqualFold(t[:8], "https://"):
		scheme = 8
	default:
		h.SetTargetWire(off, end)
		return nil
	}
	slash := bytes.IndexAny(t[scheme:], "/?")
	if slash == 0 {
		return exchange.RefuseTarget
	}
	if slash < 0 {
		h.SetAuthorityWire(off+scheme, end)
		h.SetTarget([]byte("/"))
		return nil
	}
	slash += scheme
	h.SetAuthorityWire(off+scheme, off+slash)
	if t[slash] == '?' {
		h.SetTarget(append([]byte("/"), t[slash:]...))
		return nil
	}
	h.SetTargetWire(off+slash, end)
	return nil
}

// parseFields reads the field lines of b from off to the empty line that ends it.
func parseFields(b []byte, off int, h *exchange.Head, maxFields int) *exchange.Refusal {
	for b[off] != '\r' || b[off+1] != '\n' {
		if b[off] == ' ' || b[off] == '\t' {
			return exchange.RefuseFolding
		}
		if maxFields > 0 && h.Len() >= maxFields {
			return exchange.RefuseFieldCount
		}
		eol := off + bytes.IndexByte(b[off:], '\n') - 1
		colon := bytes.IndexByte(b[off:eol], ':')
		if colon <= 0 {
			return exchange.RefuseFieldName
		}
		colon += off
		value, end := colon+1, eol
		for value < end && (b[value] == ' ' || b[value] == '\t') {
			value++
		}
		for end > value && (b[end-1] == ' ' || b[end-1] == '\t') {
			end--
		}
		h.AddWire(off, colon, value, end)
		off = eol + 2
	}
	return nil
}

// parseResponse takes an answer's head apart as parseRequest does a request's.
func parseResponse(b []byte, h *exchange.Head, maxFields int) (minor int, r *exchange.Refusal) {
	h.Reset(b)
	eol := bytes.IndexByte(b, '\n') - 1
	line := b[:eol]
	if len(line) < 12 || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return 1, exchange.RefuseStatus
	}
	minor, r = parseVersion(line[:8])
	if r != nil {
		return 1, exchange.RefuseVersion
	}
	for _, c := range line[9:12] {
		if !isDigit(c) {
			return minor, exchange.RefuseStatus
		}
		h.Status = h.Status*10 + int(c-'0')
	}
	h.SetVersionWire(0, 8)
	if len(line) > 13 {
		if !exchange.IsFieldValue(line[13:]) {
			return minor, exchange.RefuseStatus
		}
		h.SetReasonWire(13, eol)
	}
	return minor, parseFields(b, eol+2, h, maxFields)
}
