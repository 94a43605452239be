package exchange

import "net/http"

// Method is the id of a request method.
type Method uint8

// The methods that some rule asks for (RFC 9110, section 9; RFC 5789).
const (
	MethodOther Method = iota
	GET
	HEAD
	POST
	PUT
	PATCH
	DELETE
	OPTIONS
	CONNECT
	TRACE
)

// LookupMethod finds the id of a method; methods are case-sensitive.
func LookupMethod(b []byte) Method {
	switch string(b) {
	case "GET":
		return GET
	case "HEAD":
		return HEAD
	case "POST":
		return POST
	case "PUT":
		return PUT
	case "PATCH":
		return PATCH
	case "DELETE":
		return DELETE
	case "OPTIONS":
		return OPTIONS
	case "CONNECT":
		return CONNECT
	case "TRACE":
		return TRACE
	}
	return MethodOther
}

// Safe tells whether the method asks for no change (RFC 9110, section 9.2.1).
func (m Method) Safe() bool { return m == GET || m == HEAD || m == OPTIONS || m == TRACE }

// Idempotent tells whether a request may be sent again when it is unknown
// whether the first one was received (RFC 9110, section 9.2.2).
func (m Method) Idempotent() bool { return m.Safe() || m == PUT || m == DELETE }

// MethodName is the method's token.
func (h *Head) MethodName() []byte { return h.bytes(h.method) }

// Target is the path with its query, "*" or, on CONNECT, empty.
func (h *Head) Target() []byte { return h.bytes(h.target) }

// Path is the target without its query.
func (h *Head) Path() []byte {
	t := h.bytes(h.target)
	for i, c := range t {
		if c == '?' {
			return t[:i]
		}
	}
	return t
}

// Authority is the host the request asks for, with its port where it has one:
// HTTP/2's :authority or HTTP/1's Host, empty when it names none.
func (h *Head) Authority() []byte { return h.bytes(h.authority) }

// Scheme is HTTP/2's :scheme, empty on HTTP/1.
func (h *Head) Scheme() []byte { return h.bytes(h.scheme) }

// Protocol is the protocol that a request wants to change to, in small letters:
// HTTP/1's Upgrade or the :protocol of extended CONNECT (RFC 8441), empty for none.
func (h *Head) Protocol() []byte { return h.bytes(h.protocol) }

// Version is the version token of the message, as "HTTP/1.1".
func (h *Head) Version() []byte { return h.bytes(h.version) }

// Reason is the reason phrase of an HTTP/1 or ZAP answer; often empty.
func (h *Head) Reason() []byte { return h.bytes(h.reason) }

// SetMethodWire sets the method from offsets of the wire buffer.
func (h *Head) SetMethodWire(off, end int) {
	h.method = wireSpan(off, end)
	h.Method = LookupMethod(h.wire[off:end])
}

// SetTargetWire sets the target from offsets of the wire buffer.
func (h *Head) SetTargetWire(off, end int) { h.target = wireSpan(off, end) }

// SetAuthorityWire sets the authority from offsets of the wire buffer.
func (h *Head) SetAuthorityWire(off, end int) { h.authority = wireSpan(off, end) }

// SetVersionWire sets the version from offsets of the wire buffer.
func (h *Head) SetVersionWire(off, end int) { h.version = wireSpan(off, end) }

// SetReasonWire sets the reason phrase from offsets of the wire buffer.
func (h *Head) SetReasonWire(off, end int) { h.reason = wireSpan(off, end) }

// SetMethod copies the method in.
func (h *Head) SetMethod(b []byte) { h.method, h.Method = store(h, b), LookupMethod(b) }

// SetTarget copies the target in.
func (h *Head) SetTarget(b []byte) { h.target = store(h, b) }

// SetAuthority copies the authority in.
func (h *Head) SetAuthority(b []byte) { h.authority = store(h, b) }

// SetScheme copies the scheme in.
func (h *Head) SetScheme(b []byte) { h.scheme = store(h, b) }

// SetProtocol copies the wanted protocol in, as small letters.
func (h *Head) SetProtocol(b []byte) {
	h.protocol = store(h, b)
	p := h.bytes(h.protocol)
	for i := range p {
		p[i] = lower[p[i]]
	}
}

// SetVersion copies the version token in.
func (h *Head) SetVersion(s string) { h.version = store(h, s) }

// SetReason copies the reason phrase in.
func (h *Head) SetReason(s string) { h.reason = store(h, s) }

// authorityFromHost lets the authority be the value of field i.
func (h *Head) authorityFromHost(i int) { h.authority = h.fields[i].value }

// ReasonPhrase is the usual reason phrase of a status code, "" where there is
// none (RFC 9110, section 15).
func ReasonPhrase(status int) string { return http.StatusText(status) }
