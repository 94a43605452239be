package zapcodec

import "encoding/binary"

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
// Hop-by-hop fields (RFC 9110, section 7.6.1), Content-Length and Trailer are left
// out of what is written, but not the fields that Connection names: a caller that
// has a Connection field drops those. What readers refuse is refused, and the
// first error is kept until the end. The zero value is ready to begin; an Encoder
// may be used again.
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

// take goes on with the message that begins at start of buf, of which there is
// nothing yet but its start.
func (e *Encoder) take(buf []byte, start int, opt Options) {
	// Field by field: a composite would be built aside and copied.
	e.buf, e.start, e.kind, e.prefix, e.stage = buf, start, buf[start+7], opt&Prefix != 0, stageHeaders
	e.count, e.apart, e.split, e.hasHost, e.err = 0, 0, 0, false, nil
}

// Request begins a request after dst.
func (e *Encoder) Request(dst []byte, opt Options, method, target, proto []byte) {
	e.begin(dst, opt, TypeRequest, 0, &method, &target, &proto)
}

// RequestHead begins the head of a streamed request after dst. Only a peer
// known to understand the extension may be sent one.
func (e *Encoder) RequestHead(dst []byte, opt Options, method, target, proto []byte) {
	e.begin(dst, opt, TypeRequestHead, 0, &method, &target, &proto)
}

// Response begins a response after dst.
func (e *Encoder) Response(dst []byte, opt Options, status int, reason, proto []byte) {
	e.begin(dst, opt, TypeResponse, status, nil, &reason, &proto)
}

// ResponseHead begins the head of a streamed response after dst.
func (e *Encoder) ResponseHead(dst []byte, opt Options, status int, reason, proto []byte) {
	e.begin(dst, opt, TypeResponseHead, status, nil, &reason, &proto)
}

// begin begins a request or a response: see putStart.
func (e *Encoder) begin(dst []byte, opt Options, kind byte, status int, method, second, proto *[]byte) {
	proto = orDefault(proto)
	start := len(dst) + opt.prefixSize()
	end := start + httpTexts + len(*second) + len(*proto)
	if method != nil {
		end += len(*method)
	}
	dst = room(dst, end)
	err := putStart(dst[start:end], opt.word(kind), status, method, second, proto)
	e.take(dst[:end], start, opt)
	e.err = err
}

// End begins the end of a streamed body after dst; trailers may follow.
func (e *Encoder) End(dst []byte, opt Options) {
	start := len(dst) + opt.prefixSize()
	if opt&Prefix != 0 {
		dst = append(dst, 0, 0, 0, 0)
	}
	dst = binary.LittleEndian.AppendUint64(dst, opt.word(TypeEnd))
	dst = binary.LittleEndian.AppendUint64(dst, HeaderLen)
	e.take(binary.LittleEndian.AppendUint64(dst, 0), start, opt)
	e.closeHeaders()
}

// fail keeps the first error.
func (e *Encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// position is the offset in the message of what is appended next.
func (e *Encoder) position() int { return len(e.buf) - e.start + e.apart }

// point writes the cell at field for n bytes at position at of the message.
func (e *Encoder) point(field, at, n int) {
	field += HeaderLen
	binary.LittleEndian.PutUint64(e.buf[e.start+field:], cell(at-field, n))
}

// Field appends a header field.
func (e *Encoder) Field(name, value []byte) { e.pair(stageHeaders, name, value) }

// Trailer appends a trailer field.
func (e *Encoder) Trailer(name, value []byte) { e.pair(stageTrailers, name, value) }

// pair appends a field to the open block, and opens it for the first. A field
// that is left out leaves the buffer behind its end alone: a body may lie there.
func (e *Encoder) pair(where stage, name, value []byte) {
	if e.stage != where && !e.enter(where) {
		return
	}
	var list [1]Pair // filled field by field: a composite would be built aside and copied
	list[0].Name, list[0].Value = name, value
	at := len(e.buf)
	if e.count == 0 {
		e.block = at
		at += 4
	}
	if cap(e.buf)-at >= pairSize(name, value) {
		done, end, hasHost := putPairs(e.buf[:cap(e.buf)], uint(at), list[:], e.hasHost)
		if done == 1 {
			e.buf, e.hasHost = e.buf[:end], hasHost
			e.count++
			return
		}
	}
	e.unusual(&list[0])
}

// enter goes on from the headers to the trailers of a message without a body;
// false where no field may be written.
func (e *Encoder) enter(where stage) bool {
	if where == stageTrailers && e.stage == stageHeaders {
		e.closeHeaders()
		return true
	}
	field, reason := headersField, "a header field after the body was begun"
	if where == stageTrailers {
		field, reason = trailersField, "a trailer field where none may be"
	}
	e.fail(fail(errOrder, e.position(), field, reason))
	return false
}

// pairs is pair for each of a list, with less to and fro.
func (e *Encoder) pairs(list []Pair) {
	e.buf = room(e.buf, len(e.buf)+pairsSize(list))
	for len(list) != 0 {
		at := len(e.buf)
		if e.count == 0 {
			e.block = at
			at += 4
		}
		done, end, hasHost := putPairs(e.buf[:cap(e.buf)], uint(at), list, e.hasHost)
		if done != 0 {
			e.buf, e.hasHost = e.buf[:end], hasHost
			e.count += uint32(done)
		}
		if done == len(list) {
			return
		}
		e.unusual(&list[done])
		list = list[done+1:]
	}
}

// unusual appends a field that is not ordinary, or for which there is no room,
// if it is one that is written, after an exact look at it.
func (e *Encoder) unusual(p *Pair) {
	at := e.position()
	if e.count == 0 {
		at += 4
	}
	if class := classify(p.Name); class != fieldPasses && !e.keeps(class, at) {
		return
	}
	if !tokenExact(p.Name) {
		e.fail(nameError(at, e.field(), p.Name))
	} else if !valueExact(p.Value) {
		e.fail(valueError(at, e.field(), p.Name))
	}
	if e.count == 0 {
		e.buf = append(e.buf, 0, 0, 0, 0)
	}
	e.count++
	e.buf = binary.LittleEndian.AppendUint32(e.buf, uint32(len(p.Name)))
	e.buf = append(e.buf, p.Name...)
	e.buf = binary.LittleEndian.AppendUint32(e.buf, uint32(len(p.Value)))
	e.buf = append(e.buf, p.Value...)
}

// field names the block that is being written, for errors.
func (e *Encoder) field() string {
	if e.stage == stageTrailers {
		return trailersField
	}
	return headersField
}

// keeps reports whether a field with a meaning of its own is written, and
// refuses those that may not be.
func (e *Encoder) keeps(class fieldClass, at int) bool {
	switch class {
	case fieldRefused:
		e.fail(transferEncodingError(at, e.field()))
	case fieldHost:
		if e.hasHost {
			e.fail(hostError(at, e.field()))
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
	e.stage, e.hasHost = stageTrailers, true // Host is no trailer
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
