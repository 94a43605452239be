package zaprpc

import (
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/zapcodec"
)

// due is when the call has waited long enough, the zero time where it may wait for ever.
func (k *call) due() time.Time {
	from, limit := k.start, k.timeouts.FirstByte
	if k.stream {
		from, limit = k.moved, k.timeouts.Idle
	}
	if limit <= 0 {
		return time.Time{}
	}
	return from.Add(limit)
}

// arm has expire called at due, where it is not to be called before that. c.mu is held.
// One clock serves all calls: it is set for the first of them, and what ends in
// time costs nothing.
func (c *Conn) arm(due time.Time) {
	if due.IsZero() || !c.rings.IsZero() && !due.Before(c.rings) {
		return
	}
	c.rings = due
	if c.clock == nil {
		c.clock = time.AfterFunc(time.Until(due), c.expire)
		return
	}
	c.clock.Reset(time.Until(due))
}

// expire is the clock's goroutine: it answers the calls whose time is up. Serve waits for
// its end.
func (c *Conn) expire() {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return
	}
	c.work.Add(1)
	defer c.work.Done()
	late := c.late(time.Now())
	c.mu.Unlock()
	err := &exchange.UpstreamError{Op: "wait", Err: exchange.ErrTimeout}
	for _, k := range late {
		_ = c.refuse(k.promise, zapcodec.RPCError, "the service did not answer in time") // an error is the reader's to find
		c.done(k, zapcodec.RPCError, err)
	}
	for _, k := range late {
		k.lane.conn.Abandon(k.id, k.stream && !k.ours)
	}
}

// late takes the calls out whose time is up, and arms the clock for the others. c.mu is
// held.
func (c *Conn) late(now time.Time) []*call {
	c.rings = time.Time{}
	var late []*call
	for _, k := range c.calls {
		due := k.due()
		if due.IsZero() || due.After(now) {
			c.arm(due)
			continue
		}
		late = append(late, k)
	}
	for _, k := range late {
		k.lane.late = true
		c.forget(k)
	}
	return late
}
