package zapcodec

import "encoding/binary"

// Request is an HTTP request to be written, for callers that have it whole;
// others use an Encoder. The zero value lacks a method and a target.
type Request struct {
	Method, Target []byte
	Proto          []byte // DefaultProto when empty
	Headers        []Pair // written in this order, but for those that an Encoder leaves out
	Body           []byte
	Trailers       []Pair
	Streamed       bool // a head alone: data frames and an end follow
}

// Append appends the request's frame to dst. On an error it returns nil: what is
// wrong is told by a *FrameError, ErrMethod and ErrTarget among others.
func (r *Request) Append(dst []byte, opt Options) ([]byte, error) {
	proto, start := orDefault(&r.Proto), len(dst)+opt.prefixSize()
	end := start + httpTexts + len(r.Method) + len(r.Target) + len(*proto)
	dst = room(dst, end+pairsSize(r.Headers)+len(r.Body))
	if err := putStart(dst[start:end], opt.word(r.kind()), 0, &r.Method, &r.Target, proto); err != nil {
		return nil, err
	}
	return appendRest(dst[:end], start, opt, &r.Headers, &r.Body, &r.Trailers)
}

// Split is Append without the body: head, r.Body and tail written one after
// the other are the frame. Head and tail lie in dst's buffer.
func (r *Request) Split(dst []byte, opt Options) (head, tail []byte, err error) {
	var e Encoder
	e.begin(dst, opt, r.kind(), 0, &r.Method, &r.Target, &r.Proto)
	return e.around(r.Headers, len(r.Body), r.Trailers)
}

func (r *Request) kind() byte {
	if r.Streamed {
		return TypeRequestHead
	}
	return TypeRequest
}

// Response is an HTTP response to be written, for callers that have it whole;
// others use an Encoder. The zero value lacks a status.
type Response struct {
	Status   int // 100 to 999
	Reason   []byte
	Proto    []byte // DefaultProto when empty
	Headers  []Pair
	Body     []byte
	Trailers []Pair
	Streamed bool // a head alone: data frames and an end follow
}

// Append appends the response's frame to dst. On an error it returns nil: what is
// wrong is told by a *FrameError, ErrStatus and ErrReason among others.
func (r *Response) Append(dst []byte, opt Options) ([]byte, error) {
	proto, start := orDefault(&r.Proto), len(dst)+opt.prefixSize()
	end := start + httpTexts + len(r.Reason) + len(*proto)
	dst = room(dst, end+pairsSize(r.Headers)+len(r.Body))
	if err := putStart(dst[start:end], opt.word(r.kind()), r.Status, nil, &r.Reason, proto); err != nil {
		return nil, err
	}
	return appendRest(dst[:end], start, opt, &r.Headers, &r.Body, &r.Trailers)
}

// Split is Append without the body: head, r.Body and tail written one after
// the other are the frame. Head and tail lie in dst's buffer.
func (r *Response) Split(dst []byte, opt Options) (head, tail []byte, err error) {
	var e Encoder
	e.begin(dst, opt, r.kind(), r.Status, nil, &r.Reason, &r.Proto)
	return e.around(r.Headers, len(r.Body), r.Trailers)
}

func (r *Response) kind() byte {
	if r.Streamed {
		return TypeResponseHead
	}
	return TypeResponse
}

// appendRest appends headers, body and trailers to the message that begins at
// start, of which dst holds the start and has room for headers and body. That is
// done here where nothing is out of the ordinary, else by an Encoder.
func appendRest(dst []byte, start int, opt Options, headers *[]Pair, body *[]byte, trailers *[]Pair) ([]byte, error) {
	msg := dst[start:cap(dst)]
	fixed := (*[httpTexts]byte)(msg)
	at := uint(len(dst) - start)
	if n := len(*headers); n != 0 {
		done, end, _ := putPairs(msg, at+4, *headers, false)
		if done != n {
			return encodeRest(dst, start, opt, *headers, *body, *trailers)
		}
		binary.LittleEndian.PutUint32(msg[at:at+4], uint32(n))
		binary.LittleEndian.PutUint64(fixed[HeaderLen+httpHeaders:], cell(int(at)-HeaderLen-httpHeaders, int(end-at)))
		at = end
	}
	size := at + uint(len(*body))
	if len(*trailers) != 0 || fixed[7] > TypeResponse || size > maxMessage {
		return encodeRest(dst, start, opt, *headers, *body, *trailers)
	}
	copy(msg[at:], *body)
	binary.LittleEndian.PutUint64(fixed[HeaderLen+httpBody:], cell(int(at)-HeaderLen-httpBody, len(*body)))
	binary.LittleEndian.PutUint64(fixed[8:], HeaderLen|uint64(size)<<32)
	if opt&Prefix != 0 {
		binary.BigEndian.PutUint32(dst[start-prefixLen:start], uint32(size))
	}
	return dst[:start+int(size)], nil
}

// encodeRest is appendRest for any message.
func encodeRest(dst []byte, start int, opt Options, headers []Pair, body []byte, trailers []Pair) ([]byte, error) {
	var e Encoder
	e.take(dst, start, opt)
	e.pairs(headers)
	e.Body(body)
	e.trailers(trailers)
	return e.Finish()
}

// around writes all that follows a message's start, with the body left apart.
func (e *Encoder) around(headers []Pair, body int, trailers []Pair) (head, tail []byte, err error) {
	e.pairs(headers)
	e.BodyApart(body)
	e.trailers(trailers)
	return e.Parts()
}

// trailers writes the trailer fields of a message whose body is written.
func (e *Encoder) trailers(list []Pair) {
	if e.stage == stageTrailers {
		e.pairs(list)
	}
}
