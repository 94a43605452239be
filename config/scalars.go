package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// File is the path of a file or folder. A relative one in a configuration
// file is relative to that file's folder; Load makes it absolute.
type File string

// LogLevel is a level of the gateway's own log.
type LogLevel string

// Levels of the gateway's own log.
const (
	LogDebug LogLevel = "debug"
	LogInfo  LogLevel = "info"
	LogWarn  LogLevel = "warn"
	LogError LogLevel = "error"
)

// LogFormat is how the gateway's own log is written.
type LogFormat string

// Formats of the gateway's own log.
const (
	LogAuto LogFormat = "auto" // text for a terminal, JSON for all else
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// Bytes is a size in bytes, written as a number with a unit: B, KiB, MiB,
// GiB, TiB (powers of 1024) or kB, MB, GB, TB (powers of 1000). A bare number is bytes.
type Bytes int64

var byteUnits = []struct {
	name string
	size int64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"B", 1},
}

// UnmarshalText reads a size.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, unit := string(text), int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimRight(rest, " "), u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a size; write it as 32KiB, 1GiB or a number of bytes", text)
	}
	if n > math.MaxInt64/unit {
		return fmt.Errorf("%q is more than 8 EiB", text)
	}
	*b = Bytes(n * unit)
	return nil
}

// String writes the size in the largest power of 1024 that divides it.
func (b Bytes) String() string {
	for _, u := range byteUnits[:4] {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// MarshalText writes the size as String does.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// Address is where to listen or to dial.
type Address struct {
	// Network is "tcp" or "unix"; h3 and zap over QUIC use UDP on the same host and port.
	Network string
	// Addr is `host:port`, `:port`, or the path of the socket.
	Addr string
}

// IsUnix reports whether the address is that of a unix socket.
func (a Address) IsUnix() bool { return a.Network == "unix" }

// IsZero reports whether no address is given.
func (a Address) IsZero() bool { return a == Address{} }

// String writes the address as in the configuration file.
func (a Address) String() string {
	if a.IsUnix() {
		return "unix:" + a.Addr
	}
	return a.Addr
}

// MarshalText writes the address as in the configuration file.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads `host:port`, `:port` or `unix:/path`.
func (a *Address) UnmarshalText(text []byte) error {
	s := string(text)
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		if path == "" {
			return errors.New("a unix address needs a path, as in unix:/run/pqgw.sock")
		}
		*a = Address{Network: "unix", Addr: path}
		return nil
	}
	if _, _, err := splitHostPort(s); err != nil {
		return err
	}
	*a = Address{Network: "tcp", Addr: s}
	return nil
}

// splitHostPort splits host:port, where the host may be empty and the port is a number.
func splitHostPort(s string) (host, port string, err error) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", "", fmt.Errorf("%q has no port; write host:port, :port or unix:/path", s)
	}
	host, port = s[:i], s[i+1:]
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "", "", fmt.Errorf("%q: the port %q is not a number from 0 to 65535", s, port)
	}
	switch {
	case strings.HasPrefix(host, "["):
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil || !strings.HasSuffix(host, "]") {
			return "", "", fmt.Errorf("%q: %q is not an IPv6 address", s, host)
		}
		host = host[1 : len(host)-1]
	case strings.Contains(host, ":"):
		return "", "", fmt.Errorf("%q: an IPv6 address needs brackets, as in [::1]:443", s)
	case strings.ContainsAny(host, " /?#@%\t\r\n\x00"):
		return "", "", fmt.Errorf("%q: %q is not a host", s, host)
	}
	return host, port, nil
}

// Scheme is what is spoken to an endpoint.
type Scheme string

// Schemes of endpoints.
const (
	SchemeHTTP       Scheme = "http"
	SchemeHTTPS      Scheme = "https" // h1 or h2 by ALPN
	SchemeH2C        Scheme = "h2c"
	SchemeH3         Scheme = "h3"
	SchemeUnix       Scheme = "unix" // HTTP/1.1
	SchemeZAP        Scheme = "zap"
	SchemeZAPTLS     Scheme = "zap+tls"
	SchemeZAPQUIC    Scheme = "zap+quic"
	SchemeZAPUnix    Scheme = "zap+unix"
	SchemeZAPRPCTLS  Scheme = "zap-rpc+tls"
	SchemeZAPRPCQUIC Scheme = "zap-rpc+quic"
)

