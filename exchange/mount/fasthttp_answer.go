package mount

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/hanzoai/pqgw/exchange"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func tcpAddr(a netip.AddrPort) net.Addr {
	if !a.IsValid() {
		return &net.UnixAddr{Name: "@", Net: "unix"}
	}
	return net.TCPAddrFromAddrPort(a)
}

// answerFast passes on what the handler has set.
func answerFast(ctx *fasthttp.RequestCtx, x *exchange.Exchange) {
	res := &ctx.Response
	if late := ctx.LastTimeoutErrorResponse(); late != nil {
		res = late
	}
	h := &x.Response
	h.Reset(nil)
	h.Status = res.StatusCode()
	copyFast(h, res)
	if stream := res.BodyStream(); stream != nil {
		streamFast(x, res, stream)
		return
	}
	if x.Request.Method == exchange.HEAD && res.SkipBody && len(res.Body()) == 0 {
		h.Length = int64(res.Header.ContentLength())
		if err := x.Responder.Respond(h, nil); err != nil {
			x.Responder.Abort(err)
		}
		return
	}
	respond(x, h, res.Body())
}

func copyFast(h *exchange.Head, res *fasthttp.Response) {
	for key, value := range res.Header.All() {
		switch exchange.LookupName(key) {
		case exchange.ContentLength, exchange.TransferEncoding, exchange.Connection, exchange.KeepAlive,
			exchange.ProxyConnection, exchange.Upgrade:
			continue
		}
		if exchange.IsToken(key) && exchange.IsFieldValue(value) && !isTrailer(res, key) {
			h.Add(key, value)
		}
	}
}

func isTrailer(res *fasthttp.Response, key []byte) bool {
	for name := range res.Header.Trailers() {
		if exchange.EqualFold(name, string(key)) {
			return true
		}
	}
	return false
}

// streamFast passes a body stream on. When the client is gone while the handler's
// writer is quiet, the stream is closed under it, which ends it.
func streamFast(x *exchange.Exchange, res *fasthttp.Response, stream io.Reader) {
	src := &readerSource{r: stream, left: int64(res.Header.ContentLength()), res: res}
	if src.left < 0 {
		src.left = -1
	}
	gone := &exchange.Canceller{Cancel: src.Close}
	if reason := x.OnCancel(gone); reason != nil {
		src.Close(reason)
	}
	var err error
	if x.Request.Method == exchange.HEAD {
		x.Response.Length = src.left
		err = x.Responder.Respond(&x.Response, nil)
	} else {
		err = x.Responder.Respond(&x.Response, src)
	}
	if err != nil {
		x.Responder.Abort(err)
	}
	if x.OffCancel(gone) {
		src.Close(err)
	}
}

// streamPiece is how much of a stream is read at a time.
const streamPiece = 16 << 10

// readerSource is a Source over an io.Reader.
type readerSource struct {
	r    io.Reader
	left int64 // -1 when unknown
	res  *fasthttp.Response
	buf  []byte
	once sync.Once
}

func (s *readerSource) Length() int64         { return s.left }
func (s *readerSource) Whole() ([]byte, bool) { return nil, s.left == 0 }
func (s *readerSource) Buffered() int         { return 0 }

func (s *readerSource) Next() ([]byte, error) {
	if s.buf == nil {
		s.buf = make([]byte, streamPiece)
	}
	n, err := s.Read(s.buf)
	return s.buf[:n], err
}

func (s *readerSource) Read(p []byte) (int, error) {
	if s.left >= 0 && int64(len(p)) > s.left {
		p = p[:s.left]
	}
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.r.Read(p)
	if s.left > 0 {
		s.left -= int64(n)
		switch {
		case s.left == 0:
			err = io.EOF
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// Trailers implements exchange.Source.
func (s *readerSource) Trailers() *exchange.Head {
	var t *exchange.Head
	for name := range s.res.Header.Trailers() {
		if t == nil {
			t = &exchange.Head{}
			t.Reset(nil)
		}
		if v := s.res.Header.PeekBytes(name); len(v) > 0 && exchange.IsToken(name) && exchange.IsFieldValue(v) {
			t.Add(name, v)
		}
	}
	return t
}

// Close ends the stream; a writer of the handler's finds it closed.
func (s *readerSource) Close(error) {
	s.once.Do(func() {
		if c, ok := s.r.(io.Closer); ok {
			_ = c.Close() // its error is the handler's
		}
	})
}

// upgrade lets fasthttp's server run the handler over a pipe: the request is
// written to it, and its answer and what follows are taken from it.
func (m *fastHandler) upgrade(x *exchange.Exchange) {
	ours, theirs := net.Pipe()
	h := &hijack{x: x, ours: ours}
	gone := &exchange.Canceller{Cancel: func(error) { h.abort() }}
	if reason := x.OnCancel(gone); reason != nil {
		h.abort()
	}
	c := &hijackConn{Conn: theirs, local: tcpAddr(x.Conn.Local), remote: tcpAddr(x.Conn.Client)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = m.upgrades.ServeConn(c) // the answer says how it went
	}()
	h.done.Add(2)
	go func() {
		defer h.done.Done()
		if err := writeUpgrade(ours, x); err != nil {
			h.abort()
		}
	}()
	h.run()
	h.wait()
	<-served
	x.OffCancel(gone)
}

// writeUpgrade writes the request as fasthttp's server reads it.
func writeUpgrade(w io.Writer, x *exchange.Exchange) error {
	h := &x.Request
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "GET %s HTTP/1.1\r\nHost: %s\r\n", h.Target(), h.Authority())
	header := headerOf(h)
	wishUpgrade(header, string(h.Protocol()))
	if err := header.Write(b); err != nil {
		return err
	}
	if _, err := b.WriteString("\r\n"); err != nil {
		return err
	}
	return b.Flush()
}
