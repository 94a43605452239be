package zap

import (
	"io"
	"net/http"
	"strconv"

	"github.com/hanzoai/pqgw/exchange"
)

// RoundTrip implements http.RoundTripper:
//
//	client := http.Client{Transport: &zap.Client{}}
//	resp, err := client.Get("zap+tls://users.internal/v1/me")
//
// The answer's body must be read to its end or closed, as net/http's.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	j := jobs.Get().(*job) //nolint:forcetypeassert // nothing else is put there
	j.key = append(append(append(j.key[:0], req.URL.Scheme...), "://"...), req.URL.Host...)
	e, err := c.endpointOf(j.key)
	var l *lease
	src := j.fillHTTP(req)
	if err == nil {
		l, err = e.carry(req.Context(), c, &j.x, src, c.Timeouts)
	}
	if err != nil {
		if src != nil {
			src.Close(err)
		}
		jobs.Put(j)
		return nil, err
	}
	return answerOf(req, l, j), nil
}

// fillHTTP makes the exchange's request.
func (j *job) fillHTTP(req *http.Request) exchange.Source {
	j.x.Reset(&j.conn)
	h := &j.x.Request
	h.Reset(nil)
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	h.SetMethod([]byte(method))
	h.SetTarget([]byte(req.URL.RequestURI()))
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	h.SetAuthority([]byte(host))
	for name, values := range req.Header {
		id := exchange.LookupName([]byte(name))
		for _, v := range values {
			if !ownField(id) {
				h.AddString(name, v)
			}
		}
	}
	if req.Body == nil || req.Body == http.NoBody {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil
	}
	s := &streamSource{r: req.Body, left: -1, trailer: &req.Trailer}
	if req.ContentLength > 0 {
		s.left = req.ContentLength
	}
	if len(req.Trailer) > 0 {
		h.AddKnownString(exchange.Trailer, "announced") // tells the transport that some follow
	}
	return s
}

// answerOf makes net/http's answer.
func answerOf(req *http.Request, l *lease, j *job) *http.Response {
	h := &j.x.Response
	r := &http.Response{
		Status: strconv.Itoa(h.Status) + " " + statusText(h), StatusCode: h.Status, Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: headerOf(h), ContentLength: h.Length, Body: http.NoBody,
	}
	if l.Stream.TLS != nil {
		cs := l.Stream.TLS.ConnectionState()
		r.TLS = &cs
	}
	body := l.Body()
	if body == nil {
		if !exchange.NoBody(j.x.Request.Method, h.Status) {
			r.ContentLength = 0
		}
		l.end(nil)
		jobs.Put(j)
		return r
	}
	r.Body = &answerBody{l: l, j: j, src: body, done: func(t *exchange.Head) {
		if t != nil {
			r.Trailer = headerOf(t)
		}
	}}
	return r
}

func statusText(h *exchange.Head) string {
	if r := h.Reason(); len(r) > 0 {
		return string(r)
	}
	return http.StatusText(h.Status)
}

// headerOf makes net/http's header of the live fields.
func headerOf(h *exchange.Head) http.Header {
	header := make(http.Header, h.Live())
	for i := range h.Len() {
		if !h.Dropped(i) {
			header.Add(string(h.Name(i)), string(h.Value(i)))
		}
	}
	return header
}

var (
	_ http.RoundTripper = (*Client)(nil)
	_ io.ReadCloser     = (*answerBody)(nil)
)
