package main

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/hanzoai/pqgw/exchange"
)

// zapReport is an answer with the connection that it came by, as JSON.
type zapReport struct {
	Connection *zapConnection `json:"connection"`
	Status     int            `json:"status"`
	Reason     string         `json:"reason,omitempty"`
	Headers    []zapField     `json:"headers"`
	// Body is the content where it is text, BodyBase64 where it is not.
	Body       *string    `json:"body,omitempty"`
	BodyBase64 []byte     `json:"body_base64,omitempty"`
	Trailers   []zapField `json:"trailers,omitempty"`
	// Error says why the answer is not whole.
	Error string `json:"error,omitempty"`
}

// zapField is a header field; a name may come twice.
type zapField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// zapConnection has the facts under the names that the access log has them.
type zapConnection struct {
	Address    string `json:"address"`
	TLS        bool   `json:"tls"`
	PQ         bool   `json:"tls_pq"`
	Group      string `json:"tls_group,omitempty"`
	Version    string `json:"tls_version,omitempty"`
	Cipher     string `json:"tls_cipher,omitempty"`
	ALPN       string `json:"tls_alpn,omitempty"`
	HRR        bool   `json:"tls_hrr"`
	Resumed    bool   `json:"tls_resumed"`
	Peer       string `json:"peer,omitempty"` // the name that was verified
	PQIdentity bool   `json:"pq_identity"`
}

// checkJSON refuses what --output json cannot be given with.
func (f *zapCall) checkJSON() error {
	if err := checkOutput(f.output); err != nil || f.output == "text" {
		return err
	}
	if f.include || f.noBuffer || f.out != "" {
		return withCode(exitUsage, errors.New("--output json prints the whole answer at once: drop --include, --no-buffer and --out"))
	}
	return nil
}

// printJSON gathers the answer and prints it.
func (f *zapCall) printJSON(info *exchange.Conn, h *exchange.Head, body exchange.Source) error {
	r := zapReport{Connection: connectionOf(info), Status: h.Status, Reason: string(h.Reason()), Headers: fieldsOf(h)}
	var content bytes.Buffer
	var err error
	if body != nil {
		err = gather(&content, body)
		r.Trailers = fieldsOf(body.Trailers())
	}
	if text := content.String(); utf8.ValidString(text) {
		r.Body = &text
	} else {
		r.BodyBase64 = content.Bytes()
	}
	if err != nil {
		r.Error = err.Error()
	}
	return errors.Join(err, printJSON(f.cmd.OutOrStdout(), &r))
}

func connectionOf(info *exchange.Conn) *zapConnection {
	c := &zapConnection{Address: info.ClientText, TLS: info.Secure}
	if t := &info.Facts; info.Secure {
		c.PQ, c.Group, c.Version, c.Cipher, c.ALPN = t.PQ(), t.GroupName(), t.VersionName(), t.CipherName(), t.ALPN
		c.HRR, c.Resumed, c.Peer, c.PQIdentity = t.HRR, t.Resumed, t.PeerName, t.PQIdentity
	}
	return c
}

// fieldsOf gives none for no head.
func fieldsOf(h *exchange.Head) []zapField {
	fields := []zapField{}
	if h == nil {
		return fields
	}
	for i := range h.Len() {
		if !h.Dropped(i) {
			fields = append(fields, zapField{string(h.Name(i)), string(h.Value(i))})
		}
	}
	return fields
}

// gather reads a body to its end.
func gather(w io.Writer, body exchange.Source) error {
	for {
		p, err := body.Next()
		_, _ = w.Write(p) // to memory
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return cutAnswer(err)
		}
	}
}
