package zap

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/hanzoai/pqgw/exchange"
)

// job is what a call needs, kept for the next.
type job struct {
	x     exchange.Exchange
	conn  exchange.Conn
	whole exchange.Bytes
	key   []byte
}

var jobs = sync.Pool{New: func() any { return new(job) }}

// Do calls the service that req's URI names and fills resp, as fasthttp's client
// does. With resp.StreamBody the body is a stream, which must be read to its end or
// closed (resp.CloseBodyStream). Errors of the connection are
// *exchange.UpstreamError.
func (c *Client) Do(req *fasthttp.Request, resp *fasthttp.Response) error {
	return c.do(context.Background(), req, resp, c.Timeouts)
}

// DoTimeout is Do with a bound on the wait for the answer, and on each pause in
// its body.
func (c *Client) DoTimeout(req *fasthttp.Request, resp *fasthttp.Response, t time.Duration) error {
	return c.do(context.Background(), req, resp, exchange.Timeouts{FirstByte: t, Idle: t})
}

// DoContext is Do until ctx ends; the error is then ctx's.
func (c *Client) DoContext(ctx context.Context, req *fasthttp.Request, resp *fasthttp.Response) error {
	return c.do(ctx, req, resp, c.Timeouts)
}

func (c *Client) do(ctx context.Context, req *fasthttp.Request, resp *fasthttp.Response, t exchange.Timeouts) error {
	j := jobs.Get().(*job) //nolint:forcetypeassert // nothing else is put there
	uri := req.URI()
	j.key = append(append(append(j.key[:0], uri.Scheme()...), "://"...), uri.Host()...)
	e, err := c.endpointOf(j.key)
	if err != nil {
		jobs.Put(j)
		return err
	}
	src := j.fill(req, uri)
	l, err := e.carry(ctx, c, &j.x, src, t)
	if err != nil {
		jobs.Put(j)
		return err
	}
	stream := resp.StreamBody
	resp.Reset()
	resp.StreamBody = stream
	fillResponse(resp, &j.x)
	if body := l.Body(); body != nil && stream {
		resp.SetBodyStream(&answerBody{l: l, j: j, src: body, done: func(t *exchange.Head) { addTrailers(&resp.Header, t) }}, int(j.x.Response.Length))
		return nil
	}
	err = l.whole(resp)
	l.end(err)
	jobs.Put(j)
	return err
}

// whole reads the body into resp's own memory.
func (l *lease) whole(resp *fasthttp.Response) error {
	src := l.Body()
	if src == nil {
		return nil
	}
	b, err := readBody(resp.SwapBody(nil), src)
	resp.SwapBody(b)
	if err == nil {
		addTrailers(&resp.Header, src.Trailers())
	}
	return err
}

// fill makes the exchange's request.
func (j *job) fill(req *fasthttp.Request, uri *fasthttp.URI) exchange.Source {
	j.x.Reset(&j.conn)
	h := &j.x.Request
	h.Reset(nil)
	h.SetMethod(req.Header.Method())
	h.SetTarget(uri.RequestURI())
	h.SetAuthority(uri.Host())
	if host := req.Header.Host(); len(host) > 0 {
		h.SetAuthority(host)
	}
	for key, value := range req.Header.All() {
		if !ownField(exchange.LookupName(key)) {
			h.Add(key, value)
		}
	}
	if req.IsBodyStream() {
		return &streamSource{r: req.BodyStream(), left: int64(max(-1, req.Header.ContentLength()))}
	}
	body := req.Body()
	if len(body) == 0 {
		return nil
	}
	j.whole.Reset(body)
	return &j.whole
}

// ownField names those that a message on this wire says otherwise.
func ownField(id exchange.Name) bool {
	switch id {
	case exchange.Host, exchange.ContentLength, exchange.TransferEncoding, exchange.Connection, exchange.KeepAlive,
		exchange.ProxyConnection, exchange.Upgrade, exchange.Trailer, exchange.TE, exchange.Expect:
		return true
	}
	return false
}

// fillResponse takes the head over.
func fillResponse(resp *fasthttp.Response, x *exchange.Exchange) {
	h := &x.Response
	resp.SetStatusCode(h.Status)
	if r := h.Reason(); len(r) > 0 && string(r) != fasthttp.StatusMessage(h.Status) {
		resp.Header.SetStatusMessage(r)
	}
	for i := range h.Len() {
		if !h.Dropped(i) {
			resp.Header.AddBytesKV(h.Name(i), h.Value(i))
		}
	}
	if exchange.NoBody(x.Request.Method, h.Status) {
		resp.SkipBody = true
		if h.Length >= 0 {
			resp.Header.SetContentLength(int(h.Length))
		}
	}
}

func addTrailers(header *fasthttp.ResponseHeader, t *exchange.Head) {
	if t == nil {
		return
	}
	for i := range t.Len() {
		if !t.Dropped(i) {
			if header.AddTrailerBytes(t.Name(i)) == nil {
				header.AddBytesKV(t.Name(i), t.Value(i))
			}
		}
	}
}

// answerBody is an answer's body as a reader; the end of it, or Close, ends the
// exchange.
type answerBody struct {
	l    *lease
	j    *job
	src  exchange.Source
	done func(trailers *exchange.Head)
	mu   sync.Mutex // Read and Close may come from two goroutines
	over bool

	running sync.Mutex // of ended: a call is cancelled while it is ours only
	ended   bool
}

// errBodyClosed is the error of a read after Close.
var errBodyClosed = errors.New("zap: read of a closed body")

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return 0, errBodyClosed
	}
	if b.src == nil {
		return 0, io.EOF
	}
	n, err := b.src.Read(p)
	if err == nil {
		return n, nil
	}
	if isEOF(err) {
		if b.done != nil {
			b.done(b.src.Trailers())
		}
		b.finish(nil)
		return n, io.EOF
	}
	b.finish(err)
	b.over = true
	return n, err
}

// Close implements io.Closer.
func (b *answerBody) Close() error {
	if !b.mu.TryLock() {
		b.cancel() // ends the Read that waits
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	b.over = true
	if b.src != nil {
		b.finish(errBodyClosed)
	}
	return nil
}

func (b *answerBody) cancel() {
	b.running.Lock()
	defer b.running.Unlock()
	if !b.ended {
		b.l.Canceller().Cancel(errBodyClosed)
	}
}

func (b *answerBody) finish(err error) {
	b.running.Lock()
	b.ended = true
	b.running.Unlock()
	b.l.end(err)
	jobs.Put(b.j)
	b.src, b.j = nil, nil
}
