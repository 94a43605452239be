package zapcodec

import (
	"encoding/binary"
	"slices"
)

// Options of a frame to be written; combine them by |.
type Options uint8

const (
	// Prefix puts the length before the frame, big-endian: the framing of HTTP
	// over ZAP on a byte stream.
	Prefix Options = 1 << iota
	// Extended sets FlagExtended: we understand the streamed request.
	Extended
)

// prefixLen is the length in bytes of every length prefix.
const prefixLen = 4

// Encoder writes one HTTP frame piece by piece, so that a head kept in any
// form can be written without being gathered first: begin it by Request,
// Response or one of their kin, then Field for each header field, then one of
// the Body methods, then Trailer for each trailer field, then Finish or Parts.
// Everything may be left out but the beginning and the end.
//
// Hop-by-hop fields, Content-Length and Trailer are left out of what is
// written; what readers refuse is refused, and the first error is kept until
// the end. The zero value is ready to begin; an Encoder may be used again.
type Encoder struct {
	buf     []byte
	start   int // of the message in buf, after the prefix
	block   int // where the open header block begins in buf; 0: none
	count   uint32
	apart   int // bytes of a body that is not in buf
	split   int // where that body belongs in buf
	kind    byte
	prefix  bool
	stage   stage
	hasHost bool
	err     error
}

// stage is how far a frame has been written.
type stage uint8

const (
	stageNone stage = iota
	stageHeaders
	stageTrailers
	stageDone
)

// begin reserves prefix, header and fixed section, and room for texts more
// bytes, and writes the header but for its size.
func (e *Encoder) begin(dst []byte, opt Options, kind byte, fixed, texts int) {
	prefix := opt.prefixSize()
	start := len(dst) + prefix
	if cap(dst) < start+HeaderLen+fixed+texts {
		dst = slices.Grow(dst, prefix+HeaderLen+fixed+texts)
	}
	*e = Encoder{buf: dst[:start+HeaderLen+fixed], start: start, kind: kind, prefix: prefix != 0, stage: stageHeaders}
	flags := uint64(kind) << 8
	if opt&Extended != 0 {
		flags |= FlagExtended
	}
	head := e.buf[start:]
	binary.LittleEndian.PutUint64(head, magic|Version1<<32|flags<<48)
	binary.LittleEndian.PutUint64(head[8:], HeaderLen)
	for head = head[HeaderLen:]; len(head) >= 8; head = head[8:] {
		binary.LittleEndian.PutUint64(head, 0)
	}
}

// Request begins a request after dst.
func (e *Encoder) Request(dst []byte, opt Options, method, target, proto []byte) {
	e.request(dst, opt, TypeRequest, method, target, proto)
}

// RequestHead begins the head of a streamed request after dst. Only a peer
// known to understand the extension may be sent one.
func (e *Encoder) RequestHead(dst []byte, opt Options, method, target, proto []byte) {
	e.request(dst, opt, TypeRequestHead, method, target, proto)
}

func (e *Encoder) request(dst []byte, opt Options, kind byte, method, target, proto []byte) {
	if len(proto) == 0 {
		proto = defaultProto
	}
	e.begin(dst, opt, kind, httpFixed, len(method)+len(target)+len(proto))
	switch {
	case !tokenOK(method):
		e.fail(methodError(HeaderLen+httpFixed, method))
	case !targetOK(target):
		e.fail(targetErrorHTTP(HeaderLen+httpFixed+len(method), target))
	case !protoOK(proto):
		e.fail(protoError(HeaderLen+httpFixed+len(method)+len(target), proto))
	}
	e.text(requestMethod, method)
	e.text(requestTarget, target)
	e.text(requestProto, proto)
}

// Response begins a response after dst.
func (e *Encoder) Response(dst []byte, opt Options, status int, reason, proto []byte) {
	e.response(dst, opt, TypeResponse, status, reason, proto)
}

// ResponseHead begins the head of a streamed response after dst.
func (e *Encoder) ResponseHead(dst []byte, opt Options, status int, reason, proto []byte) {
	e.response(dst, opt, TypeResponseHead, status, reason, proto)
}

func (e *Encoder) response(dst []byte, opt Options, kind byte, status int, reason, proto []byte) {
	if len(proto) == 0 {
		proto = defaultProto
	}
	e.begin(dst, opt, kind, httpFixed, len(reason)+len(proto))
	switch {
	case status < 100 || status > 999:
		e.fail(statusError(HeaderLen, status))
	case !reasonOK(reason):
		e.fail(reasonError(HeaderLen + httpFixed))
	case !protoOK(proto):
		e.fail(protoError(HeaderLen+httpFixed+len(reason), proto))
	}
	binary.LittleEndian.PutUint16(e.buf[e.start+HeaderLen:], uint16(status))
	e.text(responseReason, reason)
	e.text(responseProto, proto)
}

// End begins the end of a streamed body after dst; trailers may follow.
func (e *Encoder) End(dst []byte, opt Options) {
	e.begin(dst, opt, TypeEnd, 8, 0)
	e.stage = stageTrailers
}

