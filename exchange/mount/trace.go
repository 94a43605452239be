package mount

import (
	"bytes"
	"encoding/json"
	"html/template"
	"net/netip"
	"strings"

	"github.com/hanzoai/pqgw/exchange"
)

// trace is what the trace page tells, of the connection that asked.
type trace struct {
	PostQuantum bool      `json:"post_quantum"`
	TLS         *traceTLS `json:"tls"` // null in the clear
	Protocol    string    `json:"protocol"`
	Listener    string    `json:"listener"`
	Client      string    `json:"client"`
	Server      string    `json:"server"`
	Method      string    `json:"method"`
	Host        string    `json:"host"`
	Path        string    `json:"path"`
	UserAgent   string    `json:"user_agent"`
	RequestID   string    `json:"request_id"`
}

type traceTLS struct {
	Version           string `json:"version"`
	Group             string `json:"group"`
	CipherSuite       string `json:"cipher_suite"`
	ALPN              string `json:"alpn"`
	SNI               string `json:"sni"`
	HelloRetryRequest bool   `json:"hello_retry_request"`
	Resumed           bool   `json:"resumed"`
	EarlyData         bool   `json:"early_data"`
	Peer              string `json:"peer,omitempty"` // verified name of the client
}

// Trace is a handler that answers with what the connection was: as JSON, or as a
// page to who accepts HTML.
func Trace() exchange.Handler { return traceHandler{} }

type traceHandler struct{}

// Bodiless is a handler that asks for no body: what comes is read and checked
// before it is called.
type Bodiless interface{ Bodiless() }

// Bodiless implements Bodiless.
func (traceHandler) Bodiless() {}

// Serve implements exchange.Handler.
func (traceHandler) Serve(x *exchange.Exchange) {
	t := traceOf(x)
	h := &x.Response
	h.Reset(nil)
	h.Status = 200
	h.AddKnownString(exchange.CacheControl, "no-store")
	h.AddString("Vary", "Accept")
	h.AddString("X-Content-Type-Options", "nosniff")
	h.AddKnownString(exchange.XRequestID, t.RequestID)
	var b bytes.Buffer
	if bytes.Contains(x.Request.Get(exchange.Accept), []byte("text/html")) {
		h.AddKnownString(exchange.ContentType, "text/html; charset=utf-8")
		h.AddString("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		_ = tracePage.Execute(&b, t) // into memory, of a fixed shape
	} else {
		h.AddKnownString(exchange.ContentType, "application/json")
		e := json.NewEncoder(&b)
		e.SetIndent("", "  ")
		_ = e.Encode(t) // as above
	}
	respond(x, h, b.Bytes())
}

func traceOf(x *exchange.Exchange) *trace {
	c, q := x.Conn, &x.Request
	t := &trace{
		Protocol: c.Protocol.String(), Listener: c.Listener, Client: address(c.Client, c.ClientText), Server: address(c.Local, "unix"),
		Method: text(q.MethodName()), Host: text(q.Authority()), Path: text(q.Path()),
		UserAgent: text(q.Get(exchange.UserAgent)), RequestID: text(q.Get(exchange.XRequestID)),
	}
	if c.Secure {
		f := &c.Facts
		t.PostQuantum = f.PQ()
		t.TLS = &traceTLS{
			Version: f.VersionName(), Group: f.GroupName(), CipherSuite: f.CipherName(), ALPN: f.ALPN, SNI: f.SNI,
			HelloRetryRequest: f.HRR, Resumed: f.Resumed, EarlyData: f.EarlyData, Peer: f.PeerName,
		}
	}
	return t
}

func address(a netip.AddrPort, otherwise string) string {
	if !a.IsValid() {
		return otherwise
	}
	return a.String()
}

func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// respond sends a head with a body that lies in memory.
func respond(x *exchange.Exchange, h *exchange.Head, body []byte) {
	var src exchange.Source
	if h.Length = int64(len(body)); h.Status == 204 || h.Status == 304 {
		h.Length = -1
	} else if len(body) > 0 && x.Request.Method != exchange.HEAD {
		src = exchange.NewBytes(body)
	}
	if err := x.Responder.Respond(h, src); err != nil {
		x.Responder.Abort(err)
	}
}

var tracePage = template.Must(template.New("trace").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{if .PostQuantum}}Post-quantum{{else}}Not post-quantum{{end}} · pqgw trace</title>
<style>
:root { color-scheme: light dark; --yes: #18794e; --no: #b4540a; --line: color-mix(in srgb, currentColor 14%, transparent) }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0; padding: 8vh 1.25rem; display: grid; justify-content: center }
main { width: min(40rem, 100vw - 2.5rem) }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; color: var(--no); text-wrap: balance }
.yes h1 { color: var(--yes) }
p { margin: 0 0 2rem; opacity: .8 }
dl { display: grid; grid-template-columns: max-content 1fr; margin: 0; border-top: 1px solid var(--line) }
dt, dd { margin: 0; padding: .45rem 0; border-bottom: 1px solid var(--line) }
dt { padding-right: 2rem; opacity: .7 }
dd { font-family: ui-monospace, monospace; font-size: .92em; overflow-wrap: anywhere }
@media (prefers-color-scheme: dark) { :root { --yes: #4cc38a; --no: #ffa057 } }
</style>
</head>
<body>
<main class="{{if .PostQuantum}}yes{{else}}no{{end}}">
<h1>post-quantum: {{if .PostQuantum}}yes{{else}}no{{end}}</h1>
<p>{{if .PostQuantum}}What you send here stays secret, even from someone who records it today and has a quantum computer later.
{{- else if .TLS}}This connection is encrypted, but whoever records it today can read it once they have a quantum computer.
{{- else}}This connection is not encrypted.{{end}}</p>
<dl>
{{with .TLS}}<dt>group</dt><dd>{{.Group}}</dd>
<dt>TLS version</dt><dd>{{.Version}}</dd>
<dt>cipher suite</dt><dd>{{.CipherSuite}}</dd>
<dt>ALPN</dt><dd>{{.ALPN}}</dd>
<dt>SNI</dt><dd>{{.SNI}}</dd>
<dt>hello retry request</dt><dd>{{if .HelloRetryRequest}}yes{{else}}no{{end}}</dd>
<dt>resumed</dt><dd>{{if .Resumed}}yes{{else}}no{{end}}</dd>
{{if .EarlyData}}<dt>early data</dt><dd>yes</dd>
{{end}}{{if .Peer}}<dt>client certificate</dt><dd>{{.Peer}}</dd>
{{end}}{{end}}<dt>protocol</dt><dd>{{.Protocol}}</dd>
<dt>client</dt><dd>{{.Client}}</dd>
<dt>server</dt><dd>{{.Server}}</dd>
<dt>listener</dt><dd>{{.Listener}}</dd>
<dt>request</dt><dd>{{.Method}} {{.Host}}{{.Path}}</dd>
<dt>user agent</dt><dd>{{.UserAgent}}</dd>
<dt>request id</dt><dd>{{.RequestID}}</dd>
</dl>
</main>
</body>
</html>
`))
