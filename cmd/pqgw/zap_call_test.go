package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/telemetry"
	"github.com/hanzoai/pqgw/transports"
	"github.com/hanzoai/pqgw/transports/deadline"
)

type zapService struct{}

// Serve answers /stream in three pieces with trailers, /missing with 404, and
// else tells what it was asked.
func (zapService) Serve(x *exchange.Exchange) {
	h := &x.Response
	h.Reset(nil)
	h.Status = 200
	h.AddString("X-Served", "yes")
	if string(x.Request.Target()) == "/stream" {
		s, err := x.Responder.Start(h, -1)
		if err != nil {
			return
		}
		for i := range 3 {
			fmt.Fprintf(s, "data: %d\n\n", i)
			_ = s.Flush()
		}
		var t exchange.Head
		t.Reset(nil)
		t.AddString("X-Sum", "7")
		_ = s.Finish(&t)
		return
	}
	var body []byte
	if x.Body != nil {
		body, _ = io.ReadAll(x.Body)
	}
	switch string(x.Request.Target()) {
	case "/missing":
		h.Status = 404
	case "/bytes":
		_ = x.Responder.Respond(h, exchange.NewBytes([]byte{0xff, 0}))
		return
	}
	told := fmt.Sprintf("%s %s %s %s peer=%s %d bytes", x.Request.MethodName(), x.Request.Target(), x.Request.Authority(),
		x.Request.Get(exchange.ContentType), x.Conn.Facts.PeerName, len(body))
	_ = x.Responder.Respond(h, exchange.NewBytes([]byte(told)))
}

// zapServer listens until the end of the test.
func zapServer(t *testing.T, address string, tls *handshake.Server) string {
	t.Helper()
	w := deadline.New()
	var quic *transports.QUICSettings
	if tls != nil {
		quic = &transports.QUICSettings{TLS: tls, RetryAbove: 1000}
	}
	l, err := transports.Listen("l", address, transports.Settings{
		Protocols: []string{transports.ZAP}, TLS: tls, QUIC: quic, Handler: zapService{}, Limits: exchange.Limits{HeadBytes: 8 << 10, Fields: 64},
		HandshakeTimeout: 10 * time.Second, HeadTimeout: 10 * time.Second, IdleTimeout: time.Minute, StreamIdle: time.Minute,
	}, transports.Environment{Watch: w, Metrics: telemetry.NewMetrics(telemetry.Build{}), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l.Serve()
	t.Cleanup(func() {
		l.Close()
		w.Close()
	})
	return l.Addr().String()
}

// zapRun runs one command line.
func zapRun(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), append([]string{"zap"}, args...), strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func TestZapGetAndPostSpeakToAServiceInTheClear(t *testing.T) {
	addr := zapServer(t, "127.0.0.1:0", nil)
	socket := filepath.Join(t.TempDir(), "s")
	zapServer(t, "unix:"+socket, nil)
	file := filepath.Join(t.TempDir(), "body.json")
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{"", []string{"get", "zap://" + addr + "/a?b=c"}, "GET /a?b=c " + addr + "  peer= 0 bytes"},
		{"", []string{"get", "-H", "Host: other", "-H", "content-type: x/y", "zap://" + addr + "?q"}, "GET /?q other x/y peer= 0 bytes"},
		{"", []string{"get", "zap+unix:" + socket}, "GET / localhost  peer= 0 bytes"},
		{"", []string{"get", "zap+unix:" + socket + ":/p"}, "GET /p localhost  peer= 0 bytes"},
		{"", []string{"post", "zap://" + addr + "/", "-d", `{"a":1}`}, "POST / " + addr + " application/json peer= 7 bytes"},
		{"", []string{"post", "zap://" + addr + "/", "-d", "@" + file}, "POST / " + addr + " application/json peer= 100000 bytes"},
		{strings.Repeat("i", 300_000), []string{"post", "zap://" + addr + "/", "-d", "@-"}, "POST / " + addr + " application/octet-stream peer= 300000 bytes"},
		{"", []string{"get", "-N", "zap://" + addr + "/stream"}, "data: 0\n\ndata: 1\n\ndata: 2\n\n"},
		{"", []string{"get", "-i", "zap://" + addr + "/stream"}, "ZAP-HTTP/1.0 200 OK\nX-Served: yes\n\ndata: 0\n\ndata: 1\n\ndata: 2\n\nX-Sum: 7\n"},
	} {
		if code, out, errs := zapRun(q.stdin, q.args...); code != 0 || out != q.want {
			t.Errorf("%v: exit %d, %q, want %q; %s", q.args, code, out, q.want, errs)
		}
	}
	out := filepath.Join(t.TempDir(), "out")
	if code, stdout, _ := zapRun("", "get", "-o", out, "zap://"+addr+"/x"); code != 0 || stdout != "" {
		t.Errorf("exit %d, %q", code, stdout)
	}
	if b, err := os.ReadFile(out); err != nil || !strings.HasPrefix(string(b), "GET /x ") {
		t.Errorf("%q, %v", b, err)
	}
}

func TestZapGetTellsOfTheHandshake(t *testing.T) {
	dir := t.TempDir()
	dev, _, err := handshake.NewDev(dir, "localhost", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	server, err := handshake.NewServer(handshake.Settings{Sources: []handshake.Source{dev}, PQ: handshake.Require, NextProtos: transports.ALPN([]string{transports.ZAP})})
	if err != nil {
		t.Fatal(err)
	}
	addr := zapServer(t, "127.0.0.1:0", server)
	ca := dev.Authority().CertFile()
	for _, scheme := range []string{"zap+tls", "zap+quic"} {
		tellsOf(t, scheme+"://"+addr+"/secret", ca)
		c := *zapReported(t, "get", "--ca", ca, "--pq", "require", scheme+"://"+addr+"/").Connection
		want := zapConnection{Address: addr, TLS: true, PQ: true, Group: "X25519MLKEM768", Version: "1.3", Cipher: c.Cipher, ALPN: "zap-http/1", Peer: c.Peer}
		if c != want || c.Cipher == "" || c.Peer == "" {
			t.Errorf("%s: %+v, want %+v with a cipher and a peer", scheme, c, want)
		}
	}
	if code, _, errs := zapRun("", "get", "--insecure", "-v", "zap+tls://"+addr+"/"); code != 0 || !strings.Contains(errs, "NOT verified") {
		t.Errorf("exit %d, %s", code, errs)
	}
	if code, _, errs := zapRun("", "get", "zap+tls://"+addr+"/"); code != exitFailed || !strings.Contains(errs, "certificate") {
		t.Errorf("an unknown authority: exit %d, %s", code, errs)
	}
}

func tellsOf(t *testing.T, url, ca string) {
	t.Helper()
	code, out, errs := zapRun("", "get", "-v", "--pq", "require", "--ca", ca, url)
	if code != 0 || !strings.HasPrefix(out, "GET /secret ") {
		t.Fatalf("exit %d, %q, %s", code, out, errs)
	}
	for _, want := range []string{"TLS 1.3, X25519MLKEM768 (post-quantum)", "ALPN zap-http/1", "verified peer ", "> GET /secret", "< ZAP-HTTP/1.0 200 OK", "< X-Served: yes"} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in\n%s", want, errs)
		}
	}
}

