package layers

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/identity"
	"github.com/hanzoai/pqgw/bench/load"
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/telemetry"
	"github.com/hanzoai/pqgw/transports"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/zap"
	"github.com/hanzoai/pqgw/zapcodec"
)

// serverRole is the name of the role that serves the first layers.
const serverRole = "layers-server"

func init() { bench.RegisterRole(serverRole, openServer) }

type serverSettings struct {
	Host     string            `json:"host"`
	Identity identity.Identity `json:"identity"`
	Upstream string            `json:"upstream,omitempty"` // that the relay passes to
}

// server has a listener for each of the programs that are no gateway.
type server struct {
	addrs map[string]string
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	ends  []func()
	wg    sync.WaitGroup
}

func openServer(_ context.Context, settings json.RawMessage) (map[string]bench.Verb, func(), error) {
	var set serverSettings
	if err := json.Unmarshal(settings, &set); err != nil {
		return nil, nil, err
	}
	s := &server{addrs: make(map[string]string), conns: make(map[net.Conn]struct{})}
	if err := s.open(set); err != nil {
		s.close()
		return nil, nil, err
	}
	addrs := func(context.Context, json.RawMessage) (any, error) { return s.addrs, nil }
	return map[string]bench.Verb{"addrs": addrs}, s.close, nil
}

func (s *server) open(set serverSettings) error {
	cert, err := tls.X509KeyPair(set.Identity.Certificate, set.Identity.Key)
	if err != nil {
		return err
	}
	secure := &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13,
		CurvePreferences: []tls.CurveID{load.Group}, NextProtos: []string{zap.ALPN},
	}
	for _, p := range []struct {
		name  string
		serve func(net.Conn) error
		tls   *tls.Config
	}{{"echo", serveEcho, nil}, {"relay", relayTo(set.Upstream), nil}, {"frames", serveFrames, nil}, {"codec", serveCodec, nil}, {"tls", serveCodec, secure}} {
		if err := s.listen(net.JoinHostPort(set.Host, "0"), p.name, p.serve, p.tls); err != nil {
			return err
		}
	}
	return s.transports(set)
}

func (s *server) close() {
	for _, end := range s.ends {
		end()
	}
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *server) listen(address, name string, serve func(net.Conn) error, secure *tls.Config) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	s.addrs[name] = l.Addr().String()
	s.ends = append(s.ends, func() { _ = l.Close() })
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.serve(c, serve, secure) })
		}
	})
	return nil
}

func (s *server) serve(c net.Conn, serve func(net.Conn) error, secure *tls.Config) {
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	defer func() {
		_ = c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	if secure != nil {
		_ = serve(tls.Server(c, secure)) // ends as the client closes; its checks are what counts
		return
	}
	_ = serve(c) // as above
}

// serveEcho answers so many bytes with so many bytes: what the kernel and the
// runtime take.
func serveEcho(c net.Conn) error {
	question, err := request()
	if err != nil {
		return err
	}
	answer, err := appendAnswer(new(zapcodec.Encoder), nil)
	if err != nil {
		return err
	}
	for {
		if _, err := io.ReadFull(c, question); err != nil {
			return err
		}
		if _, err := c.Write(answer); err != nil {
			return err
		}
	}
}

// relayTo passes each request on over a connection of its own, and the answer
// back.
func relayTo(upstream string) func(net.Conn) error {
	return func(c net.Conn) error {
		up, err := net.Dial("tcp", upstream)
		if err != nil {
			return err
		}
		defer up.Close()
		question, err := request()
		if err != nil {
			return err
		}
		answer, err := appendAnswer(new(zapcodec.Encoder), nil)
		if err != nil {
			return err
		}
		for {
			for _, pass := range []struct {
				to, from net.Conn
				bytes    []byte
			}{{up, c, question}, {c, up, answer}} {
				if _, err := io.ReadFull(pass.from, pass.bytes); err != nil {
					return err
				}
				if _, err := pass.to.Write(pass.bytes); err != nil {
					return err
				}
			}
		}
	}
}

// serveFrames finds where messages begin and end.
func serveFrames(c net.Conn) error {
	answer, err := appendAnswer(new(zapcodec.Encoder), nil)
	if err != nil {
		return err
	}
	var buf []byte
	for r := bufio.NewReader(c); ; {
		f, err := zapcodec.FramingHTTP.Read(r, buf, 0)
		if err != nil {
			return err
		}
		buf = f.Bytes
		if _, err := c.Write(answer); err != nil {
			return err
		}
	}
}

// serveCodec takes each request apart and puts each answer together.
func serveCodec(c net.Conn) error {
	var buf, answer []byte
	var v zapcodec.RequestView
	var e zapcodec.Encoder
	for r := bufio.NewReader(c); ; {
		f, err := zapcodec.FramingHTTP.Read(r, buf, 0)
		if err != nil {
			return err
		}
		buf = f.Bytes
		if err := checkRequest(f.Bytes, &v); err != nil {
			return err
		}
		if answer, err = appendAnswer(&e, answer[:0]); err != nil {
			return err
		}
		if _, err := c.Write(answer); err != nil {
			return err
		}
	}
}

// transports serves a handler by the gateway's own transport.
func (s *server) transports(set serverSettings) error {
	watch := deadline.New()
	env := transports.Environment{
		Watch: watch, Metrics: telemetry.NewMetrics(telemetry.Build{}),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	for _, name := range []string{"server", "server-tls"} {
		settings := transports.Settings{
			Protocols: []string{transports.ZAP}, Handler: answering{}, Limits: exchange.Limits{HeadBytes: 16 << 10, Fields: 64},
			HandshakeTimeout: 10 * time.Second, HeadTimeout: time.Minute, IdleTimeout: 10 * time.Minute, StreamIdle: time.Minute,
		}
		if name == "server-tls" {
			source, err := set.Identity.Source()
			if err == nil {
				settings.TLS, err = handshake.NewServer(handshake.Settings{
					Sources: []handshake.Source{source}, PQ: handshake.Require, Groups: []tls.CurveID{load.Group}, NextProtos: transports.ALPN(settings.Protocols),
				})
			}
			if err != nil {
				watch.Close()
				return err
			}
		}
		l, err := transports.Listen(name, net.JoinHostPort(set.Host, "0"), settings, env)
		if err != nil {
			watch.Close()
			return err
		}
		l.Serve()
		s.addrs[name] = l.Addr().String()
		s.ends = append(s.ends, l.Close)
	}
	s.ends = append(s.ends, watch.Close)
	return nil
}

// answering gives the answer to every exchange.
type answering struct{}

var _ exchange.Handler = answering{}

// Serve implements exchange.Handler.
func (answering) Serve(x *exchange.Exchange) {
	if !load.Begin(x) {
		return
	}
	x.Response.AddKnown(exchange.ContentType, plainText)
	_ = x.Responder.Respond(&x.Response, exchange.NewBytes([]byte(answerBody))) // the client sees
}
