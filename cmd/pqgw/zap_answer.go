package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hanzoai/pqgw/exchange"
)

// call sends the request and prints what comes.
func (f *zapCall) call(conn exchange.ClientConn, x *exchange.Exchange, body exchange.Source) error {
	call, err := conn.Call()
	if err != nil {
		return err
	}
	defer call.Finish()
	f.tellHead("> ", f.method+" "+string(x.Request.Target()), &x.Request)
	if err := call.Send(x, body, exchange.Timeouts{FirstByte: f.firstByte, Idle: f.firstByte}); err != nil {
		return explainSend(err)
	}
	sent := f.upload(call, body)
	if err := f.head(call, &x.Response); err != nil {
		return explainSend(err)
	}
	err = f.print(conn, call, &x.Response)
	select {
	case e := <-sent:
		if err == nil && e != nil {
			err = e
		}
	default: // answered early: the rest is not wanted
	}
	if err == nil && f.fail && x.Response.Status >= 400 {
		err = fmt.Errorf("the answer's status is %d", x.Response.Status)
	}
	return err
}

// upload sends a body that is not whole beside the wait for the answer. The
// goroutine ends with the body or with the connection, which run closes.
func (f *zapCall) upload(call exchange.Call, body exchange.Source) <-chan error {
	sent := make(chan error, 1)
	if body == nil {
		sent <- nil
		return sent
	}
	if _, whole := body.Whole(); whole {
		sent <- nil
		return sent
	}
	go func() {
		err := call.SendBody(body)
		body.Close(err)
		var up *exchange.UpstreamError
		if err != nil && !errors.As(err, &up) {
			call.Canceller().Cancel(fmt.Errorf("reading the body: %w", err))
		}
		sent <- err
	}()
	return sent
}

// head waits for the final head.
func (f *zapCall) head(call exchange.Call, h *exchange.Head) error {
	for {
		if err := call.ReadHead(h); err != nil {
			return err
		}
		if h.Status >= 200 {
			return nil
		}
	}
}

func explainSend(err error) error {
	var r *exchange.Refusal
	if errors.As(err, &r) {
		return fmt.Errorf("%w (%s)", err, r.Text)
	}
	return err
}

// print writes the answer where it is wanted.
func (f *zapCall) print(conn exchange.ClientConn, call exchange.Call, h *exchange.Head) error {
	status := fmt.Sprintf("%s %d %s", versionOf(h), h.Status, h.Reason())
	f.tellHead("< ", status, h)
	if f.output == "json" {
		return f.printJSON(conn.Info(), h, call.Body())
	}
	out := f.cmd.OutOrStdout()
	if f.out != "" {
		file, err := os.Create(f.out)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		out = file
	}
	w := bufio.NewWriterSize(out, 64<<10)
	if f.include {
		writeHead(w, "", status, h)
		if h.Length >= 0 {
			fmt.Fprintf(w, "Content-Length: %d\n", h.Length)
		}
		fmt.Fprintln(w)
	}
	body := call.Body()
	err := f.copyBody(w, body)
	if body != nil && body.Trailers() != nil {
		f.tellHead("< ", "trailers", body.Trailers())
		if f.include {
			writeHead(w, "", "", body.Trailers())
		}
	}
	if e := w.Flush(); err == nil {
		err = e
	}
	return err
}

func (f *zapCall) copyBody(w *bufio.Writer, body exchange.Source) error {
	for body != nil {
		if f.noBuffer && body.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
		p, err := body.Next()
		if _, e := w.Write(p); e != nil {
			return e
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return cutAnswer(err)
		}
	}
	return nil
}

func cutAnswer(err error) error { return fmt.Errorf("the answer was cut: %w", err) }

func versionOf(h *exchange.Head) string {
	if v := h.Version(); len(v) > 0 {
		return string(v)
	}
	return "ZAP-HTTP/1.0"
}

func writeHead(w io.Writer, mark, first string, h *exchange.Head) {
	if first != "" {
		fmt.Fprintf(w, "%s%s\n", mark, first)
	}
	for i := range h.Len() {
		if !h.Dropped(i) {
			fmt.Fprintf(w, "%s%s: %s\n", mark, h.Name(i), h.Value(i))
		}
	}
}

func (f *zapCall) tellHead(mark, first string, h *exchange.Head) {
	if f.verbose {
		writeHead(f.cmd.ErrOrStderr(), mark, first, h)
		if a := h.Authority(); len(a) > 0 {
			fmt.Fprintf(f.cmd.ErrOrStderr(), "%sHost: %s\n", mark, a)
		}
	}
}

// tell says what the connection is.
func (f *zapCall) tell(c *exchange.Conn) {
	if !f.verbose {
		return
	}
	w := f.cmd.ErrOrStderr()
	fmt.Fprintf(w, "* connected to %s\n", c.ClientText)
	if !c.Secure {
		fmt.Fprintln(w, "* in the clear: anyone on the way can read this")
		return
	}
	facts := &c.Facts
	secret := "classical"
	if facts.PQ() {
		secret = "post-quantum"
	}
	fmt.Fprintf(w, "* TLS %s, %s (%s), %s\n", facts.VersionName(), facts.GroupName(), secret, tls.CipherSuiteName(facts.CipherSuite))
	var notes []string
	if facts.HRR {
		notes = append(notes, "a HelloRetryRequest was needed")
	}
	if facts.Resumed {
		notes = append(notes, "resumed")
	}
	if facts.ALPN == "" {
		notes = append(notes, "no ALPN: a public peer")
	} else {
		notes = append(notes, "ALPN "+facts.ALPN)
	}
	if facts.PeerName != "" {
		notes = append(notes, fmt.Sprintf("verified peer %s, pq_identity: %t", facts.PeerName, facts.PQIdentity))
	} else {
		notes = append(notes, "the peer's certificate was NOT verified")
	}
	fmt.Fprintf(w, "* %s\n", strings.Join(notes, ", "))
}
