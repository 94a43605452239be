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
	start   int    // of the message in buf, after the prefix
	block   int    // where the open header block begins in buf
	count   uint32 // of the pairs in it; 0: none is open
	apart   int    // bytes of a body that is not in buf
	split   int    // where that body belongs in buf
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

// begin reserves prefix, header, fixed section and texts, writes the header but
// for its size, and clears the fixed section. It returns the message so far.
func (e *Encoder) begin(dst []byte, opt Options, kind byte, fixed, texts int) []byte {
	prefix := opt.prefixSize()
	start := len(dst) + prefix
	end := start + HeaderLen + fixed + texts
	if cap(dst) < end {
		dst = slices.Grow(dst, end-len(dst))
	}
	// Field by field: a composite would be built aside and copied.
	e.buf, e.start, e.kind, e.prefix, e.stage = dst[:end], start, kind, prefix != 0, stageHeaders
	e.count, e.apart, e.split, e.hasHost, e.err = 0, 0, 0, false, nil
	flags := uint64(kind) << 8
	if opt&Extended != 0 {
		flags |= FlagExtended
	}
	msg := dst[start:end]
	binary.LittleEndian.PutUint64(msg, magic|Version1<<32|flags<<48)
	binary.LittleEndian.PutUint64(msg[8:], HeaderLen)
	for i := HeaderLen; i < HeaderLen+fixed; i += 8 {
		binary.LittleEndian.PutUint64(msg[i:i+8], 0)
	}
	return msg
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
	n, m := len(method), len(target)
	msg := e.begin(dst, opt, kind, httpFixed, n+m+len(proto))
	texts := msg[httpTexts:]
	oddMethod := copyToken(texts, method)
	odd := copyVisible(texts[n:], target) | copyVisible(texts[n+m:], proto)
	putCell(msg, requestMethod, httpTexts, n)
	putCell(msg, requestTarget, httpTexts+n, m)
	putCell(msg, requestProto, httpTexts+n+m, len(proto))
	switch {
	case n == 0 || oddMethod&highs != 0 && !tokenExact(method):
		e.fail(methodError(httpTexts, method))
	case m == 0 || odd&highs != 0 && !targetOK(target):
		e.fail(targetErrorHTTP(httpTexts+n, target))
	case odd&highs != 0 && !protoOK(proto):
		e.fail(protoError(httpTexts+n+m, proto))
	}
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
	n := len(reason)
	msg := e.begin(dst, opt, kind, httpFixed, n+len(proto))
	texts := msg[httpTexts:]
	copy(texts, reason)
	odd := copyVisible(texts[n:], proto)
	binary.LittleEndian.PutUint16(msg[HeaderLen+responseStatus:], uint16(status))
	putCell(msg, responseReason, httpTexts, n)
	putCell(msg, responseProto, httpTexts+n, len(proto))
	switch {
	case status < 100 || status > 999:
		e.fail(statusError(HeaderLen, status))
	case !reasonOK(reason):
		e.fail(reasonError(httpTexts))
	case odd&highs != 0:
		e.fail(protoError(httpTexts+n, proto))
	}
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

// putCell writes the cell at field for n bytes at position at of the message.
func putCell(msg []byte, field, at, n int) {
	var cell uint64
	if n != 0 {
		cell = uint64(uint32(at-HeaderLen-field)) | uint64(n)<<32
	}
	binary.LittleEndian.PutUint64(msg[HeaderLen+field:], cell)
}

// point is putCell for the message being written.
func (e *Encoder) point(field, at, n int) { putCell(e.buf[e.start:], field, at, n) }

// Field appends a header field.
func (e *Encoder) Field(name, value []byte) {
	if e.stage != stageHeaders {
		e.fail(fail(errOrder, e.position(), headersField, "a header field after the body was begun"))
		return
	}
	e.pair(name, value)
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
	e.pair(name, value)
}

// pair appends a field to the open block, and opens it for the first.
func (e *Encoder) pair(name, value []byte) {
	if class := classify(name); class != fieldPasses && !e.keeps(class) {
		return
	}
	if e.count == 0 {
		e.open()
	}
	e.count++
	at := len(e.buf)
	buf, odd := appendPair(e.buf, name, value)
	e.buf = buf
	if odd&highs != 0 || len(name) == 0 {
		e.look(at, name, value)
	}
}

// pairs is pair for each of a list, with less to and fro.
func (e *Encoder) pairs(list []Pair) {
	if len(list) == 0 {
		return
	}
	if e.count == 0 {
		e.open()
	}
	buf, n := e.buf, uint32(0)
	for i := range list {
		p := &list[i]
		if class := classify(p.Name); class != fieldPasses && !e.keeps(class) {
			continue
		}
		at := len(buf)
		var odd uint64
		buf, odd = appendPair(buf, p.Name, p.Value)
		n++
		if odd&highs != 0 || len(p.Name) == 0 {
			e.look(at, p.Name, p.Value)
		}
	}
	if e.count += n; e.count == 0 {
		buf = buf[:e.block]
	}
	e.buf = buf
}

// open begins a header block; closeBlock writes its count.
func (e *Encoder) open() {
	e.block = len(e.buf)
	e.buf = append(e.buf, zeros[:4]...)
}

// field names the block that is being written, for errors.
func (e *Encoder) field() string {
	if e.stage == stageTrailers {
		return trailersField
	}
	return headersField
}

// look has an exact look at a pair that was written at at.
func (e *Encoder) look(at int, name, value []byte) {
	if !tokenExact(name) {
		e.fail(nameError(at-e.start+e.apart, e.field(), name))
	} else if !valueExact(value) {
		e.fail(valueError(at-e.start+e.apart, e.field(), name))
	}
}

// keeps reports whether a field with a meaning of its own is written.
func (e *Encoder) keeps(class fieldClass) bool {
	switch class {
	case fieldRefused:
		e.fail(transferEncodingError(e.position(), e.field()))
	case fieldHost:
		if e.hasHost || e.stage == stageTrailers {
			e.fail(hostError(e.position(), e.field()))
			return false
		}
		e.hasHost = true
		return true
	}
	return false
}

// closeBlock ends the open header block and points the cell at field to it.
func (e *Encoder) closeBlock(field int) {
	if e.count == 0 {
		return
	}
	binary.LittleEndian.PutUint32(e.buf[e.block:], e.count)
	e.point(field, e.block-e.start+e.apart, len(e.buf)-e.block)
	e.count = 0
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
	if n > maxMessage || n < 0 {
		return tooLargeToWrite(n)
	}
	binary.LittleEndian.PutUint32(e.buf[e.start+12:], uint32(n))
	if e.prefix {
		binary.BigEndian.PutUint32(e.buf[e.start-prefixLen:], uint32(n))
	}
	return nil
}
