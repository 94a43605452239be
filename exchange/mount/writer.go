package mount

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hanzoai/pqgw/exchange"
)

// holdBytes is up to where an answer is kept back, for its length to be known
// and for head and body to leave in one piece.
const holdBytes = 4 << 10

// writer is the http.ResponseWriter of an exchange.
type writer struct {
	x      *exchange.Exchange
	header http.Header

	mu       sync.Mutex // what follows is useless once over
	over     bool
	asked    bool // 100 Continue was sent or is not needed
	status   int
	held     []byte
	sink     exchange.Sink
	length   int64 // announced, -1 when not
	written  int64
	trailers []string
	hijacked atomic.Pointer[hijack]
	failed   error
}

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if status >= 100 && status < 200 && status != 101 {
		w.interim(status)
		return
	}
	w.writeHeader(status)
}

func (w *writer) interim(status int) {
	if w.over || w.status != 0 {
		return
	}
	var h exchange.Head
	h.Reset(nil)
	h.Status = status
	copyHeader(&h, w.header)
	if status == 100 {
		w.asked = true
	}
	if err := w.x.Responder.Interim(&h); err != nil {
		w.failed = err
	}
}

// askForBody sends 100 Continue to a client that waits for it.
func (w *writer) askForBody() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked || w.over || w.status != 0 || !w.x.Request.ExpectContinue {
		return nil
	}
	w.asked = true
	var h exchange.Head
	h.Reset(nil)
	h.Status = 100
	return w.x.Responder.Interim(&h)
}

func (w *writer) writeHeader(status int) {
	if w.over || w.status != 0 || w.hijacked.Load() != nil {
		return
	}
	if status < 200 || status > 999 {
		status = http.StatusInternalServerError
	}
	w.status, w.length = status, -1
	if v := w.header.Get("Content-Length"); v != "" {
		w.length = exchange.ParseLength([]byte(strings.TrimSpace(v)))
	}
	for _, list := range w.header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); name != "" {
				w.trailers = append(w.trailers, name)
			}
		}
	}
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.hijacked.Load() != nil:
		return 0, http.ErrHijacked
	case w.over:
		return 0, errReturned
	case w.failed != nil:
		return 0, w.failed
	}
	w.writeHeader(http.StatusOK)
	if w.status == 204 || w.status == 304 {
		return 0, http.ErrBodyNotAllowed
	}
	if w.length >= 0 && w.written+int64(len(p)) > w.length {
		return 0, http.ErrContentLength
	}
	w.written += int64(len(p))
	if w.x.Request.Method == exchange.HEAD {
		w.hold(p)
		return len(p), nil
	}
	return w.push(p)
}

// hold keeps the beginning of a HEAD's body, to tell its type.
func (w *writer) hold(p []byte) {
	w.held = append(w.held, p[:min(len(p), max(0, 512-len(w.held)))]...)
}

func (w *writer) push(p []byte) (int, error) {
	if w.sink == nil {
		if len(w.held)+len(p) <= holdBytes {
			w.held = append(w.held, p...)
			return len(p), nil
		}
		w.sniff(p)
		if err := w.start(); err != nil {
			return 0, err
		}
	}
	n, err := w.sink.Write(p)
	return n, w.note(err)
}

func (w *writer) note(err error) error {
	if err != nil && w.failed == nil {
		w.failed = err
	}
	return err
}

// start sends the head and what is held; the rest is pushed.
func (w *writer) start() error {
	if w.failed != nil {
		return w.failed
	}
	sink, err := w.x.Responder.Start(w.head(), w.length)
	if err != nil {
		return w.note(err)
	}
	w.sink = sink
	if len(w.held) > 0 && w.x.Request.Method != exchange.HEAD {
		_, err = sink.Write(w.held)
	}
	w.held = nil
	return w.note(err)
}

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError is Flush, as http.ResponseController calls it.
func (w *writer) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.hijacked.Load() != nil {
		return errReturned
	}
	w.writeHeader(http.StatusOK)
	if w.sink == nil {
		w.sniff(nil)
		if err := w.start(); err != nil {
			return err
		}
	}
	return w.note(w.sink.Flush())
}

// EnableFullDuplex is for http.ResponseController: it is always so.
func (w *writer) EnableFullDuplex() error { return nil }

