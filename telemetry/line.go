package telemetry

import (
	"bytes"
	"crypto/tls"
	"strconv"
	"time"

	"github.com/hanzoai/pqgw/handshake"
)

// Limits of the lists on a refused handshake's line; a hello may carry
// thousands of entries.
const (
	maxALPN   = 16
	maxGroups = 32
)

// stamp caches the formatted second of the last line: most lines share it.
type stamp struct {
	second int64
	valid  bool
	text   [len("2006-01-02T15:04:05")]byte
}

// append appends t as an RFC 3339 time in UTC with milliseconds.
func (s *stamp) append(b []byte, t time.Time) []byte {
	if sec := t.Unix(); sec != s.second || !s.valid {
		u := t.UTC()
		if y := u.Year(); y < 0 || y > 9999 { // RFC 3339 has four digits
			u = time.Unix(0, 0).UTC()
		}
		u.AppendFormat(s.text[:0], "2006-01-02T15:04:05")
		s.second, s.valid = sec, true
	}
	ms := t.Nanosecond() / 1e6
	b = append(b, s.text[:]...)
	return append(b, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// appendMillis appends d in milliseconds with three decimals; a negative
// duration (a clock set back) is 0.
func appendMillis(b []byte, d time.Duration) []byte {
	us := max(d.Microseconds(), 0)
	b = strconv.AppendInt(b, us/1000, 10)
	f := us % 1000
	return append(b, '.', byte('0'+f/100), byte('0'+f/10%10), byte('0'+f%10))
}

// appendKey appends a string field; key holds the comma, name and colon.
func appendKey[T string | []byte](b []byte, key string, v T) []byte {
	b = append(b, key...)
	return appendString(b, v)
}

// appendSet is appendKey for a field that is shown when set.
func appendSet(b []byte, key, v string) []byte {
	if v == "" {
		return b
	}
	return appendKey(b, key, v)
}

func appendBool(b []byte, key string, v bool) []byte {
	b = append(b, key...)
	return strconv.AppendBool(b, v)
}

func appendInt(b []byte, key string, v int64) []byte {
	b = append(b, key...)
	return strconv.AppendInt(b, v, 10)
}

// appendRecord appends the line of r, newline included.
func appendRecord(b []byte, s *stamp, r *Record) []byte {
	b = append(b, `{"time":"`...)
	b = s.append(b, r.Time)
	b = appendKey(b, `","request_id":`, r.RequestID)
	b = appendKey(b, `,"listener":`, r.Listener)
	b = appendKey(b, `,"protocol":`, r.Protocol)
	b = appendKey(b, `,"client":`, r.Client)
	if r.Remote != r.Client {
		b = appendSet(b, `,"remote":`, r.Remote)
	}
	b = appendKey(b, `,"method":`, r.Method)
	b = appendKey(b, `,"host":`, r.Host)
	b = appendKey(b, `,"path":`, withoutQuery(r.Path))
	b = appendSet(b, `,"route":`, r.Route)
	b = appendInt(b, `,"status":`, int64(r.Status))
	b = appendInt(b, `,"bytes_in":`, r.BytesIn)
	b = appendInt(b, `,"bytes_out":`, r.BytesOut)
	b = append(b, `,"duration_ms":`...)
	b = appendMillis(b, r.Duration)
	b = appendKey(b, `,"upstream":`, r.Upstream)
	b = appendSet(b, `,"endpoint":`, r.Endpoint)
	b = append(b, `,"upstream_ms":`...)
	b = appendMillis(b, r.UpstreamDuration)
	b = appendTLS(b, &r.TLS)
	b = appendKey(b, `,"upstream_tls_group":`, groupName(r.UpstreamTLSGroup != 0, r.UpstreamTLSGroup))
	b = appendSet(b, `,"peer":`, r.Peer)
	if r.PQIdentity {
		b = append(b, `,"pq_identity":true`...)
	}
	b = appendKey(b, `,"error":`, r.Error)
	return append(b, '}', '\n')
}

func appendTLS(b []byte, f *handshake.Facts) []byte {
	b = appendKey(b, `,"tls_version":`, f.VersionName())
	b = appendKey(b, `,"tls_group":`, groupName(f.TLS(), f.Group))
	b = appendBool(b, `,"tls_pq":`, f.PQ())
	b = appendBool(b, `,"tls_hrr":`, f.HRR)
	b = appendBool(b, `,"tls_resumed":`, f.Resumed)
	b = appendKey(b, `,"tls_sni":`, f.SNI)
	return appendKey(b, `,"tls_alpn":`, f.ALPN)
}

// groupName is the name of a connection's group, empty in the clear.
func groupName(overTLS bool, g tls.CurveID) string {
	if !overTLS {
		return ""
	}
	return handshake.GroupName(g)
}

// withoutQuery cuts a request target at its query or fragment: either may
// hold keys and tokens.
func withoutQuery(path []byte) []byte {
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		path = path[:i]
	}
	if i := bytes.IndexByte(path, '#'); i >= 0 {
		path = path[:i]
	}
	return path
}

// appendHandshake appends the line of a refused handshake, newline included.
func appendHandshake(b []byte, s *stamp, r *HandshakeRecord, suppressed uint64) []byte {
	b = append(b, `{"time":"`...)
	b = s.append(b, r.Time)
	b = append(b, `","event":"handshake_refused"`...)
	b = appendKey(b, `,"listener":`, r.Listener)
	b = appendKey(b, `,"client":`, r.Client)
	b = appendKey(b, `,"error":`, string(r.Reason))
	b = appendSet(b, `,"detail":`, r.Detail)
	b = appendKey(b, `,"tls_sni":`, r.SNI)
	b = append(b, `,"alpn_offered":[`...)
	for i, p := range r.ALPN[:min(len(r.ALPN), maxALPN)] {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, p)
	}
	b = append(b, `],"groups_offered":[`...)
	for i, g := range r.Groups[:min(len(r.Groups), maxGroups)] {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendGroup(b, g)
	}
	return appendSuppressed(append(b, ']'), suppressed)
}

// appendBroken appends the line of a broken connection, newline included.
func appendBroken(b []byte, s *stamp, r *BrokenRecord, suppressed uint64) []byte {
	b = append(b, `{"time":"`...)
	b = s.append(b, r.Time)
	b = append(b, `","event":"connection_broken"`...)
	b = appendKey(b, `,"listener":`, r.Listener)
	b = appendKey(b, `,"client":`, r.Client)
	b = appendKey(b, `,"protocol":`, r.Protocol)
	b = appendKey(b, `,"error":`, r.Reason)
	b = appendKey(b, `,"detail":`, r.Detail)
	return appendSuppressed(b, suppressed)
}

// appendSuppressed ends a line with how many were left out before it.
func appendSuppressed(b []byte, n uint64) []byte {
	if n > 0 {
		b = append(b, `,"suppressed":`...)
		b = strconv.AppendUint(b, n, 10)
	}
	return append(b, '}', '\n')
}

// appendGroup appends the name of g as a JSON string, or its number where it
// has none.
func appendGroup(b []byte, g tls.CurveID) []byte {
	if groupIndex(g) != groupOther {
		return appendString(b, handshake.GroupName(g))
	}
	return append(b, '"', '0', 'x', hexDigits[g>>12], hexDigits[g>>8&0xf], hexDigits[g>>4&0xf], hexDigits[g&0xf], '"')
}
