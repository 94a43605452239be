// Package serial is what protocols have in common that carry one exchange after the
// other on a byte stream, HTTP/1 and HTTP over ZAP: the loop of a server's
// connection, the calls of a client's, bodies, answers. A protocol brings how its messages are
// framed.
//
// A server's connection reads, parses and serves until it would wait, inside a read
// callback where the platform allows. What is not of the common shape leaves the callback
// and runs the same code in blocking reads, as everything does elsewhere.
package serial

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/stream"
)

// Options are what all connections of a listener share.
type Options struct {
	// Handler serves the exchanges.
	Handler exchange.Handler
	// Watch keeps the deadlines.
	Watch *deadline.Watch
	// Limits on requests.
	Limits exchange.Limits
	// HeadTimeout is the longest from the first byte of a head to its last.
	HeadTimeout time.Duration
	// IdleTimeout closes a connection without a request.
	IdleTimeout time.Duration
	// StreamIdle ends an exchange in which nothing moves.
	StreamIdle time.Duration
	// WriteTimeout cuts a client that has not taken what one write holds; 0 stands for StreamIdle.
	WriteTimeout time.Duration
	// BodyMinRate is the slowest a request body may arrive, in bytes per second; 0 for any.
	BodyMinRate int64
	// MaxRequests closes the connection in good order after so many; 0 for never.
	MaxRequests int
}

// Protocol reads the requests of a connection. All but Begin and Rest are called
// between the two.
type Protocol interface {
	// Begin takes the state of an exchange, once the first bytes of a request have come;
	// Rest gives it back when the connection is idle: of ten thousand most are.
	Begin() *Turn
	Rest()
	// Parse takes in the request once enough of it has come to dispatch it, or makes an exchange that is
	// refused. It returns false where more must be read. An error ends the loop and leaves the
	// connection open; Serve returns it.
	Parse() (ready bool, err error)
	// Refuse makes the request that was to be parsed one that is refused.
	Refuse(r *exchange.Refusal)
	// Plain tells whether the exchange is of the common shape that may run inside a
	// callback: nothing has to be waited for on this connection but the room to write.
	Plain() bool
	// SetBody gives the exchange its body: none, bytes that are here, or the turn's,
	// which it starts and then sets Unread. The request has used so many bytes of what was read,
	// unless its body is the turn's.
	SetBody() (used int)
}

// Conn is the server's side of one connection. Serve runs it; Shutdown and Close
// may be called from elsewhere. What is exported besides is for the protocol
// that it is part of.
type Conn struct {
	// Stream is the connection.
	Stream *stream.Stream
	// Turn is the exchange under way; nil while the connection is idle.
	Turn *Turn
	// Head is how much of Pending the parsed head of the request takes, which points into it.
	Head int
	// Size is how much of Pending the request will take, as far as it is known; else 0.
	Size int
	// Unread is set where the client may still be sending what belongs to the request.
	Unread bool
	// Closing is set where the answer is the last.
	Closing bool

	protocol Protocol
	o        *Options
	info     *exchange.Conn
	entry    deadline.Entry
	step     func() bool
	mu       sync.Mutex // guards Turn against those who cancel

	buf      *buffer.Buffer // what was read: buf.B[r:w]
	r, w     int
	state    state
	requests int
	began    int64 // when we began to wait for the body, by the watch
	waited   int64 // for how long we did, milliseconds
	err      error // why serving ends
	left     bool  // the connection is the caller's again

	draining atomic.Bool
	gone     atomic.Bool
}

// state is what the connection waits for, which says what a deadline means.
type state uint8

const (
	stateIdle state = iota
	stateHead
	stateBody
	stateServing // for nothing: the request can be dispatched
)

// errClosed is why serving ends in good order, or by our will.
var errClosed = errors.New("connection closed by us")

// Init makes the server's side of s, as part of p. fd is the socket's descriptor, or -1.
func (c *Conn) Init(p Protocol, s *stream.Stream, info *exchange.Conn, fd int, o *Options) {
	c.protocol, c.Stream, c.info, c.o = p, s, info, o
	c.step = c.stepOnce
	s.Sock.Waiting = c.writing
	c.entry = deadline.Entry{Expire: c.wake, Gone: c.clientGone, FD: fd}
	if g, ok := s.Sock.Conn.(interface{ Gone() bool }); ok {
		c.entry.Poll = g.Gone // a stream of QUIC has no socket to ask
	}
}

// Shutdown lets what runs end and takes no further request, but one that is on its
// way already.
func (c *Conn) Shutdown() {
	c.draining.Store(true)
	_ = c.Stream.Sock.SetReadDeadline(time.Now().Add(GraceWhileDraining))
}

