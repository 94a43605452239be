package http3

import "github.com/hanzoai/pqgw/exchange"

// tableField is an entry of the static table (RFC 9204, appendix A).
type tableField struct{ name, value []byte }

const staticEntries = 99

var staticTable = func() (t [staticEntries]tableField) {
	for i, f := range [staticEntries][2]string{
		{":authority", ""},
		{":path", "/"},
		{"age", "0"},
		{"content-disposition", ""},
		{"content-length", "0"},
		{"cookie", ""},
		{"date", ""},
		{"etag", ""},
		{"if-modified-since", ""},
		{"if-none-match", ""},
		{"last-modified", ""},
		{"link", ""},
		{"location", ""},
		{"referer", ""},
		{"set-cookie", ""},
		{":method", "CONNECT"},
		{":method", "DELETE"},
		{":method", "GET"},
		{":method", "HEAD"},
		{":method", "OPTIONS"},
		{":method", "POST"},
		{":method", "PUT"},
		{":scheme", "http"},
		{":scheme", "https"},
		{":status", "103"},
		{":status", "200"},
		{":status", "304"},
		{":status", "404"},
		{":status", "503"},
		{"accept", "*/*"},
		{"accept", "application/dns-message"},
		{"accept-encoding", "gzip, deflate, br"},
		{"accept-ranges", "bytes"},
		{"access-control-allow-headers", "cache-control"},
		{"access-control-allow-headers", "content-type"},
		{"access-control-allow-origin", "*"},
		{"cache-control", "max-age=0"},
		{"cache-control", "max-age=2592000"},
		{"cache-control", "max-age=604800"},
		{"cache-control", "no-cache"},
		{"cache-control", "no-store"},
		{"cache-control", "public, max-age=31536000"},
		{"content-encoding", "br"},
		{"content-encoding", "gzip"},
		{"content-type", "application/dns-message"},
		{"content-type", "application/javascript"},
		{"content-type", "application/json"},
		{"content-type", "application/x-www-form-urlencoded"},
		{"content-type", "image/gif"},
		{"content-type", "image/jpeg"},
		{"content-type", "image/png"},
		{"content-type", "text/css"},
		{"content-type", "text/html; charset=utf-8"},
		{"content-type", "text/plain"},
		{"content-type", "text/plain;charset=utf-8"},
		{"range", "bytes=0-"},
		{"strict-transport-security", "max-age=31536000"},
		{"strict-transport-security", "max-age=31536000; includesubdomains"},
		{"strict-transport-security", "max-age=31536000; includesubdomains; preload"},
		{"vary", "accept-encoding"},
		{"vary", "origin"},
		{"x-content-type-options", "nosniff"},
		{"x-xss-protection", "1; mode=block"},
		{":status", "100"},
		{":status", "204"},
		{":status", "206"},
		{":status", "302"},
		{":status", "400"},
		{":status", "403"},
		{":status", "421"},
		{":status", "425"},
		{":status", "500"},
		{"accept-language", ""},
		{"access-control-allow-credentials", "FALSE"},
		{"access-control-allow-credentials", "TRUE"},
		{"access-control-allow-headers", "*"},
		{"access-control-allow-methods", "get"},
		{"access-control-allow-methods", "get, post, options"},
		{"access-control-allow-methods", "options"},
		{"access-control-expose-headers", "content-length"},
		{"access-control-request-headers", "content-type"},
		{"access-control-request-method", "get"},
		{"access-control-request-method", "post"},
		{"alt-svc", "clear"},
		{"authorization", ""},
		{"content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"},
		{"early-data", "1"},
		{"expect-ct", ""},
		{"forwarded", ""},
		{"if-range", ""},
		{"origin", ""},
		{"purpose", "prefetch"},
		{"server", ""},
		{"timing-allow-origin", "*"},
		{"upgrade-insecure-requests", "1"},
		{"user-agent", ""},
		{"x-forwarded-for", ""},
		{"x-frame-options", "deny"},
		{"x-frame-options", "sameorigin"},
	} {
		t[i] = tableField{[]byte(f[0]), []byte(f[1])}
	}
	return t
}()

// Indices of the static table that the encoder uses by name.
const (
	staticAuthority     = 0
	staticPath          = 1
	staticContentLength = 4
	staticMethod        = 15
	staticScheme        = 22
	staticStatus        = 24
)

// staticByName gives the static index of a name that the exchange does not
// know, plus one; 0 stands for none.
var staticByName = func() map[string]uint8 {
	m := make(map[string]uint8)
	for i := len(staticTable) - 1; i >= 0; i-- {
		if name := staticTable[i].name; name[0] != ':' {
			m[string(name)] = uint8(i + 1)
		}
	}
	return m
}()

// staticByID gives the static index of a known name, plus one; 0 for none.
var staticByID = func() (t [256]uint8) {
	for name, i := range staticByName {
		if id := exchange.LookupName([]byte(name)); id != exchange.Unknown {
			t[id] = i
		}
	}
	return t
}()

// staticStatuses gives the index of the whole field ":status: n", plus one; 0 for none.
var staticStatuses = func() (t [600]uint8) {
	for i, f := range staticTable {
		if string(f.name) == ":status" {
			n := int(f.value[0]-'0')*100 + int(f.value[1]-'0')*10 + int(f.value[2]-'0')
			t[n] = uint8(i + 1)
		}
	}
	return t
}()

// staticMethods gives the index of the whole field ":method: m", plus one; 0 for none.
var staticMethods = func() (t [16]uint8) {
	for i, f := range staticTable {
		if string(f.name) == ":method" {
			t[exchange.LookupMethod(f.value)] = uint8(i + 1)
		}
	}
	return t
}()
