package gateway

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
)

// Verdicts of the gateway itself.
var (
	refuseNoRoute     = &exchange.Refusal{Status: 404, Reason: "no_route", Text: "nothing is served under this host and path"}
	refuseDotSegments = &exchange.Refusal{Status: 400, Reason: "dot_segments", Text: "the path has a segment '.' or '..'"}
	refuseAmbiguous   = &exchange.Refusal{Status: 400, Reason: "ambiguous_path", Text: "the path leads elsewhere once its encodings, slashes and parameters are resolved"}
)

// refuse answers with a verdict.
func (f *flow) refuse(r *exchange.Refusal) {
	f.reason, f.err = r.Reason, r
	f.explain(r.Status, r.Reason, r.Text)
}

// explain answers with a status and why, as JSON where the client prefers it. It
// says nothing of what lies behind the gateway.
func (f *flow) explain(status int, reason, text string) {
	x := f.x
	if x.Responder.Started() {
		x.Responder.Abort(f.err)
		return
	}
	h := &x.Response
	h.Reset(nil)
	h.Status = status
	b := f.scratch[:0]
	if bytes.Contains(x.Request.Get(exchange.Accept), []byte("json")) {
		h.AddKnownString(exchange.ContentType, "application/json")
		b = append(b, `{"status":`...)
		b = strconv.AppendInt(b, int64(status), 10)
		b = append(b, `,"error":"`...)
		b = append(b, reason...)
		b = append(b, `","message":"`...)
		b = append(b, text...)
		b = append(b, `","request_id":"`...)
		b = append(b, f.id...)
		b = append(b, "\"}\n"...)
	} else {
		h.AddKnownString(exchange.ContentType, "text/plain; charset=utf-8")
		b = strconv.AppendInt(b, int64(status), 10)
		b = append(b, ' ')
		b = append(b, reason...)
		b = append(b, ": "...)
		b = append(b, text...)
		b = append(b, "\nrequest id: "...)
		b = append(b, f.id...)
		b = append(b, '\n')
	}
	h.AddKnownString(exchange.CacheControl, "no-store")
	h.AddKnown(exchange.XRequestID, f.id)
	f.scratch = b
	f.answer(h, b)
}

// answer sends a head and a body that lies in memory.
func (f *flow) answer(h *exchange.Head, body []byte) {
	f.status = h.Status
	f.plain(h)
	f.advertise(h)
	var src exchange.Source
	if h.Length = int64(len(body)); h.Status == 204 || h.Status == 304 {
		h.Length = -1
	} else if len(body) > 0 && f.x.Request.Method != exchange.HEAD {
		f.text.Reset(body)
		src = &f.text
	}
	if err := f.x.Responder.Respond(h, src); err != nil {
		f.clientFailed(err)
	}
}

// advertise tells the client of HTTP/3 on the listener that it came by. An upstream's own
// word was taken out: it speaks of a host that the client does not see.
func (f *flow) advertise(h *exchange.Head) {
	if v := f.x.Conn.AltSvc; v != "" {
		h.AddKnownString(exchange.AltSvc, v)
	}
}

// respond is an answer without an upstream.
type respond struct {
	status int
	body   []byte
	fields []fieldOp
}

func compileRespond(r *config.Respond) (*respond, error) {
	fields, err := compileFields(r.Headers)
	if err != nil {
		return nil, err
	}
	typed := false
	for _, op := range fields {
		typed = typed || op.id == exchange.ContentType
	}
	if !typed && r.Body != "" {
		fields = append(fields, fieldOp{id: exchange.ContentType, name: "Content-Type", value: "text/plain; charset=utf-8"})
	}
	return &respond{status: r.Status, body: []byte(r.Body), fields: fields}, nil
}

func (f *flow) respond(r *route) {
	h := &f.x.Response
	h.Reset(nil)
	h.Status = r.respond.status
	for i := range r.respond.fields {
		h.AddString(r.respond.fields[i].name, r.respond.fields[i].value)
	}
	r.responseOps.apply(h)
	f.answer(h, r.respond.body)
}

// redirect is an answer with a Location: literals and parts of the request.
type redirect struct {
	status int
	parts  []locationPart
}

// redirectHTTPS leads to the same place under https, at its usual port.
var redirectHTTPS = &route{name: "redirect-https", redirect: &redirect{
	status: 308, parts: []locationPart{{literal: "https://"}, {what: 'h'}, {what: 'p'}, {what: 'q'}},
}}

type locationPart struct {
	literal string
	what    byte // 0 for a literal; else s, h, p, q
}

var placeholders = map[string]byte{"scheme": 's', "host": 'h', "path": 'p', "query": 'q'}

func compileRedirect(r *config.Redirect) (*redirect, error) {
	c := &redirect{status: r.Status}
	for rest := r.To; rest != ""; {
		before, after, ok := strings.Cut(rest, "{")
		if before != "" {
			c.parts = append(c.parts, locationPart{literal: before})
		}
		if !ok {
			break
		}
		name, tail, ok := strings.Cut(after, "}")
		what := placeholders[name]
		if !ok || what == 0 {
			return nil, fmt.Errorf("redirect: %q: after { comes one of scheme, host, path, query and a }", r.To)
		}
		c.parts = append(c.parts, locationPart{what: what})
		rest = tail
	}
	return c, nil
}

func (f *flow) redirect(r *route) {
	b := f.scratch[:0]
	for i := range r.redirect.parts {
		b = f.appendPart(b, &r.redirect.parts[i])
	}
	f.scratch = b
	h := &f.x.Response
	h.Reset(nil)
	h.Status = r.redirect.status
	h.AddKnown(exchange.Location, b)
	r.responseOps.apply(h)
	f.answer(h, nil)
}

func (f *flow) appendPart(b []byte, p *locationPart) []byte {
	switch p.what {
	case 's':
		return append(b, f.clientScheme()...)
	case 'h':
		if bytes.IndexByte(f.host, ':') >= 0 {
			return append(append(append(b, '['), f.host...), ']')
		}
		return append(b, f.host...)
	case 'p':
		if len(b) == 0 { // "//evil.example" would be another host
			return append(append(b, '/'), bytes.TrimLeft(f.path, `/\`)...)
		}
		return append(b, f.path...)
	case 'q':
		return append(b, f.x.Request.Target()[len(f.path):]...)
	}
	return append(b, p.literal...)
}

// clientScheme is what the client used, as a trusted peer tells.
func (f *flow) clientScheme() string {
	if f.x.Conn.Trusted {
		switch v := f.x.Request.Get(exchange.XForwardedProto); string(v) {
		case "https":
			return "https"
		case "http":
			return "http"
		}
	}
	return scheme(f.x.Conn)
}
