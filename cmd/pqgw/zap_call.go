package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports"
	"github.com/hanzoai/pqgw/transports/deadline"
)

func init() {
	zapCommands = append(zapCommands,
		func() *cobra.Command { return newZapCall("get", "GET") },
		func() *cobra.Command { return newZapCall("post", "POST") })
}

// zapPort is the customary port of ZAP.
const zapPort = "9999"

// zapCall is one call as the command line asks for it.
type zapCall struct {
	method             string
	headers            []string
	data, out, output  string
	include, verbose   bool
	noBuffer, fail     bool
	insecure           bool
	ca, cert, key, pq  string
	serverName         string
	connect, firstByte time.Duration
	cmd                *cobra.Command
	id                 identityFlags
	own                *handshake.Files         // of --cert, nil for none
	identity           *handshake.IdentityFiles // of --identity-cert, nil for none
}

func newZapCall(use, method string) *cobra.Command {
	f := zapCall{method: method}
	cmd := &cobra.Command{
		Use:   use + " URL",
		Short: method + " by HTTP over ZAP, as curl does by HTTP",
		Long: "URL is zap://HOST[:PORT]/PATH, zap+tls://… or zap+quic://…, the port being 9999 if none is given; or\n" +
			"zap+unix:/SOCKET, with :/PATH behind it where the path is not /. The answer's body goes to stdout, all else\n" +
			"to stderr. --output json prints status, fields, body (body_base64 where it is no text), trailers and the\n" +
			"handshake's facts as one object. Exits 1 if there is no whole answer, and with --fail if its status is 400 or more.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.cmd = cmd
			return f.run(args[0])
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVarP(&f.headers, "header", "H", nil, "header field 'Name: value'; may be given again")
	if method == "POST" {
		fl.StringVarP(&f.data, "data", "d", "", "the body; @FILE sends a file, @- what comes on stdin")
	}
	fl.BoolVarP(&f.include, "include", "i", false, "print the answer's head before its body")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "tell of the connection, its handshake and both heads on stderr")
	fl.BoolVarP(&f.noBuffer, "no-buffer", "N", false, "print each piece of a streamed answer as it comes")
	fl.StringVarP(&f.out, "out", "o", "", "write the body to this file")
	fl.BoolVarP(&f.fail, "fail", "f", false, "exit 1 on a status of 400 or more")
	outputFlag(cmd, &f.output)
	fl.StringVar(&f.ca, "ca", "", "PEM file of the CAs to verify by, instead of the system's")
	fl.StringVar(&f.cert, "cert", "", "PEM file of our own certificate, for a server that wants one")
	fl.StringVar(&f.key, "key", "", "PEM file of our own key")
	f.id.flags(cmd)
	fl.StringVar(&f.serverName, "server-name", "", "name to ask for and to verify, instead of HOST")
	fl.StringVar(&f.pq, "pq", "prefer", "post-quantum key exchange: require, prefer or off")
	fl.BoolVar(&f.insecure, "insecure", false, "do not verify the server's certificate")
	fl.DurationVar(&f.connect, "connect-timeout", 10*time.Second, "bound on connecting and the handshake")
	fl.DurationVar(&f.firstByte, "timeout", 5*time.Minute, "bound on the wait for the answer, and on each pause in it")
	return cmd
}

// zapTarget is a URL taken apart.
type zapTarget struct {
	scheme, address, host, path string
}

func (t *zapTarget) secure() bool { return t.scheme == "zap+tls" || t.scheme == "zap+quic" }

// parseZapURL takes a URL apart; see the command's help for its forms.
func parseZapURL(url string) (zapTarget, error) {
	if socket, ok := strings.CutPrefix(url, "zap+unix:"); ok {
		socket = strings.TrimPrefix(socket, "//")
		socket, path, _ := strings.Cut(socket, ":")
		if path == "" {
			path = "/"
		}
		if !strings.HasPrefix(socket, "/") || !strings.HasPrefix(path, "/") {
			return zapTarget{}, fmt.Errorf("%q is not zap+unix:/SOCKET or zap+unix:/SOCKET:/PATH", url)
		}
		return zapTarget{scheme: "zap+unix", address: socket, host: "localhost", path: path}, nil
	}
	scheme, rest, ok := strings.Cut(url, "://")
	switch {
	case !ok:
		return zapTarget{}, fmt.Errorf("%q is no URL; did you mean zap+tls://%s?", url, url)
	case scheme != "zap" && scheme != "zap+tls" && scheme != "zap+quic":
		return zapTarget{}, fmt.Errorf("%q: there are zap, zap+tls, zap+quic and zap+unix, not %q", url, scheme)
	}
	rest, _, _ = strings.Cut(rest, "#")
	host, path := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	if strings.HasPrefix(path, "?") {
		path = "/" + path
	}
	if host == "" || strings.Contains(host, "@") {
		return zapTarget{}, fmt.Errorf("%q names no host, or a user, whom ZAP does not know", url)
	}
	return zapTarget{scheme: scheme, address: withZapPort(host), host: host, path: path}, nil
}

func withZapPort(host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), zapPort)
}

func (f *zapCall) run(url string) error {
	if err := f.checkJSON(); err != nil {
		return err
	}
	target, err := parseZapURL(url)
	if err != nil {
		return withCode(exitUsage, err)
	}
	var x exchange.Exchange
	if err := f.request(&x, target); err != nil {
		return withCode(exitUsage, err)
	}
	body, err := f.body()
	if err != nil {
		return withCode(exitUsage, err)
	}
	watch := deadline.New()
	defer watch.Close()
	defer func() {
		if f.own != nil {
			_ = f.own.Close()
		}
		if f.identity != nil {
			_ = f.identity.Close()
		}
	}()
	conn, err := f.dial(target, watch)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f.call(conn, &x, body)
}

