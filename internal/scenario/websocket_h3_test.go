package scenario

import (
	"context"
	"crypto/tls"
	bigendian "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/hanzoai/pqgw/internal/peers"
)

// The promise: WebSockets go through from HTTP/3 as well, by an extended CONNECT (RFC 9220),
// with their subprotocol, their messages and their close codes. The origin is
// node's ws, the client Chromium, and one of our own that shows each step.

// wsPage talks to the echo server of the origin that it came from, and closes with
// 4003 where all was well.
const wsPage = `<script>const ws=new WebSocket("wss://"+location.host+"/chat?room=3",["other","echo"]),say=["hello","x".repeat(300000),"bye"];let n=0;` +
	`ws.onopen=()=>ws.protocol==="echo"?ws.send(say[0]):ws.close(4000);` +
	`ws.onmessage=e=>e.data!==say[n]?ws.close(4000):++n<say.length?ws.send(say[n]):ws.close(4003);</script>`

func TestBrowserOpensAWebSocketOverHTTP3(t *testing.T) {
	chromium := peers.Chromium(t)
	origin, addr := NodeServer(t, "ws-server.mjs")
	f := NewFront(t, FrontOptions{H3: true, Routes: fmt.Sprintf(`
routes: [{to: origin}, {match: {path: /page}, respond: {body: %q, headers: {content-type: text/html}}}]
upstreams: {origin: {endpoints: ["http://%s"]}}`, wsPage, addr)})
	StartProcess(t, exec.Command(chromium, append(peers.ChromiumFlags(t.TempDir()),
		"--enable-quic", "--enable-features=EnableWebsocketsOverHttp3", "--origin-to-force-quic-on="+f.Addr,
		"--ignore-certificate-errors-spki-list="+f.Leaf.SPKI, "--remote-debugging-port=0", f.URL+"/page")...))
	origin.Stdout.AwaitText(t, `"opened":"/chat?room=3"`)
	origin.Stdout.AwaitText(t, `{"closed":4003}`)
	entry := f.AwaitAccess(t, "the tunnel", func(a Access) bool { return a.Path == "/chat" })
	if entry.Protocol != "h3" || entry.Status != http.StatusOK || entry.Method != http.MethodConnect || entry.TLSGroup != "X25519MLKEM768" {
		t.Errorf("the access log says %+v, want h3 with a CONNECT and 200", entry)
	}
}

func TestWebSocketOverHTTP3(t *testing.T) {
	origin, addr := NodeServer(t, "ws-server.mjs")
	f := NewFront(t, FrontOptions{H3: true, Routes: To("http://" + addr)})
	s := dialWebSockets(t, f).open("/chat?room=2")
	if h := s.answer.Header; s.answer.StatusCode != http.StatusOK || h.Get("Sec-WebSocket-Protocol") != "echo" || h.Get("Sec-WebSocket-Accept") != "" {
		t.Fatalf("the answer is %d %v, want 200 with the subprotocol alone", s.answer.StatusCode, h)
	}
	line := origin.Stdout.AwaitText(t, `"opened":"/chat?room=2"`)
	if !containsAll(line, `"version":"1.1"`, `"pq":"1"`, `"group":"X25519MLKEM768"`) {
		t.Errorf("the origin saw %s, want an HTTP/1.1 upgrade marked post-quantum", line)
	}
	for _, text := range []string{"hello", strings.Repeat("x", 300000), ""} {
		s.writeMessage(1, []byte(text))
		if op, got := s.readMessage(); op != 1 || string(got) != text {
			t.Fatalf("the echo of %d bytes has opcode %d and %d bytes", len(text), op, len(got))
		}
	}
	s.writeMessage(8, bigendian.BigEndian.AppendUint16(nil, 4002))
	if op, got := s.readMessage(); op != 8 || bigendian.BigEndian.Uint16(got) != 4002 {
		t.Errorf("the close comes back as opcode %d, %x", op, got)
	}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("behind the close the stream goes on: %v", err)
	}
	_ = s.Close()
	origin.Stdout.AwaitText(t, `{"closed":4002}`)
	entry := f.AwaitAccess(t, "the tunnel", func(a Access) bool { return a.Path == "/chat" })
	if entry.Status != http.StatusOK || entry.Protocol != "h3" {
		t.Errorf("the access log says %+v, want h3 with 200", entry)
	}
}

