package zap

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/exchange/mount"
)

// HTTP lets an http.Handler answer exchanges, streaming both ways; its request's
// context ends when the client goes away. What was refused before it became a
// request is answered without the handler.
func HTTP(h http.Handler) exchange.Handler { return refusing{mount.HTTP(h)} }

// refusing answers what was refused before it became a request.
type refusing struct{ exchange.Handler }

// Serve implements exchange.Handler.
func (h refusing) Serve(x *exchange.Exchange) {
	if r := x.Refusal; r != nil {
		answerText(x, r.Status, r.Text)
		return
	}
	h.Handler.Serve(x)
}

// FastHTTP lets a fasthttp.RequestHandler answer exchanges. The request's body is
// there as a whole; a body stream of the answer is passed on as it comes. A
// panic is logged and answered with 500. What was refused before it became a
// request is answered without the handler.
func FastHTTP(h fasthttp.RequestHandler) exchange.Handler { return fastHandler{h} }

type fastHandler struct{ handler fasthttp.RequestHandler }

// fastCall is what one exchange needs, kept for the next.
type fastCall struct {
	ctx   fasthttp.RequestCtx
	conn  facade
	whole exchange.Bytes
}

var fastCalls = sync.Pool{New: func() any { return new(fastCall) }}

// Serve implements exchange.Handler.
func (f fastHandler) Serve(x *exchange.Exchange) {
	if r := x.Refusal; r != nil {
		answerText(x, r.Status, r.Text)
		return
	}
	c := fastCalls.Get().(*fastCall) //nolint:forcetypeassert // nothing else is put there
	c.conn.info = x.Conn
	c.ctx.Init2(&c.conn, nil, false)
	if err := fillRequest(&c.ctx.Request, x); err != nil {
		c.put()
		x.Responder.Abort(err)
		return
	}
	if !f.call(&c.ctx, x) {
		c.put()
		return
	}
	res := &c.ctx.Response
	if late := c.ctx.LastTimeoutErrorResponse(); late != nil {
		c.answer(x, late)
		return // the handler still has the rest
	}
	c.answer(x, res)
	c.put()
}

func (c *fastCall) put() {
	c.conn.info = nil
	c.whole.Reset(nil)
	c.ctx.ResetUserValues()
	c.ctx.Request.Reset()
	c.ctx.Response.Reset()
	fastCalls.Put(c)
}

// call runs the handler; false where it panicked and all is done.
func (f fastHandler) call(ctx *fasthttp.RequestCtx, x *exchange.Exchange) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			slog.Error("handler panicked", "path", string(x.Request.Path()), "panic", v, "stack", string(debug.Stack()))
			answerText(x, 500, "the service failed to answer")
		}
	}()
	f.handler(ctx)
	return true
}

func answerText(x *exchange.Exchange, status int, text string) {
	h := &x.Response
	h.Reset(nil)
	h.Status = status
	h.AddKnownString(exchange.ContentType, "text/plain; charset=utf-8")
	if err := x.Responder.Respond(h, exchange.NewBytes([]byte(text+"\n"))); err != nil {
		x.Responder.Abort(err)
	}
}

// fillRequest makes fasthttp's request of the exchange. Nothing of the
// exchange's memory goes into it: a handler that was timed out keeps it.
func fillRequest(q *fasthttp.Request, x *exchange.Exchange) error {
	h := &x.Request
	q.Header.SetMethodBytes(h.MethodName())
	q.Header.SetRequestURIBytes(h.Target())
	q.Header.SetHostBytes(h.Authority())
	for i := range h.Len() {
		if !h.Dropped(i) {
			q.Header.AddBytesKV(h.Name(i), h.Value(i))
		}
	}
	if x.Conn.Secure {
		q.URI().SetScheme("https")
	}
	if x.Body == nil {
		return nil
	}
	if whole, ok := x.Body.Whole(); ok {
		q.SetBody(whole)
		return nil
	}
	b, err := readBody(q.SwapBody(nil), x.Body)
	q.SwapBody(b)
	return err
}

