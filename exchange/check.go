package exchange

// CheckRequest gives the verdict on a request head that a transport has taken
// apart, and brings it into the form that rules rely on: Host in Authority
// alone, framing in Length and Chunked alone, hop-by-hop fields dropped (RFC
// 9110, section 7.6.1), the wish to upgrade in Protocol. nil means served.
//
// p is the protocol it came by; minor is the minor version of HTTP/1.
func CheckRequest(h *Head, p Protocol, minor int, lim *Limits) *Refusal {
	if !IsToken(h.MethodName()) {
		return RefuseMethod
	}
	if lim.Fields > 0 && len(h.fields) > lim.Fields {
		return RefuseFieldCount
	}
	c := checker{h: h, p: p, length: -1, upgradeAt: -1, connAt: -1, ancient: p == HTTP1 && minor == 0}
	if r := c.eachField(); r != nil {
		return r
	}
	if c.connAt >= 0 {
		c.connection()
	}
	if r := c.host(minor); r != nil {
		return r
	}
	if r := c.target(); r != nil {
		return r
	}
	if r := c.framing(minor); r != nil {
		return r
	}
	if r := c.upgrade(minor); r != nil {
		return r
	}
	if lim.BodyBytes > 0 && h.Length > lim.BodyBytes {
		return RefuseBodySize
	}
	return nil
}

// checker holds what one pass over the fields has found.
type checker struct {
	h          *Head
	p          Protocol
	hosts      int
	length     int64
	encodings  int
	chunked    bool
	connAt     int // first Connection field
	upgradeAt  int // first Upgrade field
	upgrading  bool
	persistent bool
	response   bool
	ancient    bool // HTTP/1.0
}

// eachField checks names and values, and collects the fields that frame or
// belong to one hop.
func (c *checker) eachField() *Refusal {
	h := c.h
	for i := range h.fields {
		f := &h.fields[i]
		if f.id == Unknown && !IsToken(h.bytes(f.name)) {
			return RefuseFieldName
		}
		if !IsFieldValue(h.bytes(f.value)) {
			return RefuseFieldValue
		}
		if f.id != Unknown {
			if r := c.known(i); r != nil {
				return r
			}
		}
	}
	return nil
}

func (c *checker) known(i int) *Refusal {
	h := c.h
	switch h.fields[i].id {
	case Host:
		return c.hostField(i)
	case ContentLength:
		n := ParseLength(h.Value(i))
		if n < 0 || c.length >= 0 && c.length != n {
			return RefuseLength
		}
		c.length = n
		h.Drop(i)
	case TransferEncoding:
		c.encodings++
		c.chunked = EqualFold(h.Value(i), "chunked")
		h.Drop(i)
	case Connection:
		if c.connAt < 0 {
			c.connAt = i
		}
		h.Drop(i)
	case Upgrade:
		if c.upgradeAt < 0 {
			c.upgradeAt = i
		}
		h.Drop(i)
	case TE:
		EachToken(h.Value(i), func(t []byte) bool {
			h.TETrailers = h.TETrailers || EqualFold(t, "trailers")
			return true
		})
		h.Drop(i)
	case Expect:
		if c.response {
			return nil
		}
		if !EqualFold(h.Value(i), "100-continue") {
			return RefuseExpectation
		}
		h.ExpectContinue = !c.ancient // HTTP/1.0 knows no 1xx (RFC 9110, section 10.1.1)
		h.Drop(i)
	case KeepAlive, ProxyConnection, HTTP2Settings, ProxyAuthorization:
		h.Drop(i)
	}
	return nil
}

func (c *checker) hostField(i int) *Refusal {
	if c.response {
		return nil
	}
	h := c.h
	if c.hosts++; c.hosts > 1 {
		return RefuseHost
	}
	v := h.Value(i)
	if !IsAuthority(v) {
		return RefuseHost
	}
	if h.authority.len == 0 {
		h.authorityFromHost(i)
	} else if c.p != HTTP1 && !EqualFold(v, h.Authority()) {
		// On HTTP/1 an absolute target overrules Host (RFC 9112, section 3.2.2).
		return RefuseHost
	}
	h.Drop(i)
	return nil
}

// connection acts on the options of every Connection field: close, keep-alive,
// upgrade, and names of further fields that belong to this hop.
func (c *checker) connection() {
	h := c.h
	for i := c.connAt; i < len(h.fields); i++ {
		if h.fields[i].id != Connection {
			continue
		}
		for list := h.Value(i); len(list) > 0; {
			var option []byte
			option, list = nextItem(list)
			c.option(option)
		}
	}
}

func (c *checker) option(option []byte) {
	h := c.h
	switch {
	case len(option) == 0:
	case EqualFold(option, "close"):
		h.Close = true
	case EqualFold(option, "keep-alive"):
		c.persistent = true
	case EqualFold(option, "upgrade"):
		c.upgrading = true
	default:
		for i := range h.fields {
			if EqualFold(h.Name(i), option) {
				h.Drop(i)
			}
		}
	}
}

func (c *checker) host(minor int) *Refusal {
	h := c.h
	if c.hosts == 0 && c.p == HTTP1 && minor >= 1 {
		return RefuseHost
	}
	if c.p == HTTP1 && minor == 0 && !c.persistent {
		h.Close = true
	}
	if !IsAuthority(h.Authority()) {
		return RefuseHost
	}
	return nil
}