// request makes the head of the request.
func (f *zapCall) request(x *exchange.Exchange, t zapTarget) error {
	q := &x.Request
	q.Reset(nil)
	q.SetMethod([]byte(f.method))
	q.SetTarget([]byte(t.path))
	host, agent, kind := t.host, true, f.data != ""
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		value = strings.TrimSpace(value)
		if !ok || !exchange.IsToken([]byte(name)) || !exchange.IsFieldValue([]byte(value)) {
			return fmt.Errorf("-H %q is not 'Name: value'", h)
		}
		switch exchange.LookupName([]byte(name)) {
		case exchange.Host:
			host = value
			continue
		case exchange.UserAgent:
			agent = false
		case exchange.ContentType:
			kind = false
		}
		q.AddString(name, value)
	}
	if !exchange.IsTarget([]byte(t.path)) || !exchange.IsAuthority([]byte(host)) {
		return fmt.Errorf("%q is no valid path, or %q no valid host", t.path, host)
	}
	q.SetAuthority([]byte(host))
	if agent {
		q.AddKnownString(exchange.UserAgent, "pqgw/"+buildVersion())
	}
	if kind {
		q.AddKnownString(exchange.ContentType, contentTypeOf(f.data))
	}
	return nil
}

// contentTypeOf guesses as little as it can: text that looks like JSON is called
// that, which services ask for.
func contentTypeOf(data string) string {
	if strings.HasPrefix(data, "{") || strings.HasPrefix(data, "[") || strings.HasSuffix(data, ".json") {
		return "application/json"
	}
	return "application/octet-stream"
}

// body opens what -d names.
func (f *zapCall) body() (exchange.Source, error) {
	name, isFile := strings.CutPrefix(f.data, "@")
	switch {
	case f.data == "":
		return nil, nil
	case !isFile:
		return exchange.NewBytes([]byte(f.data)), nil
	case name == "-":
		return &readerSource{r: f.cmd.InOrStdin(), left: -1}, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("-d: %w", err)
	}
	s := &readerSource{r: file, left: -1}
	if st, err := file.Stat(); err == nil && st.Mode().IsRegular() {
		s.left = st.Size()
	}
	return s, nil
}

// dial connects.
func (f *zapCall) dial(t zapTarget, watch *deadline.Watch) (exchange.ClientConn, error) {
	set := transports.DialSettings{Watch: watch}
	if given, err := f.id.given(); err != nil {
		return nil, withCode(exitUsage, err)
	} else if given && !t.secure() {
		return nil, withCode(exitUsage, errors.New("an identity is bound to a TLS connection: write zap+tls:// or zap+quic://"))
	}
	if t.secure() {
		client, err := f.tls()
		if err != nil {
			return nil, withCode(exitUsage, err)
		}
		set.TLS = client
	}
	d, err := transports.NewDialer(t.scheme, t.address, set)
	if err != nil {
		return nil, withCode(exitUsage, err)
	}
	ctx := f.cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := context.WithTimeout(ctx, f.connect)
	defer stop()
	conn, err := d.Dial(ctx)
	if err != nil {
		return nil, explainDial(err)
	}
	f.tell(conn.Info())
	return conn, nil
}

// explainDial adds the hint of a refused handshake.
func explainDial(err error) error {
	var refused *handshake.RefusedError
	if errors.As(err, &refused) {
		if hint := refused.Hint(); hint != "" {
			return fmt.Errorf("%w (%s)", err, hint)
		}
	}
	return err
}

// tls makes the TLS side from the flags.
func (f *zapCall) tls() (*handshake.Client, error) {
	pq, err := handshake.ParsePQ(f.pq)
	if err != nil {
		return nil, fmt.Errorf("--pq: %w", err)
	}
	set := handshake.ClientSettings{PQ: pq, ServerName: f.serverName, Insecure: f.insecure}
	if (f.cert == "") != (f.key == "") {
		return nil, errors.New("--cert and --key go together")
	}
	if f.ca != "" {
		cas, err := handshake.ReadCertificates(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		set.Roots = handshake.Pool(cas)
	}
	if f.cert != "" {
		own, err := handshake.NewFiles([]handshake.Pair{{Cert: f.cert, Key: f.key}}, handshake.FilesOptions{})
		if err != nil {
			return nil, err
		}
		f.own = own
		set.Certificate = own
	}
	id, err := f.id.load(nil)
	if err != nil {
		return nil, err
	}
	if id != nil {
		f.identity, set.Identity = id, id.Identity
	}
	return handshake.NewClient(set)
}

// readerSource is a body that is read from a file or from stdin.
type readerSource struct {
	r    io.Reader
	left int64 // -1 where only the end will tell
	buf  []byte
}

// sourceBytes is how much of a file is read at a time.
const sourceBytes = 256 << 10

func (s *readerSource) Length() int64            { return s.left }
func (s *readerSource) Whole() ([]byte, bool)    { return nil, s.left == 0 }
func (s *readerSource) Buffered() int            { return 0 }
func (s *readerSource) Trailers() *exchange.Head { return nil }

func (s *readerSource) Next() ([]byte, error) {
	if s.buf == nil {
		s.buf = make([]byte, sourceBytes)
	}
	n, err := s.Read(s.buf)
	return s.buf[:n], err
}

func (s *readerSource) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	if s.left > 0 {
		p = p[:min(int64(len(p)), s.left)]
	}
	n, err := s.r.Read(p)
	if s.left > 0 {
		s.left -= int64(n)
		if errors.Is(err, io.EOF) && s.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

func (s *readerSource) Close(error) {
	if c, ok := s.r.(io.Closer); ok {
		_ = c.Close()
	}
}
