package zaprpc

import (
	"errors"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/zapcodec"
)

// lane is the connection to one upstream.
type lane struct {
	c    *Conn
	conn exchange.RPCConn

	// Under the client connection's lock:
	calls map[uint32]*call // by the promise there
	dead  bool             // the connection has ended
	late  bool             // an answer may still come that nobody waits for
}

// lane is the connection to u, a new one where there is none.
func (c *Conn) lane(u exchange.RPCUpstream) (*lane, error) {
	c.mu.Lock()
	l := c.lanes[u]
	c.mu.Unlock()
	if l != nil {
		return l, nil
	}
	conn, err := u.Lease(c.ctx)
	if err != nil {
		return nil, err
	}
	l = &lane{c: c, conn: conn, calls: map[uint32]*call{}}
	c.mu.Lock()
	c.lanes[u] = l
	c.mu.Unlock()
	conn.Attach(l.receive, l.lost)
	return l, nil
}

// receive passes an upstream's frame on to the caller.
func (l *lane) receive(f *exchange.RPCFrame) {
	c := l.c
	c.mu.Lock()
	k := l.calls[f.Promise]
	if k == nil || c.over {
		c.mu.Unlock()
		return // of a call that the caller has been told the end of
	}
	if !k.stream && f.Kind != exchange.RPCResponse {
		c.mu.Unlock()
		l.lost(&MalformedError{Err: errors.New("bytes of a stream where an answer is due")})
		return
	}
	k.out += int64(len(f.Payload))
	if k.stream {
		k.moved = time.Now()
	}
	ended := l.ends(k, f)
	if ended {
		c.forget(k)
	}
	c.mu.Unlock()
	f.Promise = k.promise
	c.o.Watch.Set(&c.entry, c.o.StreamIdle)
	err := c.w.send(f)
	if ended {
		status := f.Status
		if f.Kind != exchange.RPCResponse {
			status = zapcodec.RPCOK
		}
		c.done(k, status, err)
	}
}

// ends tells whether the frame is the last of its call.
func (l *lane) ends(k *call, f *exchange.RPCFrame) bool {
	switch f.Kind {
	case exchange.RPCResponse:
		return !k.stream || f.Status != zapcodec.RPCOK // an answer of 200 to an opening is no end
	case exchange.RPCEnd:
		k.peer = true
		return k.ours
	}
	return false
}

// lost answers every call of the lane: its connection has ended.
func (l *lane) lost(err error) {
	c := l.c
	c.mu.Lock()
	calls := make([]*call, 0, len(l.calls))
	for _, k := range l.calls {
		calls = append(calls, k)
		delete(c.calls, k.promise)
	}
	clear(l.calls)
	for u, have := range c.lanes {
		if have == l {
			delete(c.lanes, u)
		}
	}
	for p, at := range c.answered {
		if at.lane == l {
			at.lane = nil // no call can follow it there
			c.answered[p] = at
		}
	}
	l.dead = true
	over := c.over
	c.mu.Unlock()
	if over {
		return
	}
	l.conn.Release(false)
	for _, k := range calls {
		_ = c.refuse(k.promise, zapcodec.RPCError, "the connection to the service was lost")
		c.done(k, zapcodec.RPCError, err)
	}
}
