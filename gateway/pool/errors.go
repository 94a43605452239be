package pool

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
)

// Errors of Acquire that are not those of dialling.
var (
	// ErrExhausted: the endpoint has as many connections as it may, and none
	// came free in time.
	ErrExhausted = errors.New("no connection came free in time; see max_connections of the upstream")
	// ErrClosed: the pool was closed.
	ErrClosed = errors.New("pool closed")
)

// DialError is a connection that could not be made.
type DialError struct {
	// Endpoint is its URL.
	Endpoint string
	// Reason is the kind of failure, of a fixed set: that of a refused
	// handshake (handshake.Reasons), or "refused", "dns", "connect_timeout", "connect".
	Reason string
	Err    error
}

func (e *DialError) Error() string { return "connect to " + e.Endpoint + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *DialError) Unwrap() error { return e.Err }

// DialReason is the kind of failure for which a connection could not be made; see
// DialError.
func DialReason(err error) string {
	var refused *handshake.RefusedError
	var dns *net.DNSError
	switch {
	case errors.As(err, &refused):
		return string(refused.Reason)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, exchange.ErrTimeout):
		return "connect_timeout"
	case errors.As(err, &dns):
		return "dns"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	}
	return "connect"
}
