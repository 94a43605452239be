package serial

import (
	"errors"
	"io"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

// GraceWhileDraining is how long an idle connection may stay once we want to
// stop: a request that is on its way then still gets its answer.
const GraceWhileDraining = time.Second

// bodyGrace is how long a body may take before its rate counts.
const bodyGrace = 10 * time.Second

// AwaitHead starts the time that a head may take; it is called once the first byte of
// one has come, and may be called again.
func (c *Conn) AwaitHead() {
	if c.state == stateIdle {
		c.state = stateHead
		c.limit(c.o.HeadTimeout)
	}
}

// AwaitBody sets how long the rest of a body may take that is gathered before the
// request is dispatched, got bytes of it being here.
func (c *Conn) AwaitBody(got int) {
	if c.state == stateHead {
		c.state, c.began = stateBody, c.o.Watch.Now()
	}
	c.limit(c.bodyTime(int64(got), c.o.Watch.Now()-c.began))
}

// Extend moves the deadline of an exchange in which something has moved.
func (c *Conn) Extend() { c.limit(c.o.StreamIdle) }

// limit moves the deadline; where it has passed already it gives false, and the next wait fails.
func (c *Conn) limit(d time.Duration) bool { return c.o.Watch.Set(&c.entry, d) }

// bodyTime is how much longer a client may take that has sent so many bytes in
// so many milliseconds of our waiting.
func (c *Conn) bodyTime(got, waited int64) time.Duration {
	if c.o.BodyMinRate <= 0 {
		return c.o.StreamIdle
	}
	allowed := bodyGrace + time.Duration(got/c.o.BodyMinRate)*time.Second
	return max(time.Millisecond, allowed-time.Duration(waited)*time.Millisecond)
}

// writing lets a write that waits for the client do so for WriteTimeout alone: an answer that
// nobody takes holds its memory and its upstream, and what the client sends meanwhile is no reason
// to wait for longer.
func (c *Conn) writing(begins bool) {
	switch {
	case c.state != stateServing: // TLS has something of its own to say
	case begins && c.o.WriteTimeout > 0:
		c.o.Watch.Stall(&c.entry, c.o.WriteTimeout)
	default:
		c.entry.Unstall()
		c.Extend()
	}
}

// wake ends the waits of the connection's goroutines; they find out why.
func (c *Conn) wake() { _ = c.Stream.Sock.SetDeadline(time.Unix(1, 0)) }

func (c *Conn) interruptRead() { _ = c.Stream.Sock.SetReadDeadline(time.Unix(1, 0)) }

// interrupted decides what the end of a wait means: the connection's end, an answer that
// says that time is up, or nothing.
func (c *Conn) interrupted(err error) {
	if !IsTimeout(err) {
		switch c.err = err; c.state {
		case stateHead:
			c.err = &exchange.CutError{Reason: exchange.CutHead, Err: err}
		case stateBody:
			c.err = &exchange.CutError{Reason: exchange.CutBody, Err: err}
		}
		return
	}
	switch {
	case c.entry.Expired() && c.state == stateHead:
		c.protocol.Refuse(exchange.RefuseSlowHead)
	case c.entry.Expired() && c.state == stateBody:
		c.protocol.Refuse(exchange.RefuseSlowBody)
	case c.state != stateIdle && c.DrainOnly(err):
		return // what had begun to arrive when we began to drain may still do so
	default:
		c.err = io.EOF
		return
	}
	c.state = stateServing
	_ = c.Stream.Sock.SetDeadline(time.Now().Add(lingerTime))
}

// DrainOnly tells whether a read was interrupted for no more than that we want to stop:
// what had begun goes on. It takes the deadline back before it looks for other
// reasons, which are noted before they interrupt: none is lost.
func (c *Conn) DrainOnly(err error) bool {
	if !IsTimeout(err) || !c.draining.Load() {
		return false
	}
	_ = c.Stream.Sock.SetReadDeadline(time.Time{})
	return !c.gone.Load() && !c.entry.Expired()
}

// readBody waits for bytes of the request's body, at the rate that is asked of
// clients.
func (c *Conn) readBody(p []byte) (int, error) {
	t := c.Turn
	began := c.o.Watch.Now()
	if t.Sent() {
		c.Extend()
	} else {
		c.limit(c.bodyTime(t.Body.Total(), c.waited))
	}
	n, err := c.Stream.Read(p)
	c.waited += c.o.Watch.Now() - began
	if err == nil || n > 0 {
		c.Extend()
		return n, err
	}
	if IsTimeout(err) && c.entry.Expired() {
		_ = c.Stream.Sock.SetDeadline(time.Now().Add(lingerTime))
		return n, exchange.RefuseSlowBody
	}
	if c.DrainOnly(err) && !t.Body.GivenUp() {
		return c.Stream.Read(p)
	}
	return n, err
}

// IsTimeout tells whether a wait ended because its time was up, or was interrupted so.
func IsTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
