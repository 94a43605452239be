package zapcodec

// Request is an HTTP request to be written, for callers that have it whole;
// others use an Encoder. The zero value lacks a method and a target.
type Request struct {
	Method, Target []byte
	Proto          []byte // DefaultProto when empty
	Headers        []Pair
	Body           []byte
	Trailers       []Pair
	Streamed       bool // a head alone: data frames and an end follow
}

// Append appends the request's frame to dst.
func (r *Request) Append(dst []byte, opt Options) ([]byte, error) {
	var e Encoder
	r.begin(&e, dst, opt)
	e.whole(r.Headers, r.Body, r.Trailers)
	return e.Finish()
}

// Split is Append without the body: head, r.Body and tail written one after
// the other are the frame. Head and tail lie in dst's buffer.
func (r *Request) Split(dst []byte, opt Options) (head, tail []byte, err error) {
	var e Encoder
	r.begin(&e, dst, opt)
	e.around(r.Headers, len(r.Body), r.Trailers)
	return e.Parts()
}

func (r *Request) begin(e *Encoder, dst []byte, opt Options) {
	if r.Streamed {
		e.RequestHead(dst, opt, r.Method, r.Target, r.Proto)
		return
	}
	e.Request(dst, opt, r.Method, r.Target, r.Proto)
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

// Append appends the response's frame to dst.
func (r *Response) Append(dst []byte, opt Options) ([]byte, error) {
	var e Encoder
	r.begin(&e, dst, opt)
	e.whole(r.Headers, r.Body, r.Trailers)
	return e.Finish()
}

// Split is Append without the body: head, r.Body and tail written one after
// the other are the frame. Head and tail lie in dst's buffer.
func (r *Response) Split(dst []byte, opt Options) (head, tail []byte, err error) {
	var e Encoder
	r.begin(&e, dst, opt)
	e.around(r.Headers, len(r.Body), r.Trailers)
	return e.Parts()
}

func (r *Response) begin(e *Encoder, dst []byte, opt Options) {
	if r.Streamed {
		e.ResponseHead(dst, opt, r.Status, r.Reason, r.Proto)
		return
	}
	e.Response(dst, opt, r.Status, r.Reason, r.Proto)
}

// whole writes all that follows a head's first fields.
func (e *Encoder) whole(headers []Pair, body []byte, trailers []Pair) {
	e.pairs(headers)
	e.Body(body)
	e.trailers(trailers)
}

// around is whole with the body left apart.
func (e *Encoder) around(headers []Pair, body int, trailers []Pair) {
	e.pairs(headers)
	e.BodyApart(body)
	e.trailers(trailers)
}

// trailers writes the trailer fields of a message whose body is written.
func (e *Encoder) trailers(list []Pair) {
	if e.stage == stageTrailers {
		e.pairs(list)
	}
}
