package serial

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

// Turn is the state of one exchange on a server's connection. A protocol's own state
// of it has it as a part, comes from a pool, and completes it to an exchange.Responder.
type Turn struct {
	// X is the exchange.
	X exchange.Exchange
	// Body is a request's body that streams, Whole one that is here.
	Body  Body
	Whole exchange.Bytes

	c       *Conn
	format  Format
	framing Framing

	// started: the final head is on its way. sent is the same for the goroutine that
	// reads the request's body.
	started, aborted, tunnelled bool
	sent                        atomic.Bool
	sink                        sink
}

// Own is a protocol's own state of a turn.
type Own interface {
	exchange.Responder
	Format
}

// Errors of answers.
var (
	// ErrAnswered: an answer is given once.
	ErrAnswered = errors.New("the exchange was answered already")
	// ErrBodyLength: a body gave more or less than it announced.
	ErrBodyLength = errors.New("the body is not of the length that was announced")
)

// Bind makes the turn the connection's. own is the protocol's own state of it, framing
// frames the answer's body.
func (t *Turn) Bind(c *Conn, own Own, framing Framing) {
	t.c, t.format, t.framing = c, own, framing
	if t.Body.wait == nil {
		t.Body.Use(t.readBody, t.interruptRead) // kept with the turn, so that it costs no allocation
	}
	t.X.Reset(c.info)
	t.X.Responder = own
}

func (t *Turn) readBody(p []byte) (int, error) { return t.c.readBody(p) }
func (t *Turn) interruptRead()                 { t.c.interruptRead() }

// Drop lets go of all that belongs to the connection.
func (t *Turn) Drop() {
	t.finish()
	t.Body.Drop()
	t.X.Reset(nil)
	t.X.Request.Reset(nil)
	t.X.Response.Reset(nil)
	t.X.Responder = nil
	t.c, t.format, t.framing = nil, nil, nil
}

// finish makes ready for the next exchange.
func (t *Turn) finish() {
	t.Whole.Reset(nil)
	t.started, t.aborted, t.tunnelled = false, false, false
	t.sent.Store(false)
	if t.sink.w.t != nil {
		t.sink = sink{}
	}
}

// Renew begins the exchange of a request that has come.
func (t *Turn) Renew() *exchange.Exchange {
	t.X.Reset(t.c.info)
	t.X.Start = time.Now()
	return &t.X
}

// Refuse makes it one of a request of which nothing can be told.
func (t *Turn) Refuse(r *exchange.Refusal) {
	t.Renew()
	t.X.Request.Reset(nil)
	t.X.Refusal = r
}

// Started implements exchange.Responder.
func (t *Turn) Started() bool { return t.started }

// Sent is Started for any goroutine.
func (t *Turn) Sent() bool { return t.sent.Load() }

// Abort implements exchange.Responder.
func (t *Turn) Abort(error) { t.aborted = true }

// HandOver begins the answer that makes a tunnel of the connection.
func (t *Turn) HandOver() error {
	if t.started {
		return ErrAnswered
	}
	t.begin()
	t.tunnelled = true
	t.c.Unask() // from now on there is always a reader: a client that ends its direction is not gone
	return nil
}

// begin notes that the final head is on its way.
func (t *Turn) begin() {
	t.started = true
	t.sent.Store(true)
}
