package handshakes

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/identity"
	"github.com/hanzoai/pqgw/handshake"
)

// Names of the child processes' roles.
const (
	serverRole     = "handshake-server"
	clientRole     = "handshake-client"
	primitivesRole = "handshake-primitives"
	relayRole      = "handshake-relay"
)

func init() { bench.RegisterRole(serverRole, openServer) }

const (
	request = "ask\n"
	answer  = "body\n"
	alpn    = "pqgw-bench"
	// clientName is in the client's identity, where it has one.
	clientName = "client.bench.test"
	// patience bounds one operation: a retransmission over the longest relay fits.
	patience = 20 * time.Second
)

// serverSettings say what to listen with: every group with every identity.
type serverSettings struct {
	Host       string                       `json:"host"`       // to listen on
	Identities map[string]identity.Identity `json:"identities"` // by authentication
	Proof      identity.Proof               `json:"proof"`      // where that is authMLDSA
}

// place is where a group and an authentication are served.
type place struct {
	Group tls.CurveID `json:"group"`
	Auth  string      `json:"auth"`
	TCP   string      `json:"tcp"`
	UDP   string      `json:"udp"`
}

// server answers on a listener of its own for each group and authentication.
type server struct {
	ctx    context.Context
	cancel context.CancelFunc
	places []place
	closes []func() error
	wg     sync.WaitGroup // everything that runs
	proof  *handshake.Identity

	mu      sync.Mutex
	idle    *sync.Cond
	open    int   // connections under way
	trouble error // first that went wrong on a connection
}

func openServer(ctx context.Context, settings json.RawMessage) (map[string]bench.Verb, func(), error) {
	var s serverSettings
	if err := json.Unmarshal(settings, &s); err != nil {
		return nil, nil, err
	}
	v := new(server)
	v.ctx, v.cancel = context.WithCancel(ctx)
	v.idle = sync.NewCond(&v.mu)
	var err error
	if v.proof, err = s.Proof.Identity(); err != nil {
		return nil, nil, err
	}
	for auth, id := range s.Identities {
		for _, g := range groups {
			if err := v.listen(s.Host, g, auth, id); err != nil {
				v.end()
				return nil, nil, err
			}
		}
	}
	return map[string]bench.Verb{
		"places": func(context.Context, json.RawMessage) (any, error) { return v.places, nil },
		"settle": func(context.Context, json.RawMessage) (any, error) { return nil, v.settle() },
	}, v.end, nil
}

func (v *server) end() {
	v.cancel()
	for _, c := range v.closes {
		_ = c()
	}
	v.wg.Wait()
}

func (v *server) listen(host string, group tls.CurveID, auth string, id identity.Identity) error {
	source, err := id.Source()
	if err != nil {
		return fmt.Errorf("%s: %w", auth, err)
	}
	rules, err := handshake.NewServer(handshake.Settings{Sources: []handshake.Source{source}, Groups: []tls.CurveID{group}, NextProtos: []string{task{Auth: auth}.protocol()}})
	if err != nil {
		return err
	}
	tcp, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return err
	}
	v.closes = append(v.closes, tcp.Close)
	v.wg.Go(func() { v.acceptTCP(tcp, rules, auth == authMLDSA) })
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(host)})
	if err != nil {
		return err
	}
	transport := &quic.Transport{Conn: udp}
	v.closes = append(v.closes, transport.Close, udp.Close)
	l, err := transport.ListenEarly(rules.Config(), &quic.Config{Allow0RTT: true})
	if err != nil {
		return err
	}
	v.wg.Go(func() { v.acceptQUIC(l, auth == authMLDSA) })
	v.places = append(v.places, place{Group: group, Auth: auth, TCP: tcp.Addr().String(), UDP: udp.LocalAddr().String()})
	return nil
}

func (v *server) acceptTCP(l net.Listener, rules *handshake.Server, prove bool) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		v.begin()
		v.wg.Go(func() { v.finish(v.serveTLS(c, rules, prove)) })
	}
}

func (v *server) serveTLS(raw net.Conn, rules *handshake.Server, prove bool) error {
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(patience))
	c := rules.Conn(raw)
	if _, err := rules.Handshake(v.ctx, c); err != nil {
		return err
	}
	if prove {
		cs := c.ConnectionState()
		if err := v.prove(c, &cs); err != nil {
			return err
		}
	}
	if err := answerOn(c); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, 1))
	if errors.Is(err, io.EOF) {
		err = nil // the client closes
	}
	return err
}

func (v *server) acceptQUIC(l *quic.EarlyListener, prove bool) {
	for {
		c, err := l.Accept(v.ctx)
		if err != nil {
			return
		}
		v.begin()
		v.wg.Go(func() { v.finish(v.serveQUIC(c, prove)) })
	}
}

func (v *server) serveQUIC(c *quic.Conn, prove bool) error {
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	s, err := c.AcceptStream(ctx)
	if err != nil {
		return err
	}
	if prove {
		if s, err = v.proveQUIC(ctx, c, s); err != nil {
			return err
		}
	}
	if err := answerOn(s); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	select {
	case <-c.Context().Done(): // the client closes
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// prove exchanges identities and holds the client to its name.
func (v *server) prove(rw io.ReadWriter, cs *tls.ConnectionState) error {
	peer, err := v.proof.Accept(rw, cs)
	if err == nil && peer != clientName {
		err = fmt.Errorf("the client is %s", peer)
	}
	return err
}

// proveQUIC exchanges identities on the first stream and returns the second.
func (v *server) proveQUIC(ctx context.Context, c *quic.Conn, first *quic.Stream) (*quic.Stream, error) {
	select { // the connection was handed over before its handshake was done
	case <-c.HandshakeComplete():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	cs := c.ConnectionState().TLS
	if err := v.prove(first, &cs); err != nil {
		return nil, err
	}
	if err := first.Close(); err != nil {
		return nil, err
	}
	return c.AcceptStream(ctx)
}

func answerOn(rw io.ReadWriter) error {
	var got [len(request)]byte
	if _, err := io.ReadFull(rw, got[:]); err != nil {
		return err
	}
	if string(got[:]) != request {
		return fmt.Errorf("request %q", got)
	}
	_, err := io.WriteString(rw, answer)
	return err
}

func (v *server) begin() {
	v.mu.Lock()
	v.open++
	v.mu.Unlock()
}

func (v *server) finish(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil && v.trouble == nil && v.ctx.Err() == nil {
		v.trouble = err
	}
	if v.open--; v.open == 0 {
		v.idle.Broadcast()
	}
}

// settle returns when no connection is under way, and tells what went wrong
// since it was last asked.
func (v *server) settle() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.open > 0 {
		v.idle.Wait() // every connection has a deadline
	}
	err := v.trouble
	v.trouble = nil
	return err
}
