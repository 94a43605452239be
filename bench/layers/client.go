package layers

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/identity"
	"github.com/hanzoai/pqgw/bench/load"
	"github.com/hanzoai/pqgw/transports/zap"
	"github.com/hanzoai/pqgw/zapcodec"
)

// clientRole is the name of the role that asks.
const clientRole = "layers-client"

func init() { bench.RegisterRole(clientRole, openClient) }

// target is whom to ask.
type target struct {
	Address string `json:"address"`
	Root    []byte `json:"root"` // nil in the clear
	Conns   int    `json:"conns"`
}

// asked is what a run came to.
type asked struct {
	Ops    int           `json:"ops"`
	Median time.Duration `json:"median"` // of a request
}

const patience = 20 * time.Second

// client asks over its connections.
type client struct{ conns []*conn }

func openClient(context.Context, json.RawMessage) (map[string]bench.Verb, func(), error) {
	c := &client{}
	return map[string]bench.Verb{
		"connect": func(ctx context.Context, args json.RawMessage) (any, error) {
			var t target
			if err := json.Unmarshal(args, &t); err != nil {
				return nil, err
			}
			return struct{}{}, c.connect(ctx, t)
		},
		"run": func(_ context.Context, args json.RawMessage) (any, error) {
			var s bench.Slice
			if err := json.Unmarshal(args, &s); err != nil {
				return nil, err
			}
			return c.run(s)
		},
	}, c.close, nil
}

func (c *client) close() {
	for _, k := range c.conns {
		_ = k.Close()
	}
	c.conns = nil
}

// connect makes new connections, and asks once on each.
func (c *client) connect(ctx context.Context, t target) error {
	c.close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for range t.Conns {
		k, err := dial(ctx, t)
		if err != nil {
			return err
		}
		c.conns = append(c.conns, k)
		if err := k.ask(); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) run(s bench.Slice) (asked, error) {
	if s.Ops > 0 {
		s.Ops = (s.Ops + len(c.conns) - 1) / len(c.conns)
	}
	times, errs := make([][]time.Duration, len(c.conns)), make([]error, len(c.conns))
	began := time.Now()
	var wg sync.WaitGroup
	for i, k := range c.conns {
		wg.Go(func() {
			_ = k.SetDeadline(began.Add(s.For + patience)) // a connection that is closed says so when it is used
			for at := began; errs[i] == nil && !s.Over(began, len(times[i])); {
				errs[i] = k.ask()
				now := time.Now()
				times[i], at = append(times[i], now.Sub(at)), now
			}
		})
	}
	wg.Wait()
	all := slices.Concat(times...)
	slices.Sort(all)
	return asked{Ops: len(all), Median: all[len(all)/2]}, errors.Join(errs...)
}

// conn is a connection that has the same request answered again and again.
type conn struct {
	net.Conn
	r        *bufio.Reader
	question []byte
	buf      []byte
	view     zapcodec.ResponseView
}

func dial(ctx context.Context, t target) (*conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", t.Address)
	if err != nil {
		return nil, err
	}
	if t.Root != nil {
		if c, err = secured(ctx, c, t.Root); err != nil {
			return nil, err
		}
	}
	question, err := request()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &conn{Conn: c, r: bufio.NewReader(c), question: question}, nil
}

func secured(ctx context.Context, c net.Conn, root []byte) (net.Conn, error) {
	roots, err := (identity.Identity{Root: root}).Roots()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	s := tls.Client(c, &tls.Config{
		ServerName: identity.ServerName, RootCAs: roots, MinVersion: tls.VersionTLS13,
		CurvePreferences: []tls.CurveID{load.Group}, NextProtos: []string{zap.ALPN},
	})
	if err := s.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if got := s.ConnectionState().CurveID; got != load.Group {
		return nil, errors.Join(fmt.Errorf("a handshake with %v, wanted %v", got, load.Group), c.Close())
	}
	return s, nil
}

// ask sends the request and holds the answer to what it must be.
func (c *conn) ask() error {
	if _, err := c.Write(c.question); err != nil {
		return err
	}
	f, err := zapcodec.FramingHTTP.Read(c.r, c.buf, 0)
	if err != nil {
		return err
	}
	c.buf = f.Bytes
	return checkAnswer(f.Bytes, &c.view)
}
