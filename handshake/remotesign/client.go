package remotesign

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/zapcodec"
)

// Defaults of a client.
const (
	defaultTimeout = 5 * time.Second
	defaultAttempt = time.Second
	firstPause     = 10 * time.Millisecond // before all servers are tried again
	longestPause   = 250 * time.Millisecond
)

// ClientSettings are what a client has.
type ClientSettings struct {
	// Servers by "host:port"; the one that answered last is asked first.
	Servers []string
	// TLS must require post-quantum key exchange.
	TLS *handshake.Client
	// Timeout bounds a signature, all tries in; 0 stands for 5 s. It should not be
	// longer than the handshake that waits for it.
	Timeout time.Duration
	// Attempt bounds one try at one server; 0 stands for 1 s.
	Attempt time.Duration
	// Observe, which may be nil, is told of each signature: how long it took with
	// all tries, and how it ended.
	Observe func(d time.Duration, err error)
}

// Client signs by servers. It keeps a connection to each that it needed, on which
// many calls run at a time. It is safe for concurrent use.
type Client struct {
	s         ClientSettings
	links     []*link
	preferred atomic.Int32
	ctx       context.Context //nolint:containedctx // ends the dials at Close
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	promises  atomic.Uint32
}

// NewClient makes one; nothing is dialled before it is needed.
func NewClient(s ClientSettings) (*Client, error) {
	switch {
	case len(s.Servers) == 0:
		return nil, errors.New("no signing server is given")
	case s.TLS == nil || !s.TLS.PQ().Required():
		return nil, errors.New("signing servers are asked over post-quantum TLS only: pq must be require")
	}
	if s.Timeout <= 0 {
		s.Timeout = defaultTimeout
	}
	if s.Attempt <= 0 {
		s.Attempt = defaultAttempt
	}
	c := &Client{s: s}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for _, server := range s.Servers {
		c.links = append(c.links, &link{c: c, server: server, tls: s.TLS.Offer(server, ALPN)})
	}
	return c, nil
}

// Close cuts the connections and waits for their goroutines. Calls under way fail.
func (c *Client) Close() error {
	c.cancel()
	for _, l := range c.links {
		l.close()
	}
	c.wg.Wait()
	return nil
}

// ErrUnreachable: no signing server could be asked.
var ErrUnreachable = errors.New("no signing server can be reached")

// RefusedError is a server's answer that is no signature.
type RefusedError struct {
	Server string
	Status uint32 // one of zapcodec's RPC statuses
	Text   string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("signing server %s refuses (%d): %.200q", e.Server, e.Status, e.Text)
}

// call asks the servers in turn until one answers, and again while there is time:
// a signer that restarts is back soon. Errors are *[RefusedError] where all have refused,
// else they wrap ErrUnreachable.
func (c *Client) call(ctx context.Context, method uint32, r *request) ([]byte, error) {
	payload, err := r.append()
	if err != nil {
		return nil, err
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		body, err := c.round(ctx, method, payload)
		if err == nil || !errors.Is(err, ErrUnreachable) {
			return body, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		case <-c.ctx.Done():
			timer.Stop()
			return nil, net.ErrClosed
		}
	}
}

// round asks each server once. The error wraps ErrUnreachable where one could not
// be asked.
func (c *Client) round(ctx context.Context, method uint32, payload []byte) (body []byte, err error) {
	first := int(c.preferred.Load())
	var refusals, failures []error
	for i := range c.links {
		at := (first + i) % len(c.links)
		body, err = c.try(ctx, c.links[at], method, payload)
		if err == nil {
			if i > 0 {
				c.preferred.Store(int32(at)) //nolint:gosec // servers are few
			}
			return body, nil
		}
		var refused *RefusedError
		if errors.As(err, &refused) {
			refusals = append(refusals, err)
			continue
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(failures) == 0 {
		return nil, refusals[0]
	}
	return nil, fmt.Errorf("%w: %w", ErrUnreachable, errors.Join(append(failures, refusals...)...))
}

func (c *Client) try(ctx context.Context, l *link, method uint32, payload []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.s.Attempt)
	defer cancel()
	conn, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return conn.call(ctx, method, c.promises.Add(1), payload)
}

// link is the way to one server.
type link struct {
	c      *Client
	server string
	tls    *tls.Config

	mu     sync.Mutex
	conn   *clientConn
	dial   *dial // under way
	closed bool
}

// dial is shared by all who wait for it.
type dial struct {
	done chan struct{}
	conn *clientConn
	err  error
}

// get gives the connection, or makes one; ctx ends the waiting, not the dial.
func (l *link) get(ctx context.Context) (*clientConn, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, net.ErrClosed
	}
	if conn := l.conn; conn != nil {
		l.mu.Unlock()
		return conn, nil
	}
	d := l.dial
	if d == nil {
		d = &dial{done: make(chan struct{})}
		l.dial = d
		l.c.wg.Go(func() { l.run(d) })
	}
	l.mu.Unlock()
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, fmt.Errorf("signing server %s: %w", l.server, ctx.Err())
	}
}

