package telemetry

import (
	"encoding/binary"
	"math/rand/v2"
)

// TraceparentLen is the length of a traceparent field of version 00.
const TraceparentLen = 55

// Flags of a traceparent (W3C Trace Context Level 2, section 3.2.2.5); the
// others are not defined and are not passed on.
const (
	flagSampled = 0x01
	flagRandom  = 0x02
)

// TraceContext is a request's place in a distributed trace, as the field
// traceparent carries it (W3C Trace Context). The zero value is no trace.
type TraceContext struct {
	TraceID [16]byte
	// SpanID is that of the sender's span: "parent-id".
	SpanID [8]byte
	Flags  byte
}

// Sampled says whether the sender records this trace.
func (t TraceContext) Sampled() bool { return t.Flags&flagSampled != 0 }

// Valid says whether both ids are set (sections 3.2.2.3 and 3.2.2.4).
func (t TraceContext) Valid() bool { return t.TraceID != [16]byte{} && t.SpanID != [8]byte{} }

// ParseTraceparent reads a traceparent field. It refuses what section 3.2.2
// does: version ff, other than lower-case hexadecimal, ids of zeroes, a length
// that the version does not have; of a later version it reads what 00 has.
func ParseTraceparent(v []byte) (TraceContext, bool) {
	var t TraceContext
	var version, flags [1]byte
	if len(v) < TraceparentLen || v[2] != '-' || v[35] != '-' || v[52] != '-' {
		return TraceContext{}, false
	}
	ok := decodeHex(version[:], v[:2]) && decodeHex(t.TraceID[:], v[3:35]) &&
		decodeHex(t.SpanID[:], v[36:52]) && decodeHex(flags[:], v[53:55])
	if !ok || version[0] == 0xff || !t.Valid() {
		return TraceContext{}, false
	}
	if len(v) > TraceparentLen && (version[0] == 0 || v[TraceparentLen] != '-') {
		return TraceContext{}, false
	}
	t.Flags = flags[0] & (flagSampled | flagRandom)
	return t, true
}

// NewTrace begins a trace whose ids are random; it is not sampled.
func NewTrace() TraceContext {
	t := TraceContext{Flags: flagRandom}
	for t.TraceID == [16]byte{} {
		binary.BigEndian.PutUint64(t.TraceID[:8], rand.Uint64())
		binary.BigEndian.PutUint64(t.TraceID[8:], rand.Uint64())
	}
	return t.Child()
}

// Child is the context to send on: the same trace, a new span of ours.
func (t TraceContext) Child() TraceContext {
	var id uint64
	for id == 0 {
		id = rand.Uint64()
	}
	binary.BigEndian.PutUint64(t.SpanID[:], id)
	return t
}

// AppendTraceparent appends t as a field of version 00.
func (t TraceContext) AppendTraceparent(b []byte) []byte {
	b = append(b, '0', '0', '-')
	b = t.AppendTraceID(b)
	b = append(b, '-')
	b = appendHex64(b, binary.BigEndian.Uint64(t.SpanID[:]))
	return append(b, '-', hexDigits[t.Flags>>4], hexDigits[t.Flags&0xf])
}

// AppendTraceID appends the trace's id in hexadecimal, as logs show it.
func (t TraceContext) AppendTraceID(b []byte) []byte {
	b = appendHex64(b, binary.BigEndian.Uint64(t.TraceID[:8]))
	return appendHex64(b, binary.BigEndian.Uint64(t.TraceID[8:]))
}

// decodeHex decodes lower-case hexadecimal, the only one that is allowed.
func decodeHex(dst, src []byte) bool {
	for i := range dst {
		hi, lo := hexValue(src[2*i]), hexValue(src[2*i+1])
		if hi|lo > 0xf {
			return false
		}
		dst[i] = hi<<4 | lo
	}
	return true
}

func hexValue(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}
