package zapcodec

import (
	"encoding/binary"
	"math"
)

// DefaultProto is the version token of a message that came from no HTTP
// version.
const DefaultProto = "ZAP-HTTP/1.0"

var defaultProto = []byte(DefaultProto)

// Offsets in the fixed section of a request.
const (
	requestMethod = 0
	requestTarget = 8
	requestProto  = 16
)

// Offsets in the fixed section of a response.
const (
	responseStatus = 0
	responseReason = 8
	responseProto  = 16
)

// What requests and responses have in common.
const (
	httpHeaders  = 24
	httpBody     = 32
	httpTrailers = 40
	httpFixed    = 48
)

// httpView is what the views of requests and responses share.
type httpView struct {
	frame    []byte
	proto    Span
	body     Span
	streamed bool
	extended bool
	headers  block
	trailers block
}

// Frame returns the frame that the view aliases; spans count from its start.
func (v *httpView) Frame() []byte { return v.frame }

// Proto returns the version token, DefaultProto where there is none. It must
// not be written to.
func (v *httpView) Proto() []byte {
	if v.proto.Len == 0 {
		return defaultProto
	}
	return v.proto.Of(v.frame)
}

// ProtoSpan returns where the version token lies; of length 0 where there is
// none.
func (v *httpView) ProtoSpan() Span { return v.proto }

// Headers walks the header fields.
func (v *httpView) Headers() Pairs { return v.headers.pairs(v.frame) }

// Body returns the body; empty when Streamed.
func (v *httpView) Body() []byte { return v.body.Of(v.frame) }

// BodySpan returns where the body lies.
func (v *httpView) BodySpan() Span { return v.body }

// Trailers walks the trailer fields. Those of a streamed message come with
// its end.
func (v *httpView) Trailers() Pairs { return v.trailers.pairs(v.frame) }

// Streamed reports whether the frame is a head alone, which data frames and an
// end follow.
func (v *httpView) Streamed() bool { return v.streamed }

// Extended reports whether the sender understands the streamed request.
func (v *httpView) Extended() bool { return v.extended }

// RequestView is a view of an HTTP request, or of a streamed one's head. It
// aliases the frame and may be used again for the next one. The zero value is
// ready for Parse.
type RequestView struct {
	httpView
	method Span
	target Span
}

// Method returns the method, a token.
func (v *RequestView) Method() []byte { return v.method.Of(v.frame) }

// MethodSpan returns where the method lies.
func (v *RequestView) MethodSpan() Span { return v.method }

// Target returns the request target, never empty.
func (v *RequestView) Target() []byte { return v.target.Of(v.frame) }

// TargetSpan returns where the target lies.
func (v *RequestView) TargetSpan() Span { return v.target }

// Parse makes v the view of a framed request: type 1, or the head of a
// streamed one, type 6. After an error v is of no use.
func (v *RequestView) Parse(frame []byte) error {
	if !sound(frame) {
		return openError(frame)
	}
	return v.parseRequest(frame, uint64(len(frame)))
}

// parseRequest parses what is at hand of a message of size bytes.
func (v *RequestView) parseRequest(frame []byte, size uint64) error {
	kind := frame[7]
	if kind != TypeRequest && kind != TypeRequestHead {
		return typeError(kind, "a request")
	}
	v.frame, v.streamed, v.extended = frame, kind == TypeRequestHead, frame[6]&FlagExtended != 0
	root, err := httpRoot(frame)
	if err != nil {
		return err
	}
	if v.method, err = span(frame, root+requestMethod, "method"); err != nil {
		return err
	}
	if v.target, err = span(frame, root+requestTarget, "target"); err != nil {
		return err
	}
	if m := v.method.Of(frame); !tokenOK(m) {
		return methodError(int(v.method.Off), m)
	}
	if t := v.target.Of(frame); !targetOK(t) {
		return targetErrorHTTP(int(v.target.Off), t)
	}
	return v.parse(frame, root, size)
}

// ResponseView is a view of an HTTP response, or of a streamed one's head. It
// aliases the frame and may be used again for the next one. The zero value is
// ready for Parse.
type ResponseView struct {
	httpView
	reason Span
	status uint16
}

// Status returns the status, 100 to 999.
func (v *ResponseView) Status() int { return int(v.status) }