func (c *checker) target() *Refusal {
	h := c.h
	if h.Method == CONNECT {
		if h.protocol.len == 0 {
			return RefuseConnect
		}
		if string(h.Protocol()) != "websocket" {
			return RefuseUpgrade
		}
	}
	t := h.Target()
	if !IsTarget(t) {
		return RefuseTarget
	}
	if t[0] != '/' && (h.Method != OPTIONS || string(t) != "*") {
		return RefuseTarget
	}
	return nil
}

func (c *checker) framing(minor int) *Refusal {
	if c.encodings > 0 {
		if c.encodings > 1 || !c.chunked || c.p != HTTP1 || minor == 0 {
			return RefuseEncoding
		}
		if c.length >= 0 {
			return RefuseLengthAndTE
		}
		c.h.Chunked = true
	}
	c.h.Length = c.length
	return nil
}

// upgrade turns the upgrade that HTTP/1 asks for into Protocol, where it is one
// that we pass on; others are ignored, as a server may (RFC 9110, section 7.8).
func (c *checker) upgrade(minor int) *Refusal {
	h := c.h
	if c.p != HTTP1 || c.response || c.upgradeAt < 0 || !c.upgrading || minor == 0 {
		return nil
	}
	if v := h.Value(c.upgradeAt); !EqualFold(v, "websocket") {
		return nil
	}
	if h.Chunked || h.Length > 0 {
		return RefuseUpgradeBody
	}
	if h.Method != GET {
		return nil
	}
	h.SetProtocol([]byte("websocket"))
	return nil
}

// CheckResponse gives the verdict on the head of an upstream's answer to req and
// brings it into form as CheckRequest does. The refusal's status is meant for
// the log: the client gets 502.
func CheckResponse(h, req *Head, p Protocol, minor int, lim *Limits) *Refusal {
	if h.Status < 100 || h.Status > 999 {
		return RefuseStatus
	}
	if lim.Fields > 0 && len(h.fields) > lim.Fields {
		return RefuseFieldCount
	}
	c := checker{h: h, p: p, length: -1, upgradeAt: -1, connAt: -1, response: true}
	if r := c.eachField(); r != nil {
		return r
	}
	if c.connAt >= 0 {
		c.connection()
	}
	if p == HTTP1 && minor == 0 && !c.persistent {
		h.Close = true
	}
	if h.Status == 101 {
		return c.switching(req)
	}
	return c.framing(minor)
}

func (c *checker) switching(req *Head) *Refusal {
	if c.p != HTTP1 || !c.upgrading || c.upgradeAt < 0 || len(req.Protocol()) == 0 ||
		!EqualFold(c.h.Value(c.upgradeAt), req.Protocol()) {
		return RefuseSwitch
	}
	return nil
}

// RefuseStatus and RefuseSwitch are said of an upstream's answer.
var (
	RefuseStatus = &Refusal{Status: 502, Reason: "bad_status", Text: "the status code is not one", Close: true}
	RefuseSwitch = &Refusal{Status: 502, Reason: "bad_switch", Text: "101 to a request that asked for no such upgrade", Close: true}
)

// CheckTrailers drops what must not come in a trailer section (RFC 9110, section
// 6.5.1) and refuses what is not a field.
func CheckTrailers(h *Head, lim *Limits) *Refusal {
	if lim.Fields > 0 && len(h.fields) > lim.Fields {
		return RefuseFieldCount
	}
	for i := range h.fields {
		f := &h.fields[i]
		name := h.bytes(f.name)
		if !IsToken(name) || !IsFieldValue(h.bytes(f.value)) {
			return RefuseTrailers
		}
		if forbiddenTrailer(f.id) || forbiddenSpelling(name) {
			h.Drop(i)
		}
	}
	return nil
}

// forbiddenSpelling names what has no id of its own: fields of WebSocket's handshake, other
// forwarding fields, and spellings with "_" for "-", which CGI cannot tell apart.
func forbiddenSpelling(name []byte) bool {
	var room [32]byte
	if len(name) > len(room) { // our own names are shorter
		name = name[:len(room)]
	}
	plain, other := room[:copy(room[:], name)], false
	for i, c := range plain {
		if c == '_' {
			plain[i], other = '-', true
		}
	}
	return hasPrefixFold(plain, "sec-websocket-") || hasPrefixFold(plain, "x-forwarded-") || other && forbiddenTrailer(LookupName(plain))
}

func hasPrefixFold(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && EqualFold(b[:len(prefix)], prefix)
}

// forbiddenTrailer names the fields of framing, routing, connections and
// authentication, and those that our own additions stand for.
func forbiddenTrailer(id Name) bool {
	switch id {
	case ContentLength, TransferEncoding, Host, Connection, KeepAlive, ProxyConnection, Upgrade, TE,
		Trailer, Expect, Authorization, ProxyAuthorization, ProxyAuthenticate, Cookie, SetCookie,
		ContentEncoding, ContentType, CacheControl, Forwarded, XForwardedFor, XForwardedHost,
		XForwardedProto, XRealIP, XRequestID, XPQ, XPQGroup, XPeerIdentity, EarlyData, Location:
		return true
	}
	return false
}