// readBody reads a body into b's memory, which grows with what comes.
func readBody(b []byte, src exchange.Source) ([]byte, error) {
	b = b[:0]
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		if n := src.Length(); n > int64(cap(b)-len(b)) && len(b) > 0 {
			// What was announced has begun to come: room for as much again, and no more.
			grown := make([]byte, len(b), len(b)+int(min(n, int64(max(4*len(b), 1<<20)))))
			copy(grown, b)
			b = grown
		}
		n, err := src.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF { //nolint:errorlint // sources end with this value
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// answer passes on what the handler has set.
func (c *fastCall) answer(x *exchange.Exchange, res *fasthttp.Response) {
	h := &x.Response
	h.Reset(nil)
	h.Status = res.StatusCode()
	if m := res.Header.StatusMessage(); len(m) > 0 {
		h.SetReason(string(m))
	}
	copyHeader(h, &res.Header)
	var err error
	switch stream := res.BodyStream(); {
	case stream != nil && x.Request.Method != exchange.HEAD:
		src := &streamSource{r: stream, left: int64(max(-1, res.Header.ContentLength())), header: &res.Header}
		err = x.Responder.Respond(h, src)
		src.Close(err)
	case stream != nil || res.SkipBody:
		h.Length = int64(max(-1, res.Header.ContentLength()))
		err = x.Responder.Respond(h, nil)
	default:
		body := res.Body()
		h.Length = int64(len(body))
		c.whole.Reset(body)
		err = x.Responder.Respond(h, &c.whole)
	}
	if err != nil {
		x.Responder.Abort(err)
	}
}

// copyHeader takes over the fields that are the message's own.
func copyHeader(h *exchange.Head, header *fasthttp.ResponseHeader) {
	for key, value := range header.All() {
		switch exchange.LookupName(key) {
		case exchange.ContentLength, exchange.TransferEncoding, exchange.Connection, exchange.KeepAlive,
			exchange.ProxyConnection, exchange.Upgrade, exchange.Trailer:
			continue
		}
		if exchange.IsToken(key) && exchange.IsFieldValue(value) && !isTrailer(header, key) {
			h.Add(key, value)
		}
	}
}

func isTrailer(header *fasthttp.ResponseHeader, key []byte) bool {
	for name := range header.Trailers() {
		if exchange.EqualFold(name, key) {
			return true
		}
	}
	return false
}

// streamBytes is how much of a stream is read at a time.
const streamBytes = 32 << 10

// streamSource is a Source over an io.Reader.
type streamSource struct {
	r       io.Reader
	left    int64                    // -1 when unknown
	header  *fasthttp.ResponseHeader // has the trailers; nil for none
	trailer *http.Header             // net/http's, filled once the body has ended; nil for none
	buf     []byte
	once    sync.Once
}

// Length implements exchange.Source.
func (s *streamSource) Length() int64 { return s.left }

// Whole implements exchange.Source.
func (s *streamSource) Whole() ([]byte, bool) { return nil, s.left == 0 }

// Buffered implements exchange.Source.
func (s *streamSource) Buffered() int { return 0 }

// Next implements exchange.Source.
func (s *streamSource) Next() ([]byte, error) {
	if s.buf == nil {
		s.buf = make([]byte, streamBytes)
	}
	n, err := s.Read(s.buf)
	return s.buf[:n], err
}

// Read implements exchange.Source.
func (s *streamSource) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	if s.left > 0 {
		p = p[:min(int64(len(p)), s.left)]
	}
	n, err := s.r.Read(p)
	if s.left > 0 {
		s.left -= int64(n)
		switch {
		case s.left == 0:
			err = io.EOF
		case err == io.EOF: //nolint:errorlint // readers end with this value
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// Trailers implements exchange.Source.
func (s *streamSource) Trailers() *exchange.Head {
	var t exchange.Head
	t.Reset(nil)
	if s.header != nil {
		for name := range s.header.Trailers() {
			addField(&t, name, s.header.PeekBytes(name))
		}
	}
	if s.trailer == nil {
		return nonEmpty(&t)
	}
	for name, values := range *s.trailer {
		for _, v := range values {
			addField(&t, []byte(name), []byte(v))
		}
	}
	return nonEmpty(&t)
}

func nonEmpty(h *exchange.Head) *exchange.Head {
	if h.Len() == 0 {
		return nil
	}
	return h
}

func addField(h *exchange.Head, name, value []byte) {
	if len(value) > 0 && exchange.IsToken(name) && exchange.IsFieldValue(value) {
		h.Add(name, value)
	}
}

// Close implements exchange.Source.
func (s *streamSource) Close(error) {
	s.once.Do(func() {
		if c, ok := s.r.(io.Closer); ok {
			_ = c.Close() // its error is the handler's
		}
	})
}

// facade is what a handler may ask of its connection: addresses.
type facade struct{ info *exchange.Conn }

func (*facade) Read([]byte) (int, error)  { return 0, net.ErrClosed }
func (*facade) Write([]byte) (int, error) { return 0, net.ErrClosed }
func (*facade) Close() error              { return nil }

func (c *facade) LocalAddr() net.Addr {
	if c.info == nil || !c.info.Local.IsValid() {
		return &net.UnixAddr{Net: "unix"}
	}
	return net.TCPAddrFromAddrPort(c.info.Local)
}

func (c *facade) RemoteAddr() net.Addr {
	if c.info == nil || !c.info.Client.IsValid() {
		return &net.UnixAddr{Net: "unix"}
	}
	return net.TCPAddrFromAddrPort(c.info.Client)
}

func (*facade) SetDeadline(time.Time) error      { return nil }
func (*facade) SetReadDeadline(time.Time) error  { return nil }
func (*facade) SetWriteDeadline(time.Time) error { return nil }