func TestAWebSocketOverHTTP3ThatCannotBeIsRefused(t *testing.T) {
	plain := NewOrigin(t, false, nil) // knows nothing of WebSockets and answers 200
	at := serveZAP(t, http.NotFoundHandler(), nil)
	f := NewFront(t, FrontOptions{H3: true, Routes: fmt.Sprintf(`
routes: [{match: {path: /zap}, to: zap}, {match: {path: /own}, respond: {body: hello}}, {match: {path: /trace}, to: trace}, {to: plain}]
upstreams: {zap: {endpoints: ["zap://%s"]}, plain: {endpoints: [%q]}}`, at, plain.URL)})
	c := dialWebSockets(t, f)
	s := c.open("/zap")
	text, _ := io.ReadAll(s.answer.Body)
	if s.answer.StatusCode != http.StatusNotImplemented || !strings.Contains(string(text), "WebSocket") {
		t.Errorf("towards ZAP: %d %s, want 501 and a text that says why", s.answer.StatusCode, text)
	}
	for _, path := range []string{"/", "/own", "/trace"} { // none of them upgrades, all answer 200
		if s = c.open(path); s.answer.StatusCode != http.StatusNotImplemented {
			t.Errorf("%s answers %d, want 501: a 2xx would open a tunnel", path, s.answer.StatusCode)
		}
	}
	if s = c.open("/zap"); s.answer.StatusCode != http.StatusNotImplemented {
		t.Errorf("behind a refusal the connection answers %d, want 501 again", s.answer.StatusCode)
	}
}

// webSockets3 is a connection by quic-go's client, which leaves WebSockets to others.
type webSockets3 struct {
	t    *testing.T
	conn *http3.ClientConn
}

func dialWebSockets(t *testing.T, f *Front) *webSockets3 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	qc, err := quic.DialAddr(ctx, f.Addr, &tls.Config{RootCAs: f.CA.Pool(), NextProtos: []string{"h3"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = qc.CloseWithError(0x100, "") })
	conn := new(http3.Transport).NewClientConn(qc)
	select {
	case <-conn.ReceivedSettings():
	case <-ctx.Done():
		t.Fatal("no SETTINGS")
	}
	if !conn.Settings().EnableExtendedConnect {
		t.Fatal("SETTINGS_ENABLE_CONNECT_PROTOCOL is not set (RFC 9220, section 3)")
	}
	return &webSockets3{t, conn}
}

// webSocket3 is a WebSocket, or the answer that refuses one.
type webSocket3 struct {
	t *testing.T
	*http3.RequestStream
	answer *http.Response
}

func (c *webSockets3) open(path string) *webSocket3 {
	c.t.Helper()
	s, err := c.conn.OpenRequestStream(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	_ = s.SetDeadline(time.Now().Add(Patience))
	req, err := http.NewRequest(http.MethodConnect, "https://localhost"+path, http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Proto = "websocket"
	req.Header = http.Header{"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Protocol": {"other, echo"}}
	if err := s.SendRequestHeader(req); err != nil {
		c.t.Fatal(err)
	}
	resp, err := s.ReadResponse()
	if err != nil {
		c.t.Fatal(err)
	}
	return &webSocket3{c.t, s, resp}
}

// writeMessage sends a message in one frame (RFC 6455, section 5.2), masked by
// zeros.
func (s *webSocket3) writeMessage(opcode byte, payload []byte) {
	s.t.Helper()
	b := []byte{0x80 | opcode, 0x80 | byte(len(payload))}
	if len(payload) > 125 {
		b[1] = 0x80 | 127
		b = bigendian.BigEndian.AppendUint64(b, uint64(len(payload)))
	}
	b = append(append(b, 0, 0, 0, 0), payload...)
	for part := range slices.Chunk(b, 50000) { // each in a DATA frame
		if _, err := s.Write(part); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *webSocket3) readMessage() (opcode byte, payload []byte) {
	s.t.Helper()
	var head [10]byte
	_, err := io.ReadFull(s, head[:2])
	n := uint64(head[1])
	if long := map[uint64]int{126: 2, 127: 8}[n]; long > 0 {
		_, err = io.ReadFull(s, head[10-long:])
		n = bigendian.BigEndian.Uint64(head[2:])
	}
	if err != nil || n > 1<<20 {
		s.t.Fatalf("a message of %d bytes; %v", n, err)
	}
	payload = make([]byte, n)
	if _, err := io.ReadFull(s, payload); err != nil {
		s.t.Fatal(err)
	}
	return head[0] & 0xf, payload
}
