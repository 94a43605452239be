package pool

import (
	"context"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

// Acquire leases a connection: one that is there, the first that comes free, or
// a new one. ctx ends the waiting, not the dial, whose connection others may
// use. Errors are *DialError, ErrExhausted, ErrClosed and the cause of ctx.
func (e *Endpoint) Acquire(ctx context.Context) (*Conn, error) { return e.acquire(ctx, false) }

// AcquireFresh leases a connection that others use just now too, or one whose dial
// begins after the call: one that comes free was made before whatever the caller
// has just seen fail, an origin that was restarted as a rule. Errors are those of
// Acquire.
func (e *Endpoint) AcquireFresh(ctx context.Context) (*Conn, error) { return e.acquire(ctx, true) }

func (e *Endpoint) acquire(ctx context.Context, fresh bool) (*Conn, error) {
	e.mu.Lock()
	if e.killed {
		e.mu.Unlock()
		return nil, ErrClosed
	}
	if c := e.take(fresh); c != nil {
		e.mu.Unlock()
		return c, nil
	}
	w := &waiter{ready: make(chan outcome, 1), fresh: fresh, since: e.dialled}
	e.waiters.push(w)
	e.dialAsNeeded()
	limit := e.settings.Connect
	e.mu.Unlock()
	return e.await(ctx, w, limit)
}

func (e *Endpoint) await(ctx context.Context, w *waiter, limit time.Duration) (*Conn, error) {
	var expired <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		expired = timer.C
	}
	var err error
	select {
	case o := <-w.ready:
		return o.conn, o.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-expired:
		err = ErrExhausted
	}
	e.mu.Lock()
	dialling := e.dialing > 0
	waiting := e.waiters.leave(w)
	e.settle()
	e.mu.Unlock()
	if !waiting { // served while we gave up
		o := <-w.ready
		if o.conn == nil || err == ErrExhausted { //nolint:errorlint // set above
			return o.conn, o.err
		}
		e.Release(o.conn, true, time.Now())
		return nil, err
	}
	if err == ErrExhausted && dialling { //nolint:errorlint // set above
		err = &DialError{Endpoint: e.URL, Reason: "connect_timeout", Err: exchange.ErrTimeout}
	}
	return nil, err
}

// dialAsNeeded begins the dials that those who wait need. While it is not
// known whether connections can be shared, and where they can, one at a time: it
// may serve all.
func (e *Endpoint) dialAsNeeded() {
	want := e.waiters.len()
	if e.kind != exclusive {
		want = min(want, 1)
	}
	for want = min(want, maxDials); e.dialing < want; e.dialing++ {
		if e.killed || !e.roomToDial() {
			return
		}
		e.dialled++
		e.dials.Add(1)
		go e.dial(e.dialer, e.settings.Connect, e.dialled)
	}
}

// roomToDial tells whether another connection is allowed, giving an idle one up
// for it: whoever waits has been shown that idle ones do not serve.
func (e *Endpoint) roomToDial() bool {
	most := e.settings.MaxConnections
	if most > 0 && len(e.conns)+e.dialing >= most && len(e.idle) > 0 {
		c := e.idle[0]
		e.idle = append(e.idle[:0], e.idle[1:]...)
		e.Series.Idle.Add(-1)
		e.forget(c)
	}
	return most <= 0 || len(e.conns)+e.dialing < most
}

func (e *Endpoint) dial(d exchange.Dialer, limit time.Duration, number uint64) {
	defer e.dials.Done()
	ctx := e.ctx
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	conn, err := d.Dial(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dialing--
	if err != nil {
		e.refused(err, number)
	} else {
		e.connected(conn, number)
	}
	e.dialAsNeeded()
	e.settle()
}

// connected takes a new connection in, that of the dial of that number.
func (e *Endpoint) connected(conn exchange.ClientConn, number uint64) {
	e.health.succeeded()
	info := conn.Info()
	c := &Conn{ClientConn: conn, Endpoint: e, shared: multiplexes(conn), dial: number, used: time.Now()}
	if info.Secure {
		c.Group = info.Facts.Group
		e.lastTLS = c.Group
		e.upstream.Handshake(&info.Facts)
	}
	e.conns[c] = struct{}{}
	e.Series.Idle.Add(1)
	e.kind = exclusive
	if c.shared {
		e.kind = multiplex
		e.shared = append(e.shared, c)
	}
	if e.serve(c); c.calls > 0 {
		return
	}
	switch {
	case e.retired || e.killed || len(e.idle)+len(e.shared) > e.settings.MaxIdle:
		if c.shared {
			e.expel(c)
			return
		}
		e.Series.Idle.Add(-1)
		e.forget(c)
	case !c.shared:
		e.idle = append(e.idle, c)
	}
}

// multiplexes tells whether a connection carries several calls: by its protocol, or, ZAP over
// QUIC, by what it says. ZAP over TCP carries one, as HTTP/1 does.
func multiplexes(c exchange.ClientConn) bool {
	switch c.Info().Protocol {
	case exchange.HTTP2, exchange.HTTP3:
		return true
	}
	return c.Capacity() > 1
}

// refused notes a dial that failed and tells who waited for it: the first,
// where each has a dial of their own; all, where one was to serve all.
func (e *Endpoint) refused(err error, number uint64) {
	failure := &DialError{Endpoint: e.URL, Reason: DialReason(err), Err: err}
	e.Series.Failed(failure.Reason)
	if !e.killed {
		e.health.failed(time.Now())
	}
	n := 1
	if e.kind != exclusive || e.killed {
		n = e.waiters.len()
	}
	for ; n > 0; n-- {
		w := e.waiters.pop(number)
		if w == nil {
			return
		}
		w.ready <- outcome{err: failure}
	}
}
