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
	httpTexts    = HeaderLen + httpFixed // where an encoder's tail begins
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

// Body returns the body; empty when Streamed. After ParseHead only BodySpan may
// be asked.
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
	var ok1, ok2 bool
	v.method, ok1 = cellAt(frame, uint64(len(frame)), root+requestMethod)
	v.target, ok2 = cellAt(frame, uint64(len(frame)), root+requestTarget)
	if !ok1 || !ok2 {
		return cellsError(frame, size, root, requestCells[:])
	}
	if m := v.method.Of(frame); !methodOK(m) {
		return methodError(int(v.method.Off), m)
	}
	if v.target.Len == 0 || !textOK(frame, v.target, visible) && !targetExact(v.target.Of(frame)) {
		return targetErrorHTTP(int(v.target.Off), v.target.Of(frame))
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
	if !statusOK(int(v.status)) {
		return statusError(int(root), int(v.status))
	}
	var ok bool
	if v.reason, ok = cellAt(frame, uint64(len(frame)), root+responseReason); !ok {
		return cellsError(frame, size, root, responseCells[:])
	}
	if v.reason.Len != 0 && !textOK(frame, v.reason, printable) && !reasonExact(v.reason.Of(frame)) {
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

// cellAt follows the text or bytes cell at pos, whose target must lie before
// size; ok is false when it is malformed, and cellsError then says how.
func cellAt(frame []byte, size, pos uint64) (s Span, ok bool) {
	cell := binary.LittleEndian.Uint64(frame[pos : pos+8])
	rel := cell & math.MaxUint32
	return Span{uint32(pos + rel), uint32(cell >> 32)}, pos+rel+cell>>32 <= size && (rel != 0 || cell == 0)
}

// span is cellAt with the error.
func span(frame []byte, pos uint64, field string) (Span, error) {
	return spanWithin(frame, uint64(len(frame)), pos, field)
}

// spanWithin follows a cell whose target may lie behind the bytes at hand, but
// inside the message.
func spanWithin(frame []byte, size, pos uint64, field string) (Span, error) {
	s, ok := cellAt(frame, size, pos)
	if !ok {
		return Span{}, cellError(frame, int(pos), field)
	}
	return s, nil
}

// namedCell is a cell of a fixed section, for errors.
type namedCell struct {
	off   uint64
	name  string
	later bool // the target may lie behind the bytes at hand
}

var (
	requestCells  = [...]namedCell{{requestMethod, "method", false}, {requestTarget, "target", false}}
	responseCells = [...]namedCell{{responseReason, "reason", false}}
	httpCells     = [...]namedCell{
		{requestProto, "proto", false}, {httpHeaders, headersField, false}, {httpBody, "body", true}, {httpTrailers, trailersField, true},
	}
)

// cellsError says which of the cells is malformed and how.
func cellsError(frame []byte, size, root uint64, cells []namedCell) error {
	for _, c := range cells {
		limit := uint64(len(frame))
		if c.later {
			limit = size
		}
		if _, err := spanWithin(frame, limit, root+c.off, c.name); err != nil {
			return err
		}
	}
	return nil
}

// parse reads the cells that requests and responses share. The frame may end
// where the body begins; size is that of the whole message.
func (v *httpView) parse(frame []byte, root, size uint64) error {
	var ok [4]bool
	var headers, trailers Span
	v.proto, ok[0] = cellAt(frame, uint64(len(frame)), root+requestProto)
	headers, ok[1] = cellAt(frame, uint64(len(frame)), root+httpHeaders)
	v.body, ok[2] = cellAt(frame, size, root+httpBody)
	trailers, ok[3] = cellAt(frame, size, root+httpTrailers)
	if !(ok[0] && ok[1] && ok[2] && ok[3]) {
		return cellsError(frame, size, root, httpCells[:])
	}
	if v.proto.Len != 0 && !textOK(frame, v.proto, visible) {
		return protoError(int(v.proto.Off), v.proto.Of(frame))
	}
	if v.streamed && v.body.Len != 0 {
		return bodyError(int(root) + httpBody)
	}
	check := pairCheck{field: headersField}
	if err := v.headers.parse(frame, headers, &check); err != nil {
		return err
	}
	if check.lengths != 0 {
		if err := v.checkLength(check.length); err != nil {
			return err
		}
	}
	if trailers.Len == 0 || size > uint64(len(frame)) { // behind the body, which is still to come
		v.trailers.none(trailers.Off)
		return nil
	}
	return v.trailers.parseTrailers(frame, trailers)
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
