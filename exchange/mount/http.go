package mount

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/textproto"
	"net/url"
	"runtime/debug"
	"sync"

	"github.com/hanzoai/pqgw/exchange"
)

// HTTP lets an http.Handler answer exchanges. Bodies stream both ways and nothing
// larger than a few KiB is kept; http.Flusher, trailers, 1xx, full duplex and
// http.Hijacker (for WebSocket) work as with net/http. Deadlines of
// http.ResponseController do not: limits are the listener's.
//
// The request's context ends when the client is gone or the handler returns. A panic is logged
// and answered with 500, or cuts the answer that has begun; http.ErrAbortHandler
// cuts in silence.
func HTTP(h http.Handler) exchange.Handler { return &httpHandler{h} }

type httpHandler struct{ handler http.Handler }

// Serve implements exchange.Handler.
func (m *httpHandler) Serve(x *exchange.Exchange) {
	ctx, cancel := context.WithCancelCause(context.WithValue(context.Background(), http.LocalAddrContextKey, tcpAddr(x.Conn.Local)))
	w := &writer{x: x, header: http.Header{}}
	gone := &exchange.Canceller{Cancel: func(reason error) { cancel(reason); w.gone() }}
	if reason := x.OnCancel(gone); reason != nil {
		cancel(reason)
	}
	body := &requestBody{w: w}
	req, err := requestOf(ctx, x, body)
	if err != nil {
		refuseTarget(x)
	} else {
		m.call(w, req)
	}
	cancel(errReturned)
	x.OffCancel(gone)
	body.end()
	w.end()
}

var errReturned = errors.New("the handler has returned")

// call runs the handler and finishes what it left open.
func (m *httpHandler) call(w *writer, req *http.Request) {
	defer func() {
		if v := recover(); v != nil {
			w.panicked(v)
		}
	}()
	m.handler.ServeHTTP(w, req)
	w.finish()
}

func (w *writer) panicked(v any) {
	if v != http.ErrAbortHandler { //nolint:errorlint // net/http compares likewise
		slog.Error("handler panicked", "method", text(w.x.Request.MethodName()), "path", text(w.x.Request.Path()), "panic", v, "stack", string(debug.Stack()))
	}
	w.fail(errPanic, v != http.ErrAbortHandler) //nolint:errorlint // as above
}

var errPanic = errors.New("the handler panicked")

func refuseTarget(x *exchange.Exchange) {
	h := &x.Response
	h.Reset(nil)
	h.Status = 400
	h.AddKnownString(exchange.ContentType, "text/plain; charset=utf-8")
	respond(x, h, []byte("the request target is not valid\n"))
}

// requestOf makes net/http's request of the exchange. All is copied: a handler
// may keep it.
func requestOf(ctx context.Context, x *exchange.Exchange, body *requestBody) (*http.Request, error) {
	h := &x.Request
	method, target := string(h.MethodName()), string(h.Target())
	upgrade := string(h.Protocol())
	if upgrade != "" {
		method = http.MethodGet // an extended CONNECT is the same wish (RFC 8441, section 5)
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, err
	}
	r := &http.Request{
		Method: method, URL: u, RequestURI: target, Host: string(h.Authority()),
		Header: headerOf(h), RemoteAddr: address(x.Conn.Client, "@"), TLS: tlsState(x.Conn),
		ContentLength: h.Length, Body: http.NoBody,
	}
	r.Proto, r.ProtoMajor, r.ProtoMinor = protocolOf(x.Conn.Protocol)
	if x.Body != nil {
		body.src = x.Body
		r.Body, r.ContentLength = body, x.Body.Length()
		if r.ContentLength < 0 && x.Conn.Protocol == exchange.HTTP1 {
			r.TransferEncoding = []string{"chunked"}
		}
	} else {
		r.ContentLength = 0
	}
	if upgrade != "" {
		wishUpgrade(r.Header, upgrade)
	}
	r = r.WithContext(ctx)
	body.req = r
	return r, nil
}

// keys are the known names as http.Header has them: "X-Pq-Group", not "X-PQ-Group".
var keys = func() (k [256]string) {
	for id := range exchange.KnownNames {
		k[id] = textproto.CanonicalMIMEHeaderKey(exchange.Name(id).String())
	}
	return k
}()

// headerOf is the head's fields as net/http has them.
func headerOf(h *exchange.Head) http.Header {
	header := make(http.Header, h.Live())
	for i := range h.Len() {
		if h.Dropped(i) {
			continue
		}
		key := keys[h.ID(i)]
		if key == "" {
			key = textproto.CanonicalMIMEHeaderKey(string(h.Name(i)))
		}
		header[key] = append(header[key], string(h.Value(i)))
	}
	if h.TETrailers {
		header.Set("Te", "trailers")
	}
	return header
}

func protocolOf(p exchange.Protocol) (name string, major, minor int) {
	switch p {
	case exchange.HTTP2:
		return "HTTP/2.0", 2, 0
	case exchange.HTTP3:
		return "HTTP/3.0", 3, 0
	}
	return "HTTP/1.1", 1, 1
}

// tlsState is what handlers ask of TLS; certificates are not in it.
func tlsState(c *exchange.Conn) *tls.ConnectionState {
	if !c.Secure {
		return nil
	}
	f := &c.Facts
	return &tls.ConnectionState{
		Version: f.Version, HandshakeComplete: true, DidResume: f.Resumed, CipherSuite: f.CipherSuite,
		NegotiatedProtocol: f.ALPN, ServerName: f.SNI, CurveID: f.Group, HelloRetryRequest: f.HRR,
	}
}

// requestBody is the body as an io.ReadCloser. It is useless once the handler
// has returned, whoever still holds it.
type requestBody struct {
	w    *writer
	src  exchange.Source
	req  *http.Request
	lock sync.Mutex
	over bool
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.over {
		return 0, http.ErrBodyReadAfterClose
	}
	if err := b.w.askForBody(); err != nil {
		return 0, err
	}
	n, err := b.src.Read(p)
	if err == io.EOF { //nolint:errorlint // the end is this value
		if t := b.src.Trailers(); t != nil && t.Live() > 0 {
			b.req.Trailer = headerOf(t)
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *requestBody) Close() error {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.over = true
	return nil
}

// end takes the body back, ending a Read that a left-over goroutine waits in.
func (b *requestBody) end() {
	if b.src == nil {
		return
	}
	if !b.lock.TryLock() {
		b.src.Close(errReturned)
		b.lock.Lock()
	}
	b.over = true
	b.lock.Unlock()
}
