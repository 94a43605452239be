package zaprpc

import (
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/zapcodec"
)

// place is where a call went.
type place struct {
	lane *lane
	id   uint32 // its promise there
}

// call is one in flight.
type call struct {
	place
	promise    uint32 // the caller's
	method     uint32
	stream     bool
	ours, peer bool // on a stream: the caller, the upstream has ended
	timeouts   exchange.Timeouts
	start      time.Time
	moved      time.Time // on a stream: when its last bytes came, either way
	in, out    int64
}

// answeredKept is how many answered calls of a connection may still be the
// target of another.
const answeredKept = 256

// register gives the call its number on the lane, and f the upstream's numbers; where
// it cannot be made, a status and why.
func (c *Conn) register(f *exchange.RPCFrame, l *lane, t exchange.Timeouts, start time.Time) (k *call, status uint32, why string) {
	most := c.o.Calls
	if most <= 0 {
		most = DefaultCalls
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.calls) >= most:
		return nil, zapcodec.RPCError, "too many calls in flight on this connection"
	case c.calls[f.Promise] != nil:
		return nil, zapcodec.RPCBadRequest, "a call with this promise is in flight"
	case l.dead:
		return nil, zapcodec.RPCError, "the connection to the service was lost"
	}
	target := uint32(0)
	if f.Target != 0 {
		p, ok := c.find(f.Target)
		switch {
		case !ok:
			return nil, zapcodec.RPCBadRequest, "the target is no call of this connection, or an old one"
		case p.lane != l:
			return nil, zapcodec.RPCBadRequest, "the target went to another service"
		}
		target = p.id
	}
	id := l.conn.NextPromise()
	for l.calls[id] != nil {
		id = l.conn.NextPromise()
	}
	k = &call{
		place: place{l, id}, promise: f.Promise, method: f.Method, stream: f.Kind == exchange.RPCOpen,
		timeouts: t, start: start, moved: start, in: int64(len(f.Payload)),
	}
	c.calls[f.Promise], l.calls[id] = k, k
	c.begun++
	c.arm(k.due())
	f.Promise, f.Target = id, target
	return k, 0, ""
}

// find tells where a call went that is in flight or was answered not long ago.
func (c *Conn) find(promise uint32) (place, bool) {
	if k := c.calls[promise]; k != nil {
		return k.place, true
	}
	p, ok := c.answered[promise]
	return p, ok
}

// forget takes a call out of those in flight; a call that was answered may still be
// the target of another.
func (c *Conn) forget(k *call) {
	delete(c.calls, k.promise)
	delete(k.lane.calls, k.id)
	if k.stream {
		return
	}
	if _, again := c.answered[k.promise]; !again {
		if len(c.order) < answeredKept {
			c.order = append(c.order, k.promise)
		} else {
			delete(c.answered, c.order[c.oldest])
			c.order[c.oldest] = k.promise
			c.oldest = (c.oldest + 1) % answeredKept
		}
	}
	c.answered[k.promise] = k.place
}