// sniff sets Content-Type as net/http does, from what is held and what follows.
func (w *writer) sniff(next []byte) {
	if _, set := w.header["Content-Type"]; set || w.status == 204 || w.status == 304 || w.header.Get("Content-Encoding") != "" {
		return
	}
	b := w.held
	if len(b) < 512 {
		b = slices.Concat(b, next[:min(len(next), 512-len(b))])
	}
	if len(b) > 0 {
		w.header.Set("Content-Type", http.DetectContentType(b))
	}
}

// head is the final head of what the handler has set.
func (w *writer) head() *exchange.Head {
	h := &w.x.Response
	h.Reset(nil)
	h.Status, h.Length = w.status, w.length
	copyHeader(h, w.header)
	return h
}

// copyHeader copies what may travel; framing is the transport's.
func copyHeader(h *exchange.Head, header http.Header) {
	for key, values := range header {
		if strings.HasPrefix(key, http.TrailerPrefix) || !exchange.IsToken([]byte(key)) {
			continue
		}
		switch exchange.LookupName([]byte(key)) {
		case exchange.ContentLength, exchange.TransferEncoding, exchange.Connection, exchange.KeepAlive,
			exchange.ProxyConnection, exchange.Upgrade:
			continue
		}
		for _, v := range values {
			h.AddString(key, fieldValue(v))
		}
	}
}

// fieldValue makes a value fit to be one, as net/http does.
func fieldValue(v string) string {
	if v = strings.Trim(v, " \t"); exchange.IsFieldValue([]byte(v)) {
		return v
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return ' '
		}
		return r
	}, v)
}

var errShort = errors.New("the handler wrote less than its Content-Length")

// finish ends the answer after the handler has returned.
func (w *writer) finish() {
	if hj := w.hijacked.Load(); hj != nil {
		hj.wait()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(http.StatusOK)
	if w.failed != nil {
		w.cut(w.failed)
		return
	}
	head := w.x.Request.Method == exchange.HEAD
	if !head && w.length >= 0 && w.written < w.length && w.status != 204 && w.status != 304 {
		w.cut(errShort)
		return
	}
	trailers := w.trailerHead()
	if w.sink == nil {
		w.sniff(nil)
		if trailers == nil {
			w.whole(head)
			return
		}
		if w.start() != nil {
			w.cut(w.failed)
			return
		}
	}
	if err := w.sink.Finish(trailers); err != nil {
		w.x.Responder.Abort(err)
	}
}

// whole answers in one piece. The length of a HEAD's answer is known where the
// handler wrote its body.
func (w *writer) whole(head bool) {
	h := w.head()
	if !head {
		respond(w.x, h, w.held)
		return
	}
	if w.length < 0 && w.written > 0 {
		h.Length = w.written
	}
	if err := w.x.Responder.Respond(h, nil); err != nil {
		w.x.Responder.Abort(err)
	}
}

// trailerHead is the trailer section, nil for none: the names that Trailer
// announced, and those with http.TrailerPrefix.
func (w *writer) trailerHead() *exchange.Head {
	var t exchange.Head
	t.Reset(nil)
	for _, name := range w.trailers {
		for _, v := range w.header[name] {
			t.AddString(name, fieldValue(v))
		}
	}
	for key, values := range w.header {
		if name, ok := strings.CutPrefix(key, http.TrailerPrefix); ok && exchange.IsToken([]byte(name)) {
			for _, v := range values {
				t.AddString(name, fieldValue(v))
			}
		}
	}
	if t.Live() == 0 || w.x.Request.Method == exchange.HEAD {
		return nil
	}
	return &t
}

// cut ends an answer that cannot be whole.
func (w *writer) cut(reason error) {
	if w.sink != nil {
		w.sink.Reset(reason)
	}
	w.x.Responder.Abort(reason)
}

// fail ends the exchange of a handler that panicked: with 500 where nothing has
// been sent and answer is set.
func (w *writer) fail(reason error, answer bool) {
	if hj := w.hijacked.Load(); hj != nil {
		hj.abort()
		hj.wait()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !answer || w.sink != nil {
		w.cut(reason)
		return
	}
	w.header = http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
	w.status, w.length = http.StatusInternalServerError, -1
	respond(w.x, w.head(), []byte(strconv.Itoa(w.status)+" internal: the service failed to answer\n"))
}

// gone ends a hijacked connection whose client has left.
func (w *writer) gone() {
	if hj := w.hijacked.Load(); hj != nil {
		hj.abort()
	}
}

// end makes the writer useless to whoever still holds it.
func (w *writer) end() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
}
