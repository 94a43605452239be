package zapcodec

import "strconv"

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

func (b *block) countError(at uint64, left uint32, c *pairCheck) error {
	return fail(errBlock, int(at), c.field, "the block ends with "+strconv.FormatUint(uint64(left), 10)+
		" of "+strconv.FormatUint(uint64(b.count), 10)+" pairs missing")
}

func (b *block) lengthError(at, n uint64, what string, c *pairCheck) error {
	return fail(errBlock, int(at), c.field, "a "+what+" of "+strconv.FormatUint(n, 10)+" bytes reaches beyond the block's end at "+
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