func TestZapGetFailsByTheRightCode(t *testing.T) {
	addr := zapServer(t, "127.0.0.1:0", nil)
	for _, q := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"get", "--fail", "zap://" + addr + "/missing"}, exitFailed, "status is 404"},
		{[]string{"get", "zap://" + addr + "/missing"}, exitOK, ""},
		{[]string{"get", "zap://127.0.0.1:1/"}, exitFailed, "refused"},
		{[]string{"get", addr}, exitUsage, "did you mean zap+tls://"},
		{[]string{"get", "http://" + addr}, exitUsage, "there are zap"},
		{[]string{"get", "zap+unix:relative"}, exitUsage, "zap+unix:/SOCKET"},
		{[]string{"get", "-H", "no colon", "zap://" + addr}, exitUsage, "Name: value"},
		{[]string{"get", "-H", "A: b\nc: d", "zap://" + addr}, exitUsage, "Name: value"},
		{[]string{"get", "zap://" + addr + "/a b"}, exitUsage, "no valid path"},
		{[]string{"post", "-d", "@/nowhere", "zap://" + addr}, exitUsage, "no such file"},
		{[]string{"get", "--cert", "x", "zap+tls://" + addr}, exitUsage, "go together"},
		{[]string{"get", "--output", "yaml", "zap://" + addr}, exitUsage, "text and json"},
		{[]string{"get", "--output", "json", "-i", "zap://" + addr}, exitUsage, "drop --include"},
		{[]string{"get", "--output", "json", "--fail", "zap://" + addr + "/missing"}, exitFailed, "status is 404"},
		{[]string{"get"}, exitUsage, "arg"},
	} {
		if code, _, errs := zapRun("", q.args...); code != q.code || !strings.Contains(errs, q.says) {
			t.Errorf("%v: exit %d, want %d; %s", q.args, code, q.code, errs)
		}
	}
}

// zapReported runs one command line with --output json.
func zapReported(t *testing.T, args ...string) *zapReport {
	t.Helper()
	code, out, errs := zapRun("", append(args, "--output", "json")...)
	var r zapReport
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
		t.Fatalf("%v: exit %d, %v, %s%s", args, code, err, out, errs)
	}
	return &r
}

func TestZapGetAndPostAsJSON(t *testing.T) {
	addr := zapServer(t, "127.0.0.1:0", nil)
	r := zapReported(t, "post", "-d", "abc", "zap://"+addr+"/x")
	if *r.Connection != (zapConnection{Address: addr}) || r.Status != 200 || r.Reason != "OK" || !slices.Contains(r.Headers, zapField{"X-Served", "yes"}) ||
		r.Body == nil || !strings.HasSuffix(*r.Body, " 3 bytes") || len(r.BodyBase64)+len(r.Trailers) > 0 || r.Error != "" {
		t.Errorf("%+v", r)
	}
	r = zapReported(t, "get", "zap://"+addr+"/stream")
	if *r.Body != "data: 0\n\ndata: 1\n\ndata: 2\n\n" || !slices.Equal(r.Trailers, []zapField{{"X-Sum", "7"}}) {
		t.Errorf("a streamed answer: %+v, %q", r, *r.Body)
	}
	if r = zapReported(t, "get", "zap://"+addr+"/bytes"); r.Body != nil || !bytes.Equal(r.BodyBase64, []byte{0xff, 0}) {
		t.Errorf("an answer that is no text: %+v", r)
	}
}
