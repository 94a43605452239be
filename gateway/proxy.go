package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/gateway/pool"
)

// maxTried is how many endpoints an exchange remembers as tried.
const maxTried = 4

// maxInterim bounds the 1xx heads of one answer: more are an upstream gone wrong.
const maxInterim = 64

// maxCalls is how many connections that turn out to be closed are passed over
// before that counts as a failure.
const maxCalls = 3

// attempts is how far an exchange has come with its upstream.
type attempts struct {
	tried    [maxTried]*pool.Endpoint
	n        int
	answered bool // the final head has come, and goes to the client
	interims int
	timeouts exchange.Timeouts
	ops      *fieldOps
}

func (a *attempts) reset() { *a = attempts{} }

var errNoEndpoint = errors.New("the upstream has no endpoint")

// proxy sends the exchange to an endpoint, and to another where that failed
// before an answer and the request can be sent again.
func (f *flow) proxy(r *route) {
	u := r.upstream
	f.timeouts, f.ops = r.timeouts, r.responseOps
	var last *pool.Endpoint
	for try := 0; ; try++ {
		e := pool.Pick(u.endpoints, f.tried[:f.n])
		if e == nil {
			if e = last; e == nil {
				f.failed(errNoEndpoint)
				return
			}
		}
		err := f.attempt(e, try > 0)
		if err == nil {
			return
		}
		if !f.replayable(err, len(u.endpoints)) || try >= u.retries {
			f.failed(err)
			return
		}
		e.Series.Retried()
		if last = e; f.n < maxTried {
			f.tried[f.n] = e
			f.n++
		}
	}
}

// replayable tells whether the request may be sent again after err: the client
// has seen nothing, its body is still whole, and the endpoint has not acted on it or
// may act twice (RFC 9110, section 9.2.2).
func (f *flow) replayable(err error, endpoints int) bool {
	if f.answered || f.upload.begun || f.x.Cancelled() != nil {
		return false
	}
	var client *exchange.ClientError
	var refusal *exchange.Refusal
	var dial *pool.DialError
	var up *exchange.UpstreamError
	switch {
	case errors.As(err, &client), errors.As(err, &refusal), errors.Is(err, exchange.ErrTunnel), errors.Is(err, pool.ErrClosed):
		return false
	case errors.As(err, &dial), errors.Is(err, pool.ErrExhausted):
		return endpoints > 1
	case errors.Is(err, exchange.ErrNotSent), errors.Is(err, exchange.ErrConnClosed), errors.Is(err, exchange.ErrConnBusy):
		return true
	case errors.Is(err, exchange.ErrTimeout):
		return false
	case errors.As(err, &up) && up.Answered:
		return false
	}
	return f.x.Request.Method.Idempotent()
}

// attempt makes one call to an endpoint. again asks for a connection that has not
// lain idle, since one that had may be why the last attempt failed.
func (f *flow) attempt(e *pool.Endpoint, again bool) error {
	e.Series.InFlight.Add(1)
	conn, call, err := f.call(e, again)
	f.endpoint = e
	if err == nil {
		f.group = conn.Group
		err = f.carry(call)
		kept := f.x.OffCancel(call.Canceller())
		// A call that was cancelled leaves a connection that others share as it was; one
		// that is the call itself may be cut at any moment.
		reusable := call.Finish() && (kept || conn.Capacity() > 1)
		f.ended = time.Now()
		e.Release(conn, reusable, f.ended)
	}
	e.Series.InFlight.Add(-1)
	return err
}

// call leases a connection and begins a call on it, which the client's going
// away cancels from then on.
func (f *flow) call(e *pool.Endpoint, again bool) (*pool.Conn, exchange.Call, error) {
	for n := 1; ; n++ {
		conn, err := f.acquire(e, again)
		if err != nil {
			return nil, nil, err
		}
		call, err := conn.Call()
		if err != nil {
			e.Release(conn, errors.Is(err, exchange.ErrConnBusy), time.Now())
			if n < maxCalls {
				again = true
				continue
			}
			return nil, nil, err
		}
		if reason := f.x.OnCancel(call.Canceller()); reason != nil {
			call.Canceller().Cancel(reason)
			call.Finish()
			e.Release(conn, false, time.Now())
			return nil, nil, reason
		}
		return conn, call, nil
	}
}

// acquire leases a connection, waiting for one only where none is there.
func (f *flow) acquire(e *pool.Endpoint, again bool) (*pool.Conn, error) {
	if !again {
		if c := e.TryAcquire(); c != nil {
			return c, nil
		}
	}
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	gone := &exchange.Canceller{Cancel: func(reason error) { stop(reason) }}
	if reason := f.x.OnCancel(gone); reason != nil {
		return nil, reason
	}
	defer f.x.OffCancel(gone)
	wait := e.Acquire
	if again {
		wait = e.AcquireFresh
	}
	c, err := wait(ctx)
	f.sent = time.Now()
	return c, err
}

// carry sends the request and passes the answer on. A request without a body, or with
// one that is whole, needs this goroutine alone; another sends a body that is
// still coming, so that the answer may come before its end.
func (f *flow) carry(call exchange.Call) error {
	x := f.x
	whole := x.Body == nil
	if !whole {
		_, whole = x.Body.Whole()
	}
	if whole {
		x.Request.ExpectContinue = false
	}
	if err := call.Send(x, x.Body, f.timeouts); err != nil {
		return err
	}
	if whole {
		if err := f.readFinal(call); err != nil {
			return err
		}
		return f.forward(call)
	}
	f.upload.start(call)
	err := f.readFinal(call)
	if err == nil {
		f.upload.answered()
		err = f.forward(call)
	}
	return f.upload.end(err)
}

var errInterims = errors.New("the upstream sends interim answers without end")

// readFinal waits for the final head, and passes on those before it.
func (f *flow) readFinal(call exchange.Call) error {
	h := &f.x.Response
	for {
		if err := call.ReadHead(h); err != nil {
			return err
		}
		if h.Status >= 200 || h.Status == 101 {
			return nil
		}
		if f.interims++; f.interims > maxInterim {
			return &exchange.UpstreamError{Op: "read head", Answered: true, Err: errInterims}
		}
		if err := f.interim(h); err != nil {
			return err
		}
	}
}

// interim passes a 1xx on. A 100 is for a client that waits for one.
func (f *flow) interim(h *exchange.Head) error {
	if h.Status == 100 {
		return f.upload.proceed()
	}
	h.Remove(exchange.AltSvc)
	return f.upload.interim(h)
}

// forward passes the final head and the body, or the tunnel, on to the client.
func (f *flow) forward(call exchange.Call) error {
	h := &f.x.Response
	f.answered = true
	f.status = h.Status
	h.Remove(exchange.AltSvc)
	f.advertise(h)
	f.ops.apply(h)
	if len(f.x.Request.Protocol()) > 0 && h.Status < 300 {
		if up, err := call.Tunnel(); err == nil {
			return f.tunnel(h, up)
		}
	}
	if h.Status == 101 {
		f.answered, f.status = false, 0
		return &exchange.UpstreamError{Op: "upgrade", Answered: true, Err: exchange.ErrTunnel}
	}
	f.plain(h)
	body := call.Body()
	err := f.x.Responder.Respond(h, body)
	if err != nil && body != nil {
		body.Close(err)
	}
	return err
}
