package load

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports"
	"github.com/hanzoai/pqgw/transports/deadline"
)

// Transport is a way to carry requests.
type Transport struct {
	Name   string
	Scheme string   // of endpoints
	ALPN   []string // what is offered where the scheme leaves it open
	// Secure transports use the listener with TLS, others one of their own in the
	// clear.
	Secure bool
	// Shared transports carry many requests at a time on a connection.
	Shared bool
}

// Transports that are compared.
var Transports = []Transport{
	{Name: "h1 clear", Scheme: "http"},
	{Name: "h1", Scheme: "https", ALPN: []string{"http/1.1"}, Secure: true},
	{Name: "h2", Scheme: "https", ALPN: []string{"h2"}, Secure: true, Shared: true},
	{Name: "h3", Scheme: "h3", Secure: true, Shared: true},
	{Name: "zap", Scheme: "zap"},
	{Name: "zap+tls", Scheme: "zap+tls", Secure: true},
	{Name: "zap+quic", Scheme: "zap+quic", Secure: true, Shared: true},
}

// Find a transport by its name.
func Find(name string) (Transport, error) {
	i := slices.IndexFunc(Transports, func(t Transport) bool { return t.Name == name })
	if i < 0 {
		return Transport{}, fmt.Errorf("no transport %q", name)
	}
	return Transports[i], nil
}

// Listener is the name of the listener that serves a transport, in Origin.Addrs
// and in the configuration that Listeners gives.
func (t Transport) Listener() string {
	switch {
	case t.Secure:
		return "tls"
	case t.Scheme == "zap":
		return "zap"
	}
	return "clear"
}

// Missing is why this binary cannot speak the transport, "" where it can.
func (t Transport) Missing() string {
	watch := deadline.New()
	defer watch.Close()
	client, err := handshake.NewClient(handshake.ClientSettings{PQ: handshake.Require, Insecure: true})
	if err == nil {
		_, err = transports.NewDialer(t.Scheme, "127.0.0.1:1", transports.DialSettings{TLS: client, Watch: watch})
	}
	if errors.Is(err, transports.ErrScheme) {
		return "this binary speaks no " + t.Scheme + " yet"
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// Listeners is the part of a gateway's configuration that serves all
// transports on a host: an address without its port.
func Listeners(host, cert, key, group string) string {
	return fmt.Sprintf(`version: 1
tls:
  public: {certificates: {files: {cert: %q, key: %q}}, groups: [%s]}
listeners:
  - {name: clear, address: "%[4]s:0", protocols: [h1], limits: {requests_per_connection: 0}}
  - {name: zap, address: "%[4]s:0", protocols: [zap], limits: {requests_per_connection: 0}}
  - {name: tls, address: "%[4]s:0", protocols: [h1, h2, h3, zap], tls: public, limits: {requests_per_connection: 0}}
`, cert, key, group, host)
}