// defaultPorts of the schemes that have one; those with an empty string take
// a host and must name the port.
var defaultPorts = map[Scheme]string{
	SchemeHTTP: "80", SchemeHTTPS: "443", SchemeH2C: "80", SchemeH3: "443",
	SchemeZAP: "", SchemeZAPTLS: "", SchemeZAPQUIC: "", SchemeZAPRPCTLS: "", SchemeZAPRPCQUIC: "",
}

// Secure reports whether the scheme uses TLS or QUIC.
func (s Scheme) Secure() bool {
	switch s {
	case SchemeHTTPS, SchemeH3, SchemeZAPTLS, SchemeZAPQUIC, SchemeZAPRPCTLS, SchemeZAPRPCQUIC:
		return true
	}
	return false
}

// QUIC reports whether the scheme runs over QUIC.
func (s Scheme) QUIC() bool {
	return s == SchemeH3 || s == SchemeZAPQUIC || s == SchemeZAPRPCQUIC
}

// RPC reports whether the scheme carries ZAP calls in their envelope.
func (s Scheme) RPC() bool { return s == SchemeZAPRPCTLS || s == SchemeZAPRPCQUIC }

// Endpoint is one instance of an upstream.
type Endpoint struct {
	// Scheme is what is spoken.
	Scheme Scheme
	// Address to dial, with its port.
	Address Address
	// Host is the name or IP address, without port, that a certificate must
	// bear where the TLS settings name none; empty for unix sockets.
	Host string
}

// String writes the endpoint as in the configuration file.
func (e Endpoint) String() string {
	if e.Address.IsUnix() {
		return string(e.Scheme) + ":" + e.Address.Addr
	}
	return string(e.Scheme) + "://" + e.Address.Addr
}

// MarshalText writes the endpoint as in the configuration file.
func (e Endpoint) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads a URL such as https://10.0.0.1:8443 or unix:/run/app.sock.
func (e *Endpoint) UnmarshalText(text []byte) error {
	s := string(text)
	for _, scheme := range []Scheme{SchemeUnix, SchemeZAPUnix} {
		if path, ok := strings.CutPrefix(s, string(scheme)+":"); ok {
			path = strings.TrimPrefix(path, "//")
			if path == "" {
				return fmt.Errorf("%q needs a path, as in %s:/run/app.sock", s, scheme)
			}
			*e = Endpoint{Scheme: scheme, Address: Address{Network: "unix", Addr: path}}
			return nil
		}
	}
	return e.parseURL(s)
}

func (e *Endpoint) parseURL(s string) error {
	name, rest, ok := strings.Cut(s, "://")
	if !ok {
		return fmt.Errorf("%q is not a URL; write it as http://host:port", s)
	}
	scheme := Scheme(name)
	port, known := defaultPorts[scheme]
	if !known {
		return &unknownWord{what: "scheme", word: name, known: SchemeHTTP.values()}
	}
	u, err := url.Parse("x://" + rest)
	if err != nil || u.Hostname() == "" {
		return fmt.Errorf("%q is not a URL; write it as %s://host:port", s, scheme)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.TrimPrefix(u.Path, "/") != "" {
		return fmt.Errorf("an endpoint is only scheme://host:port; a path is changed by a route's rewrite")
	}
	hostport := u.Host
	if u.Port() == "" {
		if port == "" {
			return fmt.Errorf("%q has no port, and %s has none by default", s, scheme)
		}
		hostport = strings.TrimSuffix(hostport, ":") + ":" + port
	}
	host, _, err := splitHostPort(hostport)
	if err != nil {
		return err
	}
	*e = Endpoint{Scheme: scheme, Address: Address{Network: "tcp", Addr: hostport}, Host: host}
	return nil
}

// ParseEndpoint reads an endpoint, as a command line gives one.
func ParseEndpoint(s string) (Endpoint, error) {
	var e Endpoint
	err := e.UnmarshalText([]byte(s))
	return e, err
}

// ParseAddress reads an address, as a command line gives one.
func ParseAddress(s string) (Address, error) {
	var a Address
	err := a.UnmarshalText([]byte(s))
	return a, err
}