// run makes the connection and then is its reader.
func (l *link) run(d *dial) {
	conn, err := l.connect()
	l.mu.Lock()
	if err == nil && l.closed {
		_ = conn.raw.Close()
		err = net.ErrClosed
	}
	l.dial = nil
	if err != nil {
		d.err = fmt.Errorf("signing server %s: %w", l.server, err)
	} else {
		l.conn, d.conn = conn, conn
	}
	l.mu.Unlock()
	close(d.done)
	if err != nil {
		return
	}
	err = conn.read()
	l.mu.Lock()
	if l.conn == conn {
		l.conn = nil
	}
	l.mu.Unlock()
	conn.fail(fmt.Errorf("signing server %s: connection lost: %w", l.server, err))
}

func (l *link) connect() (*clientConn, error) {
	ctx, cancel := context.WithTimeout(l.c.ctx, l.c.s.Timeout)
	defer cancel()
	raw, err := (&net.Dialer{KeepAlive: keepAlive}).DialContext(ctx, "tcp", l.server)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, l.tls)
	if _, err := l.c.s.TLS.Handshake(ctx, conn, l.server); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return &clientConn{link: l, raw: raw, tls: conn, pending: map[uint32]chan answer{}}, nil
}

const keepAlive = 15 * time.Second

func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	conn := l.conn
	l.mu.Unlock()
	if conn != nil {
		_ = conn.raw.Close()
	}
}

// drop makes the next call connect anew.
func (l *link) drop(conn *clientConn) {
	l.mu.Lock()
	if l.conn == conn {
		l.conn = nil
	}
	l.mu.Unlock()
	_ = conn.raw.Close()
}

// clientConn is a connection with the calls that run on it.
type clientConn struct {
	link *link
	raw  net.Conn
	tls  *tls.Conn

	write sync.Mutex

	mu      sync.Mutex
	pending map[uint32]chan answer
	err     error // once it is lost
}

type answer struct {
	status uint32
	body   []byte
	err    error
}

// call sends a call and waits for its answer. A server that gives none in time
// loses the connection: behind it may be nobody any more.
func (c *clientConn) call(ctx context.Context, method, promise uint32, payload []byte) ([]byte, error) {
	frame, err := appendCall(make([]byte, 0, 96+len(payload)), method, promise, payload)
	if err != nil {
		return nil, err
	}
	got := make(chan answer, 1)
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, c.err
	}
	c.pending[promise] = got
	c.mu.Unlock()
	if err := c.send(ctx, frame); err != nil {
		c.forget(promise)
		c.link.drop(c)
		return nil, fmt.Errorf("signing server %s: %w", c.link.server, err)
	}
	select {
	case a := <-got:
		if a.err == nil && a.status != zapcodec.RPCOK {
			a.err = &RefusedError{Server: c.link.server, Status: a.status, Text: string(a.body)}
		}
		return a.body, a.err
	case <-ctx.Done():
		c.forget(promise)
		c.link.drop(c)
		return nil, fmt.Errorf("signing server %s: no answer in time: %w", c.link.server, ctx.Err())
	}
}

func (c *clientConn) send(ctx context.Context, frame []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	if at, ok := ctx.Deadline(); ok {
		if err := c.tls.SetWriteDeadline(at); err != nil {
			return err
		}
	}
	_, err := c.tls.Write(frame)
	return err
}

func (c *clientConn) forget(promise uint32) {
	c.mu.Lock()
	delete(c.pending, promise)
	c.mu.Unlock()
}

// read hands out answers until the connection ends.
func (c *clientConn) read() error {
	r := bufio.NewReader(c.tls)
	for {
		frame, err := zapcodec.FramingRPC.Read(r, nil, maxFrame)
		if err != nil {
			return err
		}
		var a zapcodec.RPCResponse
		if err := zapcodec.ParseRPCResponse(frame.Bytes, &a); err != nil {
			return err
		}
		c.mu.Lock()
		got := c.pending[a.Promise]
		delete(c.pending, a.Promise)
		c.mu.Unlock()
		if got != nil {
			got <- answer{status: a.Status, body: a.Body}
		}
	}
}

// fail ends the calls that wait.
func (c *clientConn) fail(err error) {
	_ = c.raw.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for promise, got := range c.pending {
		got <- answer{err: err}
		delete(c.pending, promise)
	}
}
