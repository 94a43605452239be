// Package section reads field sections as HTTP/2 and HTTP/3 have them, pseudo-header
// fields first, into a head (RFC 9113, section 8.3; RFC 9114, section 4.3). How a section is
// compressed is the transports' own.
package section

import "github.com/hanzoai/pqgw/exchange"

// FieldOverhead is what a field counts beyond its bytes, as HTTP/1 writes it:
// colon, space and line end; the same limit then holds for every protocol.
const FieldOverhead = 4

// Pseudo is a set of pseudo-header fields.
type Pseudo uint8

// The pseudo-header fields, and those of a request.
const (
	Method Pseudo = 1 << iota
	Scheme
	Authority
	Path
	Protocol
	Status

	Request = Method | Scheme | Authority | Path | Protocol
)

// Section reads a field section into Head, and notes what is wrong with it. The
// zero value with Head and Limits set reads trailers, which have no pseudo-header fields.
type Section struct {
	Head    *exchange.Head
	Limits  *exchange.Limits
	Allowed Pseudo
	// Seen are the pseudo-header fields that have come.
	Seen Pseudo
	// Refusal is the first thing that is wrong, nil where nothing is.
	Refusal *exchange.Refusal

	size    int
	regular bool
	cookies int
}

func (sec *Section) refuse(r *exchange.Refusal) {
	if sec.Refusal == nil {
		sec.Refusal = r
	}
}

// Field takes the next field in. It returns false where the limits are passed and
// the rest of the section is not worth reading.
func (sec *Section) Field(name, value []byte) bool {
	sec.size += len(name) + len(value) + FieldOverhead
	switch {
	case sec.Limits.HeadBytes > 0 && sec.size > sec.Limits.HeadBytes:
		sec.refuse(exchange.RefuseHeadSize)
		return false
	case sec.Limits.Fields > 0 && sec.Head.Len() > sec.Limits.Fields:
		sec.refuse(exchange.RefuseFieldCount)
		return false
	}
	if len(name) > 0 && name[0] == ':' {
		sec.pseudo(name, value)
		return true
	}
	sec.regular = true
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			sec.refuse(exchange.RefuseFieldName)
		}
	}
	if n := len(value); n > 0 && (space(value[0]) || space(value[n-1])) {
		sec.refuse(exchange.RefuseFieldValue)
	}
	sec.Head.Add(name, value)
	sec.hop(sec.Head.ID(sec.Head.Len()-1), value)
	return true
}

func space(c byte) bool { return c == ' ' || c == '\t' }

// hop refuses fields that speak of a connection (RFC 9113, section 8.2.2; RFC 9114, section 4.2).
func (sec *Section) hop(id exchange.Name, value []byte) {
	switch id {
	case exchange.Connection, exchange.ProxyConnection, exchange.KeepAlive, exchange.TransferEncoding, exchange.Upgrade:
		sec.refuse(exchange.RefuseConnectionData)
	case exchange.TE:
		if !exchange.EqualFold(value, "trailers") {
			sec.refuse(exchange.RefuseConnectionData)
		}
	case exchange.Cookie:
		sec.cookies++
	}
}

func (sec *Section) pseudo(name, value []byte) {
	var p Pseudo
	switch string(name) {
	case ":method":
		p = Method
	case ":scheme":
		p = Scheme
	case ":authority":
		p = Authority
	case ":path":
		p = Path
	case ":protocol":
		p = Protocol
	case ":status":
		p = Status
	}
	if p&sec.Allowed == 0 || p&sec.Seen != 0 || sec.regular {
		sec.refuse(exchange.RefusePseudo)
		return
	}
	sec.Seen |= p
	sec.set(p, value)
}

func (sec *Section) set(p Pseudo, value []byte) {
	switch p {
	case Method:
		sec.Head.SetMethod(value)
	case Scheme:
		sec.Head.SetScheme(value)
	case Authority:
		sec.Head.SetAuthority(value)
	case Path:
		sec.Head.SetTarget(value)
	case Protocol:
		sec.Head.SetProtocol(value)
	case Status:
		if len(value) != 3 {
			sec.refuse(exchange.RefuseStatus)
			return
		}
		for _, c := range value {
			if c < '0' || c > '9' {
				sec.refuse(exchange.RefuseStatus)
				return
			}
			sec.Head.Status = sec.Head.Status*10 + int(c-'0')
		}
	}
}

// CheckRequest completes a request's head and gives the verdict on it.
func (sec *Section) CheckRequest(p exchange.Protocol, version string) *exchange.Refusal {
	sec.complete()
	h := sec.Head
	if sec.cookies > 1 {
		joinCookies(h)
	}
	h.SetVersion(version)
	// Where the section is refused the rest of the checks still brings what can be
	// read into form, for the log.
	r := exchange.CheckRequest(h, p, 0, sec.Limits)
	switch {
	case sec.Refusal != nil:
		return sec.Refusal
	case r == nil && len(h.Authority()) == 0:
		return exchange.RefuseHost
	}
	return r
}

// CheckTrailers gives the verdict on a trailer section.
func (sec *Section) CheckTrailers() *exchange.Refusal {
	if sec.Refusal != nil {
		return sec.Refusal
	}
	return exchange.CheckTrailers(sec.Head, sec.Limits)
}

// complete checks that the pseudo-header fields are those of a request (RFC
// 9113, section 8.3.1; RFC 8441, section 4; RFC 9220, section 3).
func (sec *Section) complete() {
	const plain = Method | Scheme | Path
	h := sec.Head
	switch {
	case sec.Refusal != nil:
	case h.Method == exchange.CONNECT && sec.Seen&Protocol == 0:
		if sec.Seen&(Scheme|Path) != 0 || sec.Seen&Authority == 0 {
			sec.refuse(exchange.RefusePseudo)
		}
	case sec.Seen&plain != plain, sec.Seen&Protocol != 0 && h.Method != exchange.CONNECT, len(h.Target()) == 0:
		sec.refuse(exchange.RefusePseudo)
	case !exchange.EqualFold(h.Scheme(), "http") && !exchange.EqualFold(h.Scheme(), "https"):
		sec.refuse(exchange.RefusePseudo)
	}
}

// joinCookies makes one field of the crumbs that HTTP/2 may cut a cookie into
// (RFC 9113, section 8.2.3).
func joinCookies(h *exchange.Head) {
	var room [1024]byte
	joined := room[:0]
	for i := h.Next(exchange.Cookie, 0); i >= 0; i = h.Next(exchange.Cookie, i+1) {
		if len(joined) > 0 {
			joined = append(joined, "; "...)
		}
		joined = append(joined, h.Value(i)...)
	}
	h.Set(exchange.Cookie, joined)
}
