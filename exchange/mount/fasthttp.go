package mount

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/hanzoai/pqgw/exchange"
)

// FastHTTP lets a fasthttp.RequestHandler answer exchanges. A small request body
// is there at once; a larger one is a stream (RequestBodyStream), of which PostBody
// reads all into memory. A body stream of the answer is passed on as it comes
// (SetBodyStreamWriter and its Flush). Hijack works for WebSocket.
//
// [Context] gives what ends when the client is gone. A panic is logged and
// answered with 500.
func FastHTTP(h fasthttp.RequestHandler) exchange.Handler {
	return &fastHandler{handler: h, upgrades: &fasthttp.Server{
		Handler: h, NoDefaultServerHeader: true, NoDefaultDate: true, NoDefaultContentType: true,
		Logger: quiet{},
	}}
}

type fastHandler struct {
	handler fasthttp.RequestHandler
	// upgrades drives requests to upgrade over a pipe: what Hijack was given
	// can only be run by fasthttp's own server.
	upgrades *fasthttp.Server
}

// quiet drops what fasthttp's server says of connections that end.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

type contextKey struct{}

// Context is what ends when the client is gone or the handler has returned: a
// *fasthttp.RequestCtx itself only ends with its server. In a request that did not
// come through this package it is ctx itself.
func Context(ctx *fasthttp.RequestCtx) context.Context {
	if c, ok := ctx.UserValue(contextKey{}).(context.Context); ok {
		return c
	}
	return ctx
}

var fastContexts = sync.Pool{New: func() any { return new(fasthttp.RequestCtx) }}

// Serve implements exchange.Handler.
func (m *fastHandler) Serve(x *exchange.Exchange) {
	if len(x.Request.Protocol()) > 0 {
		m.upgrade(x)
		return
	}
	run, cancel := context.WithCancelCause(context.Background())
	gone := &exchange.Canceller{Cancel: func(reason error) { cancel(reason) }}
	if reason := x.OnCancel(gone); reason != nil {
		cancel(reason)
	}
	ctx := fastContexts.Get().(*fasthttp.RequestCtx) //nolint:forcetypeassert // nothing else is put there
	ctx.Init2(connOf(x.Conn), slogLogger{}, false)
	body := fillFast(ctx, x)
	ctx.SetUserValue(contextKey{}, run)
	ok := m.call(ctx, x)
	x.OffCancel(gone)
	if ok {
		answerFast(ctx, x)
	}
	cancel(errReturned)
	if body != nil {
		body.end()
	}
	if ctx.LastTimeoutErrorResponse() == nil { // else the handler still has it
		ctx.ResetUserValues()
		ctx.Request.Reset()
		ctx.Response.Reset()
		fastContexts.Put(ctx)
	}
}

// call runs the handler; false where it panicked and all is done.
func (m *fastHandler) call(ctx *fasthttp.RequestCtx, x *exchange.Exchange) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			slog.Error("handler panicked", "method", text(x.Request.MethodName()), "path", text(x.Request.Path()), "panic", v, "stack", string(debug.Stack()))
			internalError(x)
		}
	}()
	m.handler(ctx)
	return true
}

func internalError(x *exchange.Exchange) {
	h := &x.Response
	h.Reset(nil)
	h.Status = 500
	h.AddKnownString(exchange.ContentType, "text/plain; charset=utf-8")
	respond(x, h, []byte("500 internal: the service failed to answer\n"))
}

// fillFast makes fasthttp's request of the exchange. Nothing of the exchange's
// memory goes into it: a handler that was timed out keeps it.
func fillFast(ctx *fasthttp.RequestCtx, x *exchange.Exchange) *streamBody {
	q, h := &ctx.Request, &x.Request
	q.Header.SetMethodBytes(h.MethodName())
	q.Header.SetRequestURIBytes(h.Target())
	if x.Conn.Protocol != exchange.HTTP1 {
		name, _, _ := protocolOf(x.Conn.Protocol)
		q.Header.SetProtocol(name)
	}
	for i := range h.Len() {
		if !h.Dropped(i) {
			q.Header.AddBytesKV(h.Name(i), h.Value(i))
		}
	}
	q.Header.SetHostBytes(h.Authority())
	if h.TETrailers {
		q.Header.Set("Te", "trailers")
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
	b := &streamBody{x: x}
	q.SetBodyStream(b, int(x.Body.Length()))
	return b
}

// streamBody is a request's body as an io.Reader, useless once the handler has
// returned.
type streamBody struct {
	x     *exchange.Exchange
	mu    sync.Mutex
	asked bool
	over  bool
}

func (b *streamBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return 0, errReturned
	}
	if !b.asked && b.x.Request.ExpectContinue && !b.x.Responder.Started() {
		var h exchange.Head
		h.Reset(nil)
		h.Status = 100
		if err := b.x.Responder.Interim(&h); err != nil {
			return 0, err
		}
	}
	b.asked = true
	return b.x.Body.Read(p)
}

func (b *streamBody) end() {
	if !b.mu.TryLock() {
		b.x.Body.Close(errReturned)
		b.mu.Lock()
	}
	b.over = true
	b.mu.Unlock()
}

type slogLogger struct{}

func (slogLogger) Printf(format string, args ...any) {
	slog.Info("fasthttp handler", "message", sprintf(format, args...))
}

// facadeConn is what a handler may ask of its connection: addresses, and that it is
// not to be read or written.
type facadeConn struct{ local, remote net.Addr }

func connOf(c *exchange.Conn) net.Conn {
	f := facadeConn{local: tcpAddr(c.Local), remote: tcpAddr(c.Client)}
	if !c.Secure {
		return &f
	}
	return &facadeTLS{facadeConn: f, state: *tlsState(c)}
}

func (*facadeConn) Read([]byte) (int, error)         { return 0, net.ErrClosed }
func (*facadeConn) Write([]byte) (int, error)        { return 0, net.ErrClosed }
func (*facadeConn) Close() error                     { return nil }
func (c *facadeConn) LocalAddr() net.Addr            { return c.local }
func (c *facadeConn) RemoteAddr() net.Addr           { return c.remote }
func (*facadeConn) SetDeadline(time.Time) error      { return nil }
func (*facadeConn) SetReadDeadline(time.Time) error  { return nil }
func (*facadeConn) SetWriteDeadline(time.Time) error { return nil }

// facadeTLS is one that shows its TLS state.
type facadeTLS struct {
	facadeConn
	state tls.ConnectionState
}

func (*facadeTLS) Handshake() error                       { return nil }
func (c *facadeTLS) ConnectionState() tls.ConnectionState { return c.state }
