// Package exchange is the one model of a request and its answer on which every
// transport and every rule agree: heads, bodies, the connection's facts, and
// the checks that give the same message the same verdict by whichever protocol
// it came (RFC 9110). It knows no wire.
package exchange

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/handshake"
)

// Protocol is the protocol that a message travelled by.
type Protocol uint8

// The protocols that carry exchanges.
const (
	HTTP1 Protocol = iota
	HTTP2
	HTTP3
	ZAP
)

var protocolNames = [...]string{HTTP1: "h1", HTTP2: "h2", HTTP3: "h3", ZAP: "zap"}

// String is the name that configuration, log and metrics use.
func (p Protocol) String() string { return protocolNames[p] }

// Conn is what is known of the connection that an exchange came by. It is made
// once per connection and only read afterwards.
type Conn struct {
	// Listener is the name of the listener that accepted it.
	Listener string
	// Protocol is the protocol spoken on it.
	Protocol Protocol
	// Secure is set on TLS and QUIC; only then Facts mean anything.
	Secure bool
	// Facts are those of the handshake.
	Facts handshake.Facts
	// Client is the peer, as PROXY protocol or the socket tells it; the zero
	// AddrPort on unix sockets.
	Client netip.AddrPort
	// Local is our end.
	Local netip.AddrPort
	// ClientText is the client's address without its port, ready for logs and
	// X-Forwarded-For; "unix" on unix sockets.
	ClientText string
	// Trusted is set where the peer is one whose forwarding fields are believed.
	Trusted bool
	// AltSvc is the Alt-Svc value that tells the client of HTTP/3 on the same
	// listener (RFC 7838, section 3), "" where there is none or it is in use.
	AltSvc string
}

// Handler decides what becomes of an exchange. It must answer through
// x.Responder before it returns, or call Abort; the exchange is the
// transport's again after that.
type Handler interface {
	Serve(x *Exchange)
}

// Responder is the client's side of an exchange, made by the transport.
type Responder interface {
	// Interim sends a 1xx head other than 101 (RFC 9110, section 15.2).
	Interim(h *Head) error
	// Respond sends the final head and the whole body, pulling it from body and
	// flushing before it would wait. A nil body is none. It reports both the
	// client's errors (as *ClientError) and those of the body; after either
	// the answer has been cut. It does not close body.
	Respond(h *Head, body Source) error
	// Start sends the final head for a body that will be pushed; length is -1
	// where unknown.
	Start(h *Head, length int64) (Sink, error)
	// Tunnel agrees to the upgrade that the request asked for, with the
	// fields of h, and hands the connection or stream over.
	Tunnel(h *Head) (Tunnel, error)
	// Abort cuts the exchange without an answer or in the middle of it.
	Abort(reason error)
	// Started tells whether a final head has been sent.
	Started() bool
}

// Exchange is one request and its answer. Transports reuse it: nothing of it
// may be kept after Serve returns.
type Exchange struct {
	Conn      *Conn
	Request   Head
	Response  Head // the handler's, to build the answer in
	Body      Source
	Responder Responder
	// Refusal is set where the transport or the checks refused the request: the
	// handler only answers and records it. Request holds what could be read.
	Refusal *Refusal
	// Start is when the request was read.
	Start time.Time
	// BytesIn and BytesOut count the bodies' bytes as the transport moved them.
	BytesIn, BytesOut int64
	// Log is what the handler notes for the access log.
	Log Notes

	canceller atomic.Pointer[Canceller]
	reason    atomic.Pointer[error]
}

// Notes are what the handler learned of an exchange, for log and metrics.
type Notes struct {
	Route         string
	Upstream      string // the endpoint's URL
	UpstreamTime  time.Duration
	UpstreamGroup string
	Err           error
	Status        int
}

// Reset makes the exchange ready for the next request on conn.
func (x *Exchange) Reset(conn *Conn) {
	x.Conn = conn
	x.Body, x.Refusal = nil, nil
	x.BytesIn, x.BytesOut = 0, 0
	x.Log = Notes{}
	x.canceller.Store(nil)
	if x.reason.Load() != nil {
		x.reason.Store(nil)
	}
}

// Canceller is called when the client goes away. It is kept inside the object
// that can be cancelled, so that setting it costs nothing.
type Canceller struct{ Cancel func(reason error) }

var cancelled = &Canceller{}

// OnCancel sets what is called, from another goroutine and at most once, when
// the client gives the exchange up. If that has happened already, it returns
// the reason and sets nothing.
func (x *Exchange) OnCancel(c *Canceller) error {
	if x.canceller.CompareAndSwap(nil, c) {
		return nil
	}
	return x.Cancelled()
}

// OffCancel takes the canceller back. It returns false where it has been or is being
// called: what it cancels must then not be used again.
func (x *Exchange) OffCancel(c *Canceller) bool { return x.canceller.CompareAndSwap(c, nil) }

// Cancel tells the handler that the client is gone. Transports call it.
func (x *Exchange) Cancel(reason error) {
	x.reason.CompareAndSwap(nil, &reason)
	if c := x.canceller.Swap(cancelled); c != nil && c != cancelled {
		c.Cancel(reason)
	}
}

// Cancelled is the reason for which the client gave up, nil while it has not.
func (x *Exchange) Cancelled() error {
	if r := x.reason.Load(); r != nil {
		return *r
	}
	return nil
}

// ErrClientGone is the reason of Cancel where the client closed or reset.
var ErrClientGone = errors.New("client gone")

// ClientError is an error of the client's connection, as opposed to one of the
// upstream's.
type ClientError struct{ Err error }

func (e *ClientError) Error() string { return "writing to the client: " + e.Err.Error() }

// Unwrap gives the connection's error.
func (e *ClientError) Unwrap() error { return e.Err }

// NoBody tells whether an answer with this status to this method has no body,
// whatever its fields say (RFC 9112, section 6.3).
func NoBody(m Method, status int) bool {
	return m == HEAD || status/100 == 1 || status == 204 || status == 304
}
