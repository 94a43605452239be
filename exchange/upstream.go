package exchange

import (
	"context"
	"errors"
	"time"
)

// Dialer opens connections to one endpoint; a transport makes it, the gateway
// pools what it gives.
type Dialer interface {
	// Dial connects and, where the endpoint is secure, completes the handshake.
	Dial(ctx context.Context) (ClientConn, error)
}

// ClientConn is a connection to an upstream.
type ClientConn interface {
	// Call begins an exchange on it; ErrConnBusy or ErrConnClosed when it
	// cannot.
	Call() (Call, error)
	// Capacity is how many calls it carries at once: 1 on HTTP/1. It may change
	// as the peer's settings do.
	Capacity() int
	// Usable is false once the connection is known to be closed or closing. It
	// costs no system call unless the connection has been idle for a while.
	Usable() bool
	// Info tells its facts.
	Info() *Conn
	// Close ends it and every call on it.
	Close()
}

// Timeouts of one call. Zero means none.
type Timeouts struct {
	// FirstByte is how long the final head may take once the request was sent.
	FirstByte time.Duration
	// Idle is how long a body may stand still, either way.
	Idle time.Duration
}

// Call is one exchange with an upstream, in separate steps, so that early
// answers, 1xx and full duplex are ordinary. Send and SendBody may run while
// another goroutine is in ReadHead or reads Body.
type Call interface {
	// Send writes the head of x.Request and, where body is nil or whole, all of the
	// request; otherwise SendBody must follow. The transport may hold the bytes
	// until ReadHead, to save a turn.
	Send(x *Exchange, body Source, t Timeouts) error
	// SendBody streams the body that Send left and ends the request.
	SendBody(body Source) error
	// ReadHead waits for the next head: a 1xx, which another ReadHead follows, or
	// the final one. h points into the call's memory until the call finishes.
	ReadHead(h *Head) error
	// Body is the answer's body after the final head, nil when it has none.
	Body() Source
	// Tunnel is the byte stream after the upstream agreed to an upgrade.
	Tunnel() (Tunnel, error)
	// Canceller ends the call from any goroutine: blocked steps return.
	Canceller() *Canceller
	// Finish ends the call and tells whether the connection may be used again.
	Finish() (reusable bool)
}

// Errors of the upstream side. Transports wrap them.
var (
	// ErrConnBusy: the connection carries as many calls as it can.
	ErrConnBusy = errors.New("connection carries as many calls as it can")
	// ErrConnClosed: the connection is closed or closing.
	ErrConnClosed = errors.New("connection closed")
	// ErrNotSent: it is certain that the upstream has not acted on the request, so
	// any request may be sent again.
	ErrNotSent = errors.New("request was not processed")
	// ErrTimeout: a timeout of the call has passed.
	ErrTimeout = errors.New("timed out")
	// ErrTunnel: the exchange cannot become a tunnel over this protocol.
	ErrTunnel = errors.New("upgrade not possible over this protocol")
)

// UpstreamError is a failure of the upstream's connection before or in its
// answer.
type UpstreamError struct {
	// Op is what was being done: "dial", "send", "read head", "read body".
	Op string
	// Answered is set once bytes of an answer have come.
	Answered bool
	Err      error
}

func (e *UpstreamError) Error() string { return "upstream: " + e.Op + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *UpstreamError) Unwrap() error { return e.Err }
