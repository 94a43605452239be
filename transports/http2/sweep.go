package http2

import (
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

// bodyGrace is how long a body may take before its rate counts.
const bodyGrace = 10 * time.Second

// never is when an idle connection without a limit is looked at again.
const never = 24 * time.Hour

// late is a stream whose time is up.
type late struct {
	s    *serverStream
	err  error
	code ErrCode
}

// sweep implements endpoint.
func (c *Conn) sweep() time.Duration {
	now := c.clock.Load()
	if since := c.partial.Load(); c.o.HeadTimeout > 0 && since > 0 && now-since > int64(c.o.HeadTimeout) {
		c.abort(connErr(EnhanceYourCalm, exchange.RefuseSlowHead.Text))
		return c.period
	}
	c.mu.Lock()
	list := c.lateStreams(now)
	quiet := c.open == 0 && c.workers == len(c.parked)
	c.trimWorkers()
	idleFor := time.Duration(now - c.idleSince)
	expired := quiet && c.drain == drainNot && c.o.IdleTimeout > 0 && idleFor >= c.o.IdleTimeout
	further := c.drain == drainAsked && now-c.drainAt > int64(drainWait)
	asleep := quiet && c.workers == 0 && c.drain == drainNot && c.partial.Load() == 0 && !c.out.busy()
	c.mu.Unlock()
	for _, l := range list {
		c.expire(l)
	}
	switch {
	case expired:
		c.Shutdown()
	case further:
		c.drainFurther()
	case asleep && c.o.IdleTimeout > 0:
		return max(c.period, c.o.IdleTimeout-idleFor)
	case asleep:
		return never
	}
	return c.period
}

// lateStreams finds the streams whose time is up, each with a reference. Under mu.
func (c *Conn) lateStreams(now int64) []late {
	var list []late
	for _, st := range c.streams {
		s := st.own.(*serverStream)
		if err, code := s.late(now); err != nil {
			s.refs.Add(1)
			list = append(list, late{s, err, code})
		}
	}
	return list
}

// late tells what the stream is to end for, if anything. Under c.mu.
func (s *serverStream) late(now int64) (error, ErrCode) { //nolint:staticcheck,revive // the error is a value here, not a failure
	o := s.sc.o
	if s.blocked > 0 && s.c.writeTimeout > 0 && now-s.blocked > int64(s.c.writeTimeout) {
		return errStalled, Cancel
	}
	still := now - s.active.Load()
	if s.tunnel {
		if o.StreamIdle > 0 && still > int64(o.StreamIdle) {
			return errIdleStream, Cancel
		}
		return nil, 0
	}
	got, waiting := s.in.progress()
	if !waiting && (!s.awaits || s.dispatched) {
		return nil, 0
	}
	s.waited += s.sc.period
	slow := s.rated && !s.started.Load() && s.waited > bodyGrace+time.Duration(got/o.BodyMinRate)*time.Second
	if slow || o.StreamIdle > 0 && still > int64(o.StreamIdle) {
		return exchange.RefuseSlowBody, noReset
	}
	return nil, 0
}

// expire ends what is late. A body that is too slow is the handler's to answer.
func (c *Conn) expire(l late) {
	defer l.s.unref()
	if l.code != noReset {
		c.lose(&l.s.stream, l.err, l.code)
		c.flushBeside() // a write that waits would keep the look at deadlines from being taken
		return
	}
	if !c.refuseBody(&l.s.stream, exchange.RefuseSlowBody) {
		l.s.in.fail(l.err)
	}
	c.flushBeside()
}
