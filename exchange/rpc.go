package exchange

import (
	"context"
	"time"
)

// RPCKind is what a frame of a ZAP RPC connection is; the numbers are the
// wire's.
type RPCKind uint8

// The kinds of RPC frames.
const (
	RPCRequest  RPCKind = 1 + iota // a call
	RPCResponse                    // its answer
	RPCOpen                        // a call that opens a stream, whose id is its promise
	RPCMessage                     // a message on a stream, either way
	RPCEnd                         // the end of one direction of a stream
)

// RPCFrame is one frame, without the wire. Its slices belong to the transport
// that read it.
type RPCFrame struct {
	Kind    RPCKind
	Promise uint32 // of the call, or the stream's id
	Method  uint32 // of RPCRequest and RPCOpen
	Target  uint32 // of the same: the promise whose answer becomes the payload; 0 for none
	Status  uint32 // of RPCResponse
	Cap     []byte // the capability that the caller presents
	Payload []byte // of a call, an answer's body, or a stream's own bytes
}

// RPCRouter decides where the calls of RPC connections go, and hears how they
// ended. It is safe for concurrent use.
type RPCRouter interface {
	// RouteRPC gives the route for a call of a method, or none and the status for
	// the caller: 404 where no route matches, 403 where a rule forbids it.
	RouteRPC(c *Conn, method uint32) (r RPCRoute, status uint32)
	// RPCDone is told of each call that has ended. r is valid until it returns.
	RPCDone(r *RPCRecord)
}

// RPCRoute is where a call goes.
type RPCRoute struct {
	// Upstream is nil where the call goes nowhere.
	Upstream RPCUpstream
	// Timeouts of the call: FirstByte is how long its answer may take, Idle how long a
	// stream may stand still, both ways. The caller is then told 500.
	Timeouts Timeouts
}

// RPCRecord is what became of a call.
type RPCRecord struct {
	Conn     *Conn
	Method   uint32
	Stream   bool
	Status   uint32 // what the caller was told; 0 where the connection ended first
	Start    time.Time
	Duration time.Duration
	In, Out  int64 // bytes of payload from the caller, and to it
	// Upstream is the connection that it was sent on, ClientText being the
	// endpoint's URL; nil where it was sent nowhere.
	Upstream *Conn
	Err      error // why it failed on the way; nil where the upstream answered
}

// RPCUpstream is a set of endpoints that take calls. Implementations are
// comparable: calls of one client connection to the same upstream share a
// connection.
type RPCUpstream interface {
	// Lease gives a connection that serves one client connection alone until it is
	// released. Errors are *UpstreamError.
	Lease(ctx context.Context) (RPCConn, error)
	// Retire ends what is not leased now, and the rest at the end of its lease.
	Retire()
}

// RPCConn is a leased connection to an upstream.
type RPCConn interface {
	// Attach begins the lease: receive is called for each frame that arrives, lost
	// at most once, when the connection has ended; both from one goroutine.
	Attach(receive func(f *RPCFrame), lost func(err error))
	// NextPromise gives the next promise id of the connection, never 0.
	NextPromise() uint32
	// Send writes a frame. It may be called by several goroutines.
	Send(f *RPCFrame) error
	// Abandon tells the peer, where the wire has a way to, that nobody waits for the
	// call any more; open is set on a stream whose caller has not ended it.
	Abandon(promise uint32, open bool)
	// Info tells the connection's facts; ClientText is the endpoint.
	Info() *Conn
	// Release ends the lease. A connection that is not reusable is closed.
	// Frames are not delivered once it has returned, but for one that is being
	// delivered.
	Release(reusable bool)
}
