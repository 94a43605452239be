package exchange

// Name is the id of a field name that the gateway knows; Unknown (0) is every
// other name.
type Name uint8

// Known field names. Add a name here only when some rule looks it up.
const (
	Unknown Name = iota
	Accept
	AcceptEncoding
	AltSvc
	Authorization
	CacheControl
	Connection
	ContentEncoding
	ContentLength
	ContentType
	Cookie
	Date
	EarlyData
	Expect
	Forwarded
	Host
	HTTP2Settings
	KeepAlive
	Location
	Origin
	ProxyAuthenticate
	ProxyAuthorization
	ProxyConnection
	Referer
	SecWebSocketAccept
	SecWebSocketKey
	SecWebSocketProtocol
	SecWebSocketVersion
	Server
	SetCookie
	TE
	Traceparent
	Tracestate
	Trailer
	TransferEncoding
	Upgrade
	UserAgent
	XForwardedFor
	XForwardedHost
	XForwardedProto
	XPeerIdentity
	XPQ
	XPQGroup
	XRealIP
	XRequestID
	numNames
)

// KnownNames is the number of ids, Unknown included.
const KnownNames = int(numNames)

// canonical holds the usual HTTP/1 spelling of each known name.
var canonical = [numNames]string{
	Accept: "Accept", AcceptEncoding: "Accept-Encoding", AltSvc: "Alt-Svc",
	Authorization: "Authorization", CacheControl: "Cache-Control", Connection: "Connection",
	ContentEncoding: "Content-Encoding", ContentLength: "Content-Length", ContentType: "Content-Type",
	Cookie: "Cookie", Date: "Date", EarlyData: "Early-Data", Expect: "Expect", Forwarded: "Forwarded",
	Host: "Host", HTTP2Settings: "HTTP2-Settings", KeepAlive: "Keep-Alive", Location: "Location",
	Origin: "Origin", ProxyAuthenticate: "Proxy-Authenticate", ProxyAuthorization: "Proxy-Authorization",
	ProxyConnection: "Proxy-Connection", Referer: "Referer",
	SecWebSocketAccept: "Sec-WebSocket-Accept", SecWebSocketKey: "Sec-WebSocket-Key",
	SecWebSocketProtocol: "Sec-WebSocket-Protocol", SecWebSocketVersion: "Sec-WebSocket-Version",
	Server: "Server", SetCookie: "Set-Cookie", TE: "TE", Traceparent: "Traceparent",
	Tracestate: "Tracestate", Trailer: "Trailer", TransferEncoding: "Transfer-Encoding",
	Upgrade: "Upgrade", UserAgent: "User-Agent", XForwardedFor: "X-Forwarded-For",
	XForwardedHost: "X-Forwarded-Host", XForwardedProto: "X-Forwarded-Proto",
	XPeerIdentity: "X-Peer-Identity", XPQ: "X-PQ", XPQGroup: "X-PQ-Group", XRealIP: "X-Real-Ip",
	XRequestID: "X-Request-Id",
}

// lowered holds the names as HTTP/2 and HTTP/3 write them.
var lowered = func() (l [numNames]string) {
	for i, s := range canonical {
		b := []byte(s)
		for j := range b {
			b[j] = lower[b[j]]
		}
		l[i] = string(b)
	}
	return l
}()

// String is the usual HTTP/1 spelling, "" for Unknown.
func (n Name) String() string { return canonical[n] }

// Lower is the spelling of HTTP/2 and HTTP/3, "" for Unknown.
func (n Name) Lower() string { return lowered[n] }

const nameSlots = 512

// nameTable is an open hash of the known names: slot → id, 0 where empty.
var nameTable = func() (t [nameSlots]Name) {
	for n := Name(1); n < numNames; n++ {
		i := nameHash([]byte(canonical[n]))
		for t[i] != 0 {
			i = (i + 1) % nameSlots
		}
		t[i] = n
	}
	return t
}()

func nameHash(b []byte) int {
	first, mid, last := lower[b[0]], lower[b[len(b)/2]], lower[b[len(b)-1]]
	return (len(b)*131 + int(first)*17 + int(mid)*7 + int(last)*29) % nameSlots
}

// LookupName finds the id of a field name, in any case; Unknown when it is none
// of ours.
func LookupName(b []byte) Name {
	if len(b) == 0 {
		return Unknown
	}
	for i := nameHash(b); nameTable[i] != 0; i = (i + 1) % nameSlots {
		if n := nameTable[i]; EqualFold(b, canonical[n]) {
			return n
		}
	}
	return Unknown
}

// lower maps A–Z to a–z and leaves every other byte.
var lower = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if 'A' <= i && i <= 'Z' {
			t[i] = byte(i + 'a' - 'A')
		}
	}
	return t
}()

// Lower maps an ASCII capital to its small letter and leaves other bytes.
func Lower(b byte) byte { return lower[b] }

// EqualFold compares in ASCII without case.
func EqualFold[T []byte | string](b []byte, s T) bool {
	if len(b) != len(s) {
		return false
	}
	for i := range len(b) {
		if b[i] != s[i] && lower[b[i]] != lower[s[i]] {
			return false
		}
	}
	return true
}
