package http3

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	qhttp3 "github.com/quic-go/quic-go/http3"
	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handlerFunc serves exchanges by a function.
type handlerFunc func(x *exchange.Exchange)

func (f handlerFunc) Serve(x *exchange.Exchange) { f(x) }

// text answers with a status and a text.
func text(x *exchange.Exchange, status int, s string) {
	x.Response.Reset(nil)
	x.Response.Status = status
	x.Response.AddString("Content-Type", "text/plain")
	_ = x.Responder.Respond(&x.Response, exchange.NewBytes([]byte(s)))
}

// refusing answers refused requests as the gateway does, and lets h serve the others.
func refusing(h handlerFunc) handlerFunc {
	return func(x *exchange.Exchange) {
		if x.Refusal != nil {
			text(x, x.Refusal.Status, x.Refusal.Reason)
			return
		}
		h(x)
	}
}

var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

func clientTLS() *tls.Config {
	leaf, err := x509.ParseCertificate(certificate().Certificate[0])
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Config{RootCAs: pool, NextProtos: []string{ALPN}}
}

// server serves a loopback socket until the test ends.
type server struct {
	addr string
	url  string
	mu   sync.Mutex
	all  []*Conn
	errs []error
	told chan struct{} // of each connection that ended
}

func serve(t testing.TB, o *Options) *server {
	t.Helper()
	return serveQUIC(t, o, &quic.Config{MaxIncomingStreams: 100, RequireStreamCreditRelease: true})
}

func serveQUIC(t testing.TB, o *Options, cfg *quic.Config) *server {
	t.Helper()
	if o.Limits.HeadBytes == 0 {
		o.Limits = exchange.Limits{HeadBytes: 32 << 10, Fields: 128, BodyBytes: 1 << 30}
	}
	o.Watch, o.Workers = deadline.New(), NewWorkers()
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	tr := &quic.Transport{Conn: udp}
	l, err := tr.Listen(&tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{ALPN}}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: udp.LocalAddr().String(), url: "https://" + udp.LocalAddr().String(), told: make(chan struct{}, 100)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			qc, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			c := NewConn(qc, func() *exchange.Conn { return &exchange.Conn{Protocol: exchange.HTTP3} }, o)
			s.mu.Lock()
			s.all = append(s.all, c)
			s.mu.Unlock()
			wg.Go(func() {
				err := c.Serve()
				s.mu.Lock()
				s.errs = append(s.errs, err)
				s.mu.Unlock()
				s.told <- struct{}{}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		for _, c := range s.all {
			c.Close()
		}
		s.mu.Unlock()
		wg.Wait()
		o.Workers.Close()
		o.Watch.Close()
		_ = tr.Close()
		_ = udp.Close()
	})
	return s
}

// conn is the only connection that the server has.
func (s *server) conn(t *testing.T) *Conn {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) != 1 {
		t.Fatalf("%d connections", len(s.all))
	}
	return s.all[0]
}

// transport is quic-go's client.
func transport(t testing.TB) *qhttp3.Transport {
	tr := &qhttp3.Transport{TLSClientConfig: clientTLS()}
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

func get(t *testing.T, tr http.RoundTripper, url string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, tr, req)
}

func do(t *testing.T, tr http.RoundTripper, req *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

// rawConn is a client of bare frames.
type rawConn struct {
	t  *testing.T
	qc *quic.Conn
}

func dialRaw(t *testing.T, s *server, control []byte) *rawConn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	qc, err := quic.DialAddr(ctx, s.addr, clientTLS(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = qc.CloseWithError(0x100, "") })
	if control != nil {
		str, err := qc.OpenUniStream()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := str.Write(control); err != nil {
			t.Fatal(err)
		}
	}
	return &rawConn{t: t, qc: qc}
}

// emptySettings is a control stream as it begins.
var emptySettings = []byte{streamControl, frameSettings, 0}

// open opens a request stream with those bytes, ended or not.
func (r *rawConn) open(b []byte, end bool) *quic.Stream {
	r.t.Helper()
	str, err := r.qc.OpenStreamSync(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	_ = str.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := str.Write(b); err != nil {
		r.t.Fatal(err)
	}
	if end {
		_ = str.Close()
	}
	return str
}

// closed waits for the end of the connection and gives its code.
func (r *rawConn) closed() ErrCode {
	r.t.Helper()
	select {
	case <-r.qc.Context().Done():
	case <-time.After(5 * time.Second):
		r.t.Fatal("the connection was not closed")
	}
	var e *quic.ApplicationError
	if err := context.Cause(r.qc.Context()); !errors.As(err, &e) {
		r.t.Fatal(err)
	}
	return ErrCode(e.ErrorCode)
}

// fields is a HEADERS frame of names and values in turn.
func fields(list ...string) []byte {
	b := beginHeaders(nil)
	for i := 0; i < len(list); i += 2 {
		b = appendOther(b, list[i], list[i+1])
	}
	return endHeaders(b, 0)
}

// request is a HEADERS frame of a GET with more fields.
func request(more ...string) []byte {
	return fields(append([]string{":method", "GET", ":scheme", "https", ":authority", "localhost", ":path", "/"}, more...)...)
}

func data(p string) []byte { return append(appendFrameHeader(nil, frameData, int64(len(p))), p...) }

// readAnswer reads a final head and the body behind it.
func readAnswer(t *testing.T, str *quic.Stream) (*exchange.Head, string) {
	t.Helper()
	r := reader{str: str}
	defer r.free()
	h := new(exchange.Head)
	var body []byte
	for {
		frame, n, err := r.header()
		if err == io.EOF {
			return h, string(body)
		}
		if err != nil {
			t.Fatalf("after %d %q: %v", h.Status, body, err)
		}
		p, err := r.payload(int(n))
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case frame == frameHeaders && h.Status < 200:
			if _, err := readResponse(new(decoder), h, new(exchange.Head), p, &exchange.Limits{}); err != nil {
				t.Fatal(err)
			}
		case frame == frameData:
			body = append(body, p...)
		}
	}
}
