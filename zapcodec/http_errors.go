package zapcodec

import (
	"encoding/binary"
	"strconv"
)

// Names of the cells, for errors.
const (
	headersField  = "headers"
	trailersField = "trailers"
)

// quote shows bytes of a stranger on one line and not at length.
func quote(b []byte) string {
	const most = 40
	if len(b) > most {
		return strconv.QuoteToASCII(string(b[:most])) + "…"
	}
	return strconv.QuoteToASCII(string(b))
}

// lengthsError says which of the lengths of the pair at at is wrong, when left
// pairs should still lie in the block.
func (b *block) lengthsError(frame []byte, at uint64, left uint32, c *pairCheck) error {
	if at+4 > uint64(b.end) {
		return fail(errBlock, int(at), c.field, "the block ends with "+strconv.FormatUint(uint64(left), 10)+
			" of "+strconv.FormatUint(uint64(b.count), 10)+" pairs missing")
	}
	what, text := "name", at+4
	n := uint64(binary.LittleEndian.Uint32(frame[at:text]))
	if value := text + n + 4; value <= uint64(b.end) {
		what, text, n = "value", value, uint64(binary.LittleEndian.Uint32(frame[value-4:value]))
	}
	return fail(errBlock, int(text), c.field, "a "+what+" of "+strconv.FormatUint(n, 10)+" bytes reaches beyond the block's end at "+
		strconv.Itoa(int(b.end)))
}

func nameError(at int, field string, name []byte) error {
	if len(name) == 0 {
		return fail(errName, at, field, "a field's name is empty")
	}
	return fail(errName, at, field, "field name "+quote(name)+" is not a token")
}

// valueError names the field and keeps its value to itself: values may be
// secrets.
func valueError(at int, field string, name []byte) error {
	return fail(errValue, at, field, "the value of "+quote(name)+" holds CR, LF or NUL")
}

func transferEncodingError(at int, field string) error {
	return fail(errTE, at, field, "Transfer-Encoding has no meaning here and would split the message once written as HTTP/1.1")
}

func hostError(at int, field string) error {
	if field == trailersField {
		return fail(errHost, at, field, "Host among the trailers")
	}
	return fail(errHost, at, field, "more than one Host")
}

func methodError(at int, method []byte) error {
	return fail(errMethod, at, "method", quote(method)+" is not a token")
}

func targetErrorHTTP(at int, target []byte) error {
	if len(target) == 0 {
		return fail(errTarget, at, "target", "empty")
	}
	return fail(errTarget, at, "target", "holds a space or a control byte")
}

func protoError(at int, proto []byte) error {
	return fail(errProto, at, "proto", quote(proto)+" is not a version token")
}

func reasonError(at int) error {
	return fail(errReason, at, "reason", "holds a control byte")
}

func statusError(at, status int) error {
	return fail(errStatus, at, "status", strconv.Itoa(status)+" is not in 100..999")
}

func typeError(got byte, want string) error {
	return fail(errType, 6, "type", strconv.Itoa(int(got))+" where "+want+" is due")
}

func bodyError(at int) error {
	return fail(errBody, at, "body", "a head whose body follows in data frames carries a body itself")
}
