package gateway

import (
	"unsafe"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/telemetry"
)

// identify gives the exchange its id and its client's address: what a trusted
// peer says of them, else what we know.
func (f *flow) identify() {
	h := &f.x.Request
	f.client = f.x.Conn.ClientText
	if f.x.Conn.Trusted {
		if last := lastValue(h, exchange.XForwardedFor); len(last) > 0 {
			f.client = unsafe.String(&last[0], len(last)) // lives as long as the request
		}
		if id := h.Get(exchange.XRequestID); telemetry.ValidRequestID(id) {
			f.id = append(f.id[:0], id...)
			f.idKept = true
			return
		}
	}
	f.id = telemetry.AppendRequestID(f.id[:0])
}

// forwardFields sets the fields that upstreams go by. What an untrusted client
// sent under these names is dropped; a trusted peer's is believed, and what we
// know is added to it.
func (f *flow) forwardFields() {
	h, conn := &f.x.Request, f.x.Conn
	if conn.Trusted {
		f.extendForwarding(h, conn)
	} else {
		f.replaceForwarding(h, conn)
	}
	if !f.idKept {
		h.Set(exchange.XRequestID, f.id)
	}
	pq := "0"
	if conn.Secure && conn.Facts.PQ() {
		pq = "1"
	}
	h.SetString(exchange.XPQ, pq)
	h.SetString(exchange.XPQGroup, conn.Facts.GroupName())
	h.Remove(exchange.XPeerIdentity)
	if conn.Facts.PeerName != "" {
		h.AddKnownString(exchange.XPeerIdentity, conn.Facts.PeerName)
	}
	// A gateway before this one may have taken the request as early data: its word stays, and
	// whatever its value is, it means 1 (RFC 8470, section 5.1).
	if conn.Facts.EarlyData || h.Has(exchange.EarlyData) {
		h.SetString(exchange.EarlyData, "1")
	}
	dropLookalikes(h, conn.Trusted)
}

func scheme(conn *exchange.Conn) string {
	if conn.Secure {
		return "https"
	}
	return "http"
}

func (f *flow) replaceForwarding(h *exchange.Head, conn *exchange.Conn) {
	h.SetString(exchange.XForwardedFor, conn.ClientText)
	h.SetString(exchange.XForwardedProto, scheme(conn))
	h.Set(exchange.XForwardedHost, f.authority)
	h.SetString(exchange.XRealIP, conn.ClientText)
	h.Remove(exchange.Forwarded)
}

// extendForwarding appends the peer to the lists that it sent, and keeps the
// rest as it is.
func (f *flow) extendForwarding(h *exchange.Head, conn *exchange.Conn) {
	list := f.join(h, exchange.XForwardedFor)
	if len(list) > 0 {
		list = append(list, ", "...)
	}
	list = append(list, conn.ClientText...)
	h.Set(exchange.XForwardedFor, list)
	f.scratch = list
	if !h.Has(exchange.XForwardedProto) {
		h.AddKnownString(exchange.XForwardedProto, scheme(conn))
	}
	if !h.Has(exchange.XForwardedHost) {
		h.AddKnown(exchange.XForwardedHost, f.authority)
	}
	if !h.Has(exchange.XRealIP) {
		h.AddKnownString(exchange.XRealIP, f.client)
	}
	if h.Has(exchange.Forwarded) {
		list = append(f.join(h, exchange.Forwarded), ", for="...)
		list = appendNode(list, conn)
		list = append(list, ";proto="...)
		list = append(list, scheme(conn)...)
		h.Set(exchange.Forwarded, list)
		f.scratch = list
	}
}

// appendNode writes an address as RFC 7239, section 6, has it.
func appendNode(b []byte, conn *exchange.Conn) []byte {
	switch addr := conn.Client.Addr(); {
	case !addr.IsValid():
		return append(b, "unknown"...)
	case addr.Is6() && !addr.Is4In6():
		b = append(b, `"[`...)
		b = append(b, conn.ClientText...)
		return append(b, `]"`...)
	}
	return append(b, conn.ClientText...)
}

// join makes one list of all fields of a name, in the flow's scratch memory.
func (f *flow) join(h *exchange.Head, id exchange.Name) []byte {
	list := f.scratch[:0]
	for i := h.Next(id, 0); i >= 0; i = h.Next(id, i+1) {
		if v := exchange.TrimSpace(h.Value(i)); len(v) > 0 {
			if len(list) > 0 {
				list = append(list, ", "...)
			}
			list = append(list, v...)
		}
	}
	return list
}

// lastValue is the last element of a list that may be spread over fields.
func lastValue(h *exchange.Head, id exchange.Name) (last []byte) {
	for i := h.Next(id, 0); i >= 0; i = h.Next(id, i+1) {
		if v := lastItem(h.Value(i)); len(v) > 0 {
			last = v
		}
	}
	return last
}

func lastItem(list []byte) []byte {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == ',' {
			return exchange.TrimSpace(list[i+1:])
		}
	}
	return exchange.TrimSpace(list)
}

// dropLookalikes drops fields that some upstreams read as ours: those that
// differ in "_" for "-" (CGI cannot tell them apart), and other X-Forwarded-* of
// an untrusted client.
func dropLookalikes(h *exchange.Head, trusted bool) {
	for i := range h.Len() {
		if h.ID(i) != exchange.Unknown || h.Dropped(i) {
			continue
		}
		name := h.Name(i)
		if len(name) < len("x-pq") {
			continue
		}
		switch name[0] {
		case 'x', 'X', 'e', 'E':
		default:
			continue
		}
		if lookalike(name, trusted) {
			h.Drop(i)
		}
	}
}

const forwardedPrefix = "x-forwarded-"

func lookalike(name []byte, trusted bool) bool {
	if len(name) >= len(forwardedPrefix) {
		plain := exchange.EqualFold(name[:len(forwardedPrefix)], forwardedPrefix)
		if plain && !trusted || !plain && foldEqual(name[:len(forwardedPrefix)], forwardedPrefix) {
			return true
		}
	}
	return foldEqual(name, "x-pq") || foldEqual(name, "x-pq-group") || foldEqual(name, "x-peer-identity") ||
		foldEqual(name, "x-real-ip") || foldEqual(name, "x-request-id") || foldEqual(name, "early-data")
}

// foldEqual compares without case, and "_" as "-".
func foldEqual(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c = exchange.Lower(c); c == '_' {
			c = '-'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