// Close cuts the connection.
func (c *Conn) Close() {
	c.cancel(errClosed)
	_ = c.Stream.Sock.Close()
}

// Serve serves the connection until it ends, and closes it unless the protocol left
// it. An end in good order is no error.
func (c *Conn) Serve() error {
	c.o.Watch.Add(&c.entry)
	c.idle()
	for c.err == nil {
		if c.Stream.Sock.CanStep() {
			if err := c.Stream.Sock.Step(c.step); err != nil && c.err == nil {
				c.interrupted(err)
			}
		} else {
			c.stepOnce()
		}
		if c.err == nil && c.state == stateServing {
			c.serve()
		}
	}
	c.end()
	if c.err == io.EOF || c.err == errClosed { //nolint:errorlint // set by us
		return nil
	}
	return c.err
}

// stepOnce reads and serves requests until it would wait (false, only inside a
// callback), or until the connection is to be driven from outside: it has ended, or a
// request has come that is not of the common shape (true).
func (c *Conn) stepOnce() (outside bool) {
	for c.err == nil {
		if c.state != stateServing && !c.parse() {
			if again, failed := c.fill(); again || failed {
				return failed
			}
			continue
		}
		if c.err != nil || c.Stream.Sock.Inside() && !c.protocol.Plain() {
			return true
		}
		c.serve()
	}
	return true
}

// parse returns false where more must be read.
func (c *Conn) parse() bool {
	if c.r == c.w {
		return false
	}
	ready, err := c.protocol.Parse()
	if err != nil {
		c.err, c.left = err, true
		return true
	}
	if ready {
		c.state = stateServing
	}
	return ready
}

// begin takes the state of an exchange.
func (c *Conn) begin() {
	if c.Turn != nil {
		return
	}
	t := c.protocol.Begin()
	c.mu.Lock()
	c.Turn = t
	c.mu.Unlock()
}

// rest gives it back.
func (c *Conn) rest() {
	if c.Turn == nil {
		return
	}
	c.mu.Lock()
	c.Turn = nil
	c.mu.Unlock()
	c.protocol.Rest()
}

// idle waits for the next request.
func (c *Conn) idle() {
	c.state, c.Head, c.Size = stateIdle, 0, 0
	if c.o.Watch.AskOnce(&c.entry); !c.limit(c.o.IdleTimeout) {
		c.err = io.EOF // nothing else may wake it any more
	}
	if c.draining.Load() { // a body may have taken the deadline back
		_ = c.Stream.Sock.SetReadDeadline(time.Now().Add(GraceWhileDraining))
	}
}

// serve hands the exchange to the handler and makes ready for the next.
func (c *Conn) serve() {
	t := c.Turn
	c.requests++
	c.waited, c.Unread = 0, false
	used := c.protocol.SetBody()
	c.Closing = t.X.Request.Close || t.X.Refusal != nil && c.Unread || c.draining.Load() ||
		c.o.MaxRequests > 0 && c.requests >= c.o.MaxRequests
	c.Extend()
	c.o.Watch.Ask(&c.entry)
	c.o.Handler.Serve(&t.X)
	c.entry.Unask()
	c.finish(used)
}

// finish ends the exchange: the connection goes on with what was read behind it,
// or ends.
func (c *Conn) finish(used int) {
	t := c.Turn
	t.aborted = t.aborted || !t.started || t.sink.open()
	if t.aborted || t.tunnelled {
		c.err = errClosed
		return
	}
	streamed := t.X.Body == exchange.Source(&t.Body)
	if streamed && t.Body.GivenUp() {
		_ = c.Stream.Sock.SetReadDeadline(time.Time{})
	}
	if streamed && c.Unread {
		c.finishBody(&t.Body)
	} else {
		c.r = min(c.w, c.r+used)
	}
	if c.Closing || c.Unread {
		c.err = io.EOF
		return
	}
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	t.finish()
	c.idle()
}

// finishBody ends the reading of a streamed body.
func (c *Conn) finishBody(b *Body) {
	c.Unread = !b.Done()
	rest := b.Rest()
	if !c.Unread {
		c.keep(rest) // before its memory, which may be the body's, is another's
	}
	b.Free()
}

// Unask ends the look-out for a client that is gone: from now on there is a reader who
// finds out.
func (c *Conn) Unask() { c.entry.Unask() }

// cancel tells the exchange under way, if there is one, that nobody waits for it.
func (c *Conn) cancel(reason error) {
	c.mu.Lock()
	if c.Turn != nil {
		c.Turn.X.Cancel(reason)
	}
	c.mu.Unlock()
}

func (c *Conn) clientGone() {
	c.gone.Store(true)
	c.cancel(exchange.ErrClientGone)
	c.interruptRead()
}