// fail keeps the first error.
func (e *Encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// position is the offset in the message of what is appended next.
func (e *Encoder) position() int { return len(e.buf) - e.start + e.apart }

// point writes the cell at field for n bytes at position at.
func (e *Encoder) point(field, at, n int) {
	var cell uint64
	if n != 0 {
		cell = uint64(uint32(at-HeaderLen-field)) | uint64(n)<<32
	}
	binary.LittleEndian.PutUint64(e.buf[e.start+HeaderLen+field:], cell)
}

func (e *Encoder) text(field int, v []byte) {
	e.point(field, len(e.buf)-e.start, len(v))
	e.buf = append(e.buf, v...)
}

// Field appends a header field.
func (e *Encoder) Field(name, value []byte) {
	if e.stage != stageHeaders {
		e.fail(fail(errOrder, e.position(), headersField, "a header field after the body was begun"))
		return
	}
	e.pair(name, value, headersField)
}

// Trailer appends a trailer field.
func (e *Encoder) Trailer(name, value []byte) {
	if e.stage == stageHeaders {
		e.closeHeaders()
	}
	if e.stage != stageTrailers {
		e.fail(fail(errOrder, e.position(), trailersField, "a trailer field where none may be"))
		return
	}
	e.pair(name, value, trailersField)
}

// pair appends a field to the open block, and opens it for the first.
func (e *Encoder) pair(name, value []byte, field string) {
	if class := classify(name); class != fieldPasses && !e.keeps(class, name, field) {
		return
	}
	if e.block == 0 {
		e.block = len(e.buf)
		e.buf = append(e.buf, zeros[:4]...)
	}
	e.count++
	at := len(e.buf)
	buf, odd := appendPair(e.buf, name, value)
	e.buf = buf
	if odd != 0 || len(name) == 0 {
		e.look(at, name, value, field)
	}
}

// look has a closer look at a pair that was written at at.
func (e *Encoder) look(at int, name, value []byte, field string) {
	if !tokenOKSlow(name) {
		e.fail(nameError(at-e.start+e.apart, field, name))
	} else if !valueOKSlow(value) {
		e.fail(valueError(at-e.start+e.apart, field, name))
	}
}

// keeps reports whether a field with a meaning of its own is written.
func (e *Encoder) keeps(class fieldClass, name []byte, field string) bool {
	if !tokenOK(name) {
		return true // to be refused
	}
	switch class {
	case fieldRefused:
		e.fail(transferEncodingError(e.position(), field))
	case fieldHost:
		if e.hasHost || field == trailersField {
			e.fail(hostError(e.position(), field))
			return false
		}
		e.hasHost = true
		return true
	}
	return false
}

// closeBlock ends the open header block and points the cell at field to it.
func (e *Encoder) closeBlock(field int) {
	if e.block == 0 {
		return
	}
	binary.LittleEndian.PutUint32(e.buf[e.block:], e.count)
	e.point(field, e.block-e.start+e.apart, len(e.buf)-e.block)
	e.block, e.count = 0, 0
}

func (e *Encoder) closeHeaders() {
	e.closeBlock(httpHeaders)
	e.stage = stageTrailers
}

// bodyAt ends the headers and points the body cell at n bytes that come next;
// false if that cannot be.
func (e *Encoder) bodyAt(n int) bool {
	switch {
	case e.stage != stageHeaders:
		e.fail(fail(errOrder, e.position(), "body", "a body where none may be"))
	case n != 0 && (e.kind == TypeRequestHead || e.kind == TypeResponseHead):
		e.fail(bodyError(HeaderLen + httpBody))
	case n < 0 || n > maxMessage:
		e.fail(tooLargeToWrite(n))
	default:
		e.closeHeaders()
		e.point(httpBody, len(e.buf)-e.start, n)
		return true
	}
	return false
}

// Body appends a copy of the body.
func (e *Encoder) Body(body []byte) {
	if e.bodyAt(len(body)) {
		e.buf = append(e.buf, body...)
	}
}

// BodyApart says that a body of n bytes follows the head, which is not copied:
// the caller writes what Parts returns as head, then the body, then the tail.
func (e *Encoder) BodyApart(n int) {
	if e.bodyAt(n) {
		e.split, e.apart = len(e.buf), n
	}
}

// BodyInPlace says that the body's n bytes lie in the buffer already, right
// after the head: the head was written into the headroom before them, whose
// length HeadSize gave. Trailers are written after the body.
func (e *Encoder) BodyInPlace(n int) {
	if n >= 0 && n > cap(e.buf)-len(e.buf) {
		e.fail(fail(errOrder, e.position(), "body", "the buffer ends before the body that lies in it"))
		return
	}
	if e.bodyAt(n) {
		e.buf = e.buf[:len(e.buf)+n]
	}
}

// Finish ends the frame and returns dst with the frame at its end.
func (e *Encoder) Finish() ([]byte, error) {
	if e.apart != 0 {
		e.fail(fail(errOrder, e.position(), "body", "Finish after BodyApart; use Parts"))
	}
	if err := e.finish(); err != nil {
		return nil, err
	}
	return e.buf, nil
}

// Parts ends the frame and returns what goes before the body, dst included,
// and what goes after it. Joined around the body they are the frame that Body
// and Finish would have made.
func (e *Encoder) Parts() (head, tail []byte, err error) {
	if err := e.finish(); err != nil {
		return nil, nil, err
	}
	if e.split == 0 || e.split == len(e.buf) {
		return e.buf, nil, nil
	}
	return e.buf[:e.split:e.split], e.buf[e.split:], nil
}

// finish closes what is open and writes size and prefix.
func (e *Encoder) finish() error {
	if e.stage == stageNone || e.stage == stageDone {
		e.fail(fail(errOrder, 0, "frame", "no frame was begun"))
	}
	if e.err != nil {
		return e.err
	}
	if e.stage == stageHeaders {
		e.closeHeaders()
	}
	if e.kind == TypeEnd {
		e.closeBlock(0)
	} else {
		e.closeBlock(httpTrailers)
	}
	e.stage = stageDone
	n := e.position()
	if n > maxMessage {
		return tooLargeToWrite(n)
	}
	binary.LittleEndian.PutUint32(e.buf[e.start+12:], uint32(n))
	if e.prefix {
		binary.BigEndian.PutUint32(e.buf[e.start-prefixLen:], uint32(n))
	}
	return nil
}
