package gateway

import (
	"errors"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/gateway/pool"
)

// reasonClientGone is logged where the client gave up before its answer was
// complete.
const reasonClientGone = "client_gone"

// reasonTimeout is logged where the service let a timeout pass.
const reasonTimeout = "upstream_timeout"

// What clients are told of an upstream that failed.
const (
	textUnreachable = "the service behind this gateway could not be reached"
	textFailed      = "the service behind this gateway failed to answer"
	textTimeout     = "the service behind this gateway did not answer in time"
	textUnavailable = "no server is available for this request"
)

// failed ends an exchange with its upstream that went wrong: with an answer of
// our own where none has begun, else with what the log is to say.
func (f *flow) failed(err error) {
	f.err = err
	if f.x.Cancelled() != nil || isClientError(err) {
		f.clientFailed(err)
		return
	}
	if f.answered {
		f.reason = cutReason(err)
		f.endpoint.Series.Failed(f.reason)
		return
	}
	var refusal *exchange.Refusal
	if errors.As(err, &refusal) && !isUpstreamError(err) {
		f.refuse(refusal) // the request's own body was at fault
		return
	}
	status, public, text := f.classify(err)
	f.explain(status, public, text)
}

// classify sets the reason for the log, and gives what the client is told.
func (f *flow) classify(err error) (status int, public, text string) {
	var dial *pool.DialError
	var refusal *exchange.Refusal
	switch {
	case errors.As(err, &dial):
		f.reason = "upstream_" + dial.Reason
		return 502, "upstream_unreachable", textUnreachable
	case errors.Is(err, errNoEndpoint), errors.Is(err, pool.ErrExhausted), errors.Is(err, pool.ErrClosed):
		f.reason = "upstream_unavailable"
		f.countFailure("exhausted")
		return 503, f.reason, textUnavailable
	case errors.Is(err, exchange.ErrTimeout):
		f.reason = reasonTimeout
		f.countFailure("timeout")
		return 504, f.reason, textTimeout
	case errors.Is(err, exchange.ErrTunnel):
		f.reason = "upgrade_not_possible"
		f.countFailure("upgrade")
		return 501, f.reason, "the way to the service behind this gateway carries no upgrades, so no WebSocket"
	case errors.As(err, &refusal):
		f.reason = "upstream_" + refusal.Reason
		f.countFailure("bad_answer")
		return 502, "upstream_failed", textFailed
	}
	f.reason = "upstream_closed"
	f.countFailure("closed")
	return 502, "upstream_failed", textFailed
}

func (f *flow) countFailure(reason string) {
	if f.endpoint != nil {
		f.endpoint.Series.Failed(reason)
	}
}

// cutReason says why an answer that had begun was not finished.
func cutReason(err error) string {
	if errors.Is(err, exchange.ErrTimeout) {
		return "upstream_idle"
	}
	return "upstream_cut"
}

// clientFailed notes that the client is gone, or that its connection failed.
func (f *flow) clientFailed(err error) {
	f.reason = reasonClientGone
	if f.err == nil {
		f.err = err
	}
	if !f.x.Responder.Started() {
		f.status = 0
	}
	f.x.Responder.Abort(err)
}

func isClientError(err error) bool {
	var c *exchange.ClientError
	return errors.As(err, &c)
}

func isUpstreamError(err error) bool {
	var u *exchange.UpstreamError
	return errors.As(err, &u)
}
