package zap

import (
	"strconv"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/zapcodec"
)

// mostFields bounds the pairs of a head where the limits do not: positions in a
// head are 16 bits wide.
const mostFields = 1<<16 - 1

// isExtended tells whether the sender of a message speaks our extension.
func isExtended(message []byte) bool { return message[6]&zapcodec.FlagExtended != 0 }

// isLast tells whether its sender closes after it.
func isLast(message []byte) bool { return message[6]&FlagLast != 0 }

// addPairs appends the pairs of a message to h, which points into it.
func addPairs(h *exchange.Head, p zapcodec.Pairs, lim *exchange.Limits) *exchange.Refusal {
	most := mostFields
	if lim.Fields > 0 {
		most = min(most, lim.Fields)
	}
	if p.Count() > most {
		return exchange.RefuseFieldCount
	}
	for p.Next() {
		n, v := p.Spans()
		h.AddWire(int(n.Off), int(n.Off+n.Len), int(v.Off), int(v.Off+v.Len))
	}
	return nil
}

// takeBodyLength drops the pair that stands for Content-Length, and returns what
// it says; -1 where there is none or where the peer does not speak the
// extension, and ok false where it is no length.
func takeBodyLength(h *exchange.Head, extended bool) (length int64, ok bool) {
	length, ok = -1, true
	if !extended {
		return length, ok
	}
	for i := h.Find(bodyLengthName, 0); i >= 0; i = h.Find(bodyLengthName, i+1) {
		n := exchange.ParseLength(h.Value(i))
		if n < 0 || length >= 0 && n != length {
			ok = false
		}
		length = n
		h.Drop(i)
	}
	return length, ok
}

// requestHead makes h of a parsed request and gives the verdict on it.
func requestHead(v *zapcodec.RequestView, h *exchange.Head, lim *exchange.Limits, extended bool) *exchange.Refusal {
	h.Reset(v.Frame())
	m, t, p := v.MethodSpan(), v.TargetSpan(), v.ProtoSpan()
	h.SetMethodWire(int(m.Off), int(m.Off+m.Len))
	h.SetTargetWire(int(t.Off), int(t.Off+t.Len))
	if p.Len > 0 {
		h.SetVersionWire(int(p.Off), int(p.Off+p.Len))
	}
	if r := addPairs(h, v.Headers(), lim); r != nil {
		return r
	}
	length, ok := int64(-1), true
	if v.Streamed() {
		length, ok = takeBodyLength(h, extended)
	}
	if r := exchange.CheckRequest(h, exchange.ZAP, 0, lim); r != nil {
		return r
	}
	if !ok {
		return exchange.RefuseLength
	}
	// Every ZAP peer takes trailers; and its body is on its way, continue or not.
	h.TETrailers, h.ExpectContinue = true, false
	h.Length = length
	if n := int64(v.BodySpan().Len); !v.Streamed() && (n > 0 || needsLength(h.Method)) {
		h.Length = n
	}
	if lim.BodyBytes > 0 && h.Length > lim.BodyBytes {
		return exchange.RefuseBodySize
	}
	return nil
}

// needsLength tells whether a request without a body says so on HTTP/1 (RFC
// 9110, section 8.6).
func needsLength(m exchange.Method) bool {
	return m == exchange.POST || m == exchange.PUT || m == exchange.PATCH
}

// answerHead makes h of a parsed answer to req and gives the verdict on it.
func answerHead(v *zapcodec.ResponseView, h, req *exchange.Head, lim *exchange.Limits, extended bool) *exchange.Refusal {
	h.Reset(v.Frame())
	r, p := v.ReasonSpan(), v.ProtoSpan()
	h.Status = v.Status()
	h.SetReasonWire(int(r.Off), int(r.Off+r.Len))
	if p.Len > 0 {
		h.SetVersionWire(int(p.Off), int(p.Off+p.Len))
	}
	if r := addPairs(h, v.Headers(), lim); r != nil {
		return r
	}
	length, ok := int64(-1), true
	if v.Streamed() || exchange.NoBody(req.Method, h.Status) {
		length, ok = takeBodyLength(h, extended)
	}
	if r := exchange.CheckResponse(h, req, exchange.ZAP, 0, lim); r != nil {
		return r
	}
	if !ok {
		return exchange.RefuseLength
	}
	h.Length = length
	if !v.Streamed() && !exchange.NoBody(req.Method, h.Status) {
		h.Length = int64(v.BodySpan().Len)
	}
	return nil
}

// encoder writes heads. It is part of a connection, so that it costs no
// allocation.
type encoder struct {
	zapcodec.Encoder
	opt zapcodec.Options
	num [20]byte
}

// newOptions are those of a connection: where no ALPN tells what we speak, each
// message does.
func newOptions(alpn string) zapcodec.Options {
	if alpn == ALPN {
		return zapcodec.Prefix
	}
	return zapcodec.Prefix | zapcodec.Extended
}

// request appends a request's head to out. kind is its type, body the bytes that
// will follow in its message, length what Zap-Body-Length is to say, or -1.
func (e *encoder) request(out []byte, h *exchange.Head, kind byte, body int, length int64) ([]byte, error) {
	if kind == zapcodec.TypeRequestHead {
		e.RequestHead(out, e.opt, h.MethodName(), h.Target(), h.Version())
	} else {
		e.Request(out, e.opt, h.MethodName(), h.Target(), h.Version())
	}
	if a := h.Authority(); len(a) > 0 {
		e.Field(hostName, a)
	}
	return e.rest(h, body, length)
}

var hostName = []byte("Host")

// response appends an answer's head to out, as request does.
func (e *encoder) response(out []byte, h *exchange.Head, kind byte, body int, length int64) ([]byte, error) {
	reason := h.Reason()
	if len(reason) == 0 {
		reason = phraseOf(h.Status)
	}
	if kind == zapcodec.TypeResponseHead {
		e.ResponseHead(out, e.opt, h.Status, reason, h.Version())
	} else {
		e.Response(out, e.opt, h.Status, reason, h.Version())
	}
	return e.rest(h, body, length)
}

func (e *encoder) rest(h *exchange.Head, body int, length int64) ([]byte, error) {
	for i := range h.Len() {
		if !h.Dropped(i) {
			e.Field(h.Name(i), h.Value(i))
		}
	}
	if length >= 0 {
		e.Field(bodyLength, strconv.AppendInt(e.num[:0], length, 10))
	}
	e.BodyApart(body)
	head, _, err := e.Parts()
	return head, err
}

// MostPiece implements serial.Framing.
func (e *encoder) MostPiece() int { return mostData }

// AppendFrame implements serial.Framing.
func (e *encoder) AppendFrame(out []byte, n int) []byte {
	out, _ = zapcodec.AppendDataHead(out, e.opt, n) // errors beyond 2 GiB alone
	return out
}

// AppendEnd implements serial.Framing.
func (e *encoder) AppendEnd(out []byte, _ int, last bool, trailers *exchange.Head) ([]byte, error) {
	if !last {
		return out, nil
	}
	e.End(out, e.opt)
	if trailers != nil {
		for i := range trailers.Len() {
			if !trailers.Dropped(i) {
				e.Trailer(trailers.Name(i), trailers.Value(i))
			}
		}
	}
	return e.Finish()
}

// phrases are the usual reason phrases as bytes.
var phrases = func() (t [600][]byte) {
	for s := range t {
		t[s] = []byte(exchange.ReasonPhrase(s))
	}
	return t
}()

func phraseOf(status int) []byte {
	if status < len(phrases) {
		return phrases[status]
	}
	return nil
}
