package http3

import (
	"io"

	"github.com/hanzoai/pqgw/exchange"
)

func isEOF(err error) bool { return err == io.EOF } //nolint:errorlint // quic-go gives the value itself

// fieldOverhead is what a field counts beyond its bytes, as HTTP/1 writes it:
// colon, space and line end; the same limit then holds for every protocol.
const fieldOverhead = 4

// entryOverhead is what SETTINGS_MAX_FIELD_SECTION_SIZE counts for each field
// beyond its bytes (RFC 9114, section 4.2.2).
const entryOverhead = 32

// pseudo is a set of pseudo-header fields (RFC 9114, section 4.3).
type pseudo uint8

const (
	pseudoMethod pseudo = 1 << iota
	pseudoScheme
	pseudoAuthority
	pseudoPath
	pseudoProtocol
	pseudoStatus
)

const requestPseudo = pseudoMethod | pseudoScheme | pseudoAuthority | pseudoPath | pseudoProtocol

// section reads a field section into a head, and notes what is wrong with it.
type section struct {
	h       *exchange.Head
	lim     *exchange.Limits
	seen    pseudo
	allowed pseudo
	size    int
	regular bool
	cookies int
	refusal *exchange.Refusal // the first there is
}

// read decodes block into h. The error is one of compression, which ends the
// connection; what is wrong with the section itself is in refusal.
func (d *decoder) read(sec *section, block []byte) error {
	err := d.begin(block)
	for err == nil && !d.skip { // where the rest is skipped nothing depends on it: there is no dynamic table
		var ok bool
		if ok, err = d.next(); !ok && err == nil {
			return nil
		}
		if err == nil {
			sec.field(d)
		}
	}
	if err != nil {
		return connErr(DecompressionFailed, err.Error())
	}
	return nil
}

func (sec *section) refuse(r *exchange.Refusal) {
	if sec.refusal == nil {
		sec.refusal = r
	}
}

func (sec *section) field(d *decoder) {
	sec.size += len(d.name) + len(d.value) + fieldOverhead
	switch {
	case sec.lim.HeadBytes > 0 && sec.size > sec.lim.HeadBytes:
		sec.refuse(exchange.RefuseHeadSize)
		d.skip = true
		return
	case sec.lim.Fields > 0 && sec.h.Len() > sec.lim.Fields:
		sec.refuse(exchange.RefuseFieldCount)
		d.skip = true
		return
	}
	if len(d.name) > 0 && d.name[0] == ':' {
		sec.pseudo(d.name, d.value)
		return
	}
	sec.regular = true
	for _, c := range d.name {
		if 'A' <= c && c <= 'Z' {
			sec.refuse(exchange.RefuseFieldName)
		}
	}
	if n := len(d.value); n > 0 && (space(d.value[0]) || space(d.value[n-1])) {
		sec.refuse(exchange.RefuseFieldValue)
	}
	sec.h.Add(d.name, d.value)
	sec.hop(sec.h.ID(sec.h.Len()-1), d.value)
}

func space(c byte) bool { return c == ' ' || c == '\t' }

// hop refuses fields that speak of a connection (RFC 9114, section 4.2).
func (sec *section) hop(id exchange.Name, value []byte) {
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

func (sec *section) pseudo(name, value []byte) {
	var p pseudo
	switch string(name) {
	case ":method":
		p = pseudoMethod
	case ":scheme":
		p = pseudoScheme
	case ":authority":
		p = pseudoAuthority
	case ":path":
		p = pseudoPath
	case ":protocol":
		p = pseudoProtocol
	case ":status":
		p = pseudoStatus
	}
	if p&sec.allowed == 0 || p&sec.seen != 0 || sec.regular {
		sec.refuse(exchange.RefusePseudo)
		return
	}
	sec.seen |= p
	sec.set(p, value)
}

func (sec *section) set(p pseudo, value []byte) {
	switch p {
	case pseudoMethod:
		sec.h.SetMethod(value)
	case pseudoScheme:
		sec.h.SetScheme(value)
	case pseudoAuthority:
		sec.h.SetAuthority(value)
	case pseudoPath:
		sec.h.SetTarget(value)
	case pseudoProtocol:
		sec.h.SetProtocol(value)
	case pseudoStatus:
		sec.status(value)
	}
}

func (sec *section) status(value []byte) {
	if len(value) != 3 {
		sec.refuse(exchange.RefuseStatus)
		return
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			sec.refuse(exchange.RefuseStatus)
			return
		}
		sec.h.Status = sec.h.Status*10 + int(c-'0')
	}
}

// readRequest decodes a request's head and gives the verdict on it.
func readRequest(d *decoder, h *exchange.Head, block []byte, lim *exchange.Limits) (*exchange.Refusal, error) {
	h.Reset(nil)
	sec := section{h: h, lim: lim, allowed: requestPseudo}
	if err := d.read(&sec, block); err != nil {
		return nil, err
	}
	sec.complete()
	if sec.cookies > 1 {
		joinCookies(h)
	}
	h.SetVersion("HTTP/3.0")
	// Where the section is refused the rest of the checks still brings what can be
	// read into form, for the log.
	r := exchange.CheckRequest(h, exchange.HTTP3, 0, lim)
	switch {
	case sec.refusal != nil:
		return sec.refusal, nil
	case r == nil && len(h.Authority()) == 0:
		return exchange.RefuseHost, nil
	}
	return r, nil
}

// complete checks that the pseudo-header fields are those of a request (RFC
// 9114, section 4.3.1; RFC 9220, section 3).
func (sec *section) complete() {
	const plain = pseudoMethod | pseudoScheme | pseudoPath
	h := sec.h
	switch {
	case sec.refusal != nil:
	case h.Method == exchange.CONNECT && sec.seen&pseudoProtocol == 0:
		if sec.seen&(pseudoScheme|pseudoPath) != 0 || sec.seen&pseudoAuthority == 0 {
			sec.refuse(exchange.RefusePseudo)
		}
	case sec.seen&plain != plain, sec.seen&pseudoProtocol != 0 && h.Method != exchange.CONNECT, len(h.Target()) == 0:
		sec.refuse(exchange.RefusePseudo)
	case !exchange.EqualFold(h.Scheme(), "http") && !exchange.EqualFold(h.Scheme(), "https"):
		sec.refuse(exchange.RefusePseudo)
	}
}

// joinCookies makes one field of the crumbs that a cookie may be cut into (RFC
// 9114, section 4.2.1).
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

// readResponse decodes an answer's head and gives the verdict on it.
func readResponse(d *decoder, h, req *exchange.Head, block []byte, lim *exchange.Limits) (*exchange.Refusal, error) {
	h.Reset(nil)
	sec := section{h: h, lim: lim, allowed: pseudoStatus}
	if err := d.read(&sec, block); err != nil {
		return nil, err
	}
	h.SetVersion("HTTP/3.0")
	switch {
	case sec.refusal != nil:
		return sec.refusal, nil
	case sec.seen != pseudoStatus:
		return exchange.RefusePseudo, nil
	}
	return exchange.CheckResponse(h, req, exchange.HTTP3, 0, lim), nil
}

// readTrailers decodes a trailer section.
func readTrailers(d *decoder, h *exchange.Head, block []byte, lim *exchange.Limits) (*exchange.Refusal, error) {
	h.Reset(nil)
	sec := section{h: h, lim: lim}
	if err := d.read(&sec, block); err != nil {
		return nil, err
	}
	if sec.refusal != nil {
		return sec.refusal, nil
	}
	return exchange.CheckTrailers(h, lim), nil
}