// Reason returns the reason phrase, which may be empty.
func (v *ResponseView) Reason() []byte { return v.reason.Of(v.frame) }

// ReasonSpan returns where the reason phrase lies.
func (v *ResponseView) ReasonSpan() Span { return v.reason }

// Parse makes v the view of a framed response: type 2, or the head of a
// streamed one, type 3. After an error v is of no use.
func (v *ResponseView) Parse(frame []byte) error {
	if !sound(frame) {
		return openError(frame)
	}
	return v.parseResponse(frame, uint64(len(frame)))
}

// parseResponse parses what is at hand of a message of size bytes.
func (v *ResponseView) parseResponse(frame []byte, size uint64) error {
	kind := frame[7]
	if kind != TypeResponse && kind != TypeResponseHead {
		return typeError(kind, "a response")
	}
	v.frame, v.streamed, v.extended = frame, kind == TypeResponseHead, frame[6]&FlagExtended != 0
	root, err := httpRoot(frame)
	if err != nil {
		return err
	}
	v.status = binary.LittleEndian.Uint16(frame[root+responseStatus:])
	if v.status < 100 || v.status > 999 {
		return statusError(int(root), int(v.status))
	}
	if v.reason, err = span(frame, root+responseReason, "reason"); err != nil {
		return err
	}
	if !reasonOK(v.reason.Of(frame)) {
		return reasonError(int(v.reason.Off))
	}
	return v.parse(frame, root, size)
}

// httpRoot returns where the root's fixed section of 48 bytes begins.
func httpRoot(frame []byte) (uint64, error) {
	root := binary.LittleEndian.Uint32(frame[8:])
	if uint64(root)+httpFixed > uint64(len(frame)) {
		return 0, fixedError("root", root, httpFixed, len(frame))
	}
	return uint64(root), nil
}

// span follows a text or bytes cell.
func span(frame []byte, pos uint64, field string) (Span, error) {
	cell := binary.LittleEndian.Uint64(frame[pos : pos+8])
	rel := cell & math.MaxUint32
	if pos+rel+cell>>32 > uint64(len(frame)) || rel == 0 && cell != 0 {
		return Span{}, cellError(frame, int(pos), field)
	}
	return Span{uint32(pos + rel), uint32(cell >> 32)}, nil
}

// parse reads the cells that requests and responses share.
func (v *httpView) parse(frame []byte, root, size uint64) error {
	var err error
	if v.proto, err = span(frame, root+requestProto, "proto"); err != nil {
		return err
	}
	if p := v.proto.Of(frame); !protoOK(p) {
		return protoError(int(v.proto.Off), p)
	}
	if v.body, err = spanWithin(frame, size, root+httpBody, "body"); err != nil {
		return err
	}
	if v.streamed && v.body.Len != 0 {
		return bodyError(int(root) + httpBody)
	}
	headers, err := span(frame, root+httpHeaders, headersField)
	if err != nil {
		return err
	}
	trailers, err := spanWithin(frame, size, root+httpTrailers, trailersField)
	if err != nil {
		return err
	}
	check := pairCheck{field: headersField}
	if err = parseBlock(frame, headers, &v.headers, &check); err != nil {
		return err
	}
	if check.lengths != 0 {
		if err = v.checkLength(check.length); err != nil {
			return err
		}
	}
	if size > uint64(len(frame)) {
		trailers = Span{} // behind the body, which is still to come
	}
	check.field = trailersField
	return parseBlock(frame, trailers, &v.trailers, &check)
}

// checkLength holds a Content-Length pair, which has no place on this wire and
// is not passed on, against the body cell. A peer that says both and means
// different things would be understood differently by the two ends. Answers to
// HEAD and 304 have a length and no body.
func (v *httpView) checkLength(value []byte) error {
	request := v.frame[7] == TypeRequest || v.frame[7] == TypeRequestHead
	if v.streamed || !request && v.body.Len == 0 {
		return nil
	}
	if n, ok := decimal(value); !ok || n != uint64(v.body.Len) {
		return fail(errLength, int(v.headers.off), headersField, "Content-Length "+quote(value)+" beside a body of other length")
	}
	return nil
}

// decimal reads a number of 1 to 18 digits.
func decimal(s []byte) (n uint64, ok bool) {
	if len(s) == 0 || len(s) > 18 {
		return 0, false
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}
