package scenario

import (
	"crypto/tls"
	"net"
	"net/http"
	"testing"

	"github.com/hanzoai/pqgw/transports/zap"
)

// door is a way in.
type door struct {
	client *http.Client
	url    string
}

// serveZAP serves h as HTTP over ZAP, over TLS where cfg is given, until the end of
// the test.
func serveZAP(t *testing.T, h http.Handler, cfg *tls.Config) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &zap.Server{Handler: zap.HTTP(h), TLS: cfg}
	srv.Limits.BodyBytes = 1 << 30
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(srv.Close)
	return ln.Addr().String()
}
