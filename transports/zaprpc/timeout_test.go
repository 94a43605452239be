package zaprpc

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

// await polls until a condition of the service's holds.
func (s *service) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		ok := holds()
		s.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s: not within ten seconds", what)
		}
	}
}

const lateAnswer = "500 the service did not answer in time"

func TestACallThatIsNotAnsweredInTimeGets500(t *testing.T) {
	one := newService(t)
	r := newRelay(t, one, one, nil)
	const limit = 30 * time.Millisecond
	r.router.give(exchange.Timeouts{FirstByte: limit})
	c := r.dial(t)
	began := time.Now()
	c.send(exchange.RPCRequest, waits, 1, 0, "")
	c.send(exchange.RPCRequest, waits, 2, 0, "")
	got := []string{c.read(), c.read()}
	if both := strings.Join(got, ", "); both != "2 1 "+lateAnswer+", 2 2 "+lateAnswer && both != "2 2 "+lateAnswer+", 2 1 "+lateAnswer {
		t.Fatal(both)
	}
	if took := time.Since(began); took < limit {
		t.Errorf("after %v, want %v", took, limit)
	}
	r.router.give(exchange.Timeouts{FirstByte: time.Minute}) // of the calls from here on
	c.send(exchange.RPCRequest, echoes, 1, 0, "the promise is free again")
	c.expect("2 1 200 the promise is free again|cap")
	close(one.goOn) // both late answers come now, and reach nobody
	one.await(t, "the service to have seen all calls", func() bool { return len(one.ids) == 3 })
	c.send(exchange.RPCRequest, echoes, 3, 1, "after")
	c.expect("2 3 200 the promise is free again+after|cap")

	one.await(t, "the records of both that timed out", func() bool {
		r.router.mu.Lock()
		defer r.router.mu.Unlock()
		timedOut := 0
		for _, d := range r.router.records {
			if errors.Is(d.Err, exchange.ErrTimeout) && d.Status == 500 && d.Upstream != nil {
				timedOut++
			}
		}
		return timedOut == 2
	})
	c.w.close()
	one.await(t, "the end of a connection on which an answer may still come", func() bool {
		r.router.one.mu.Lock()
		defer r.router.one.mu.Unlock()
		return len(r.router.one.live) == 0
	})
}

func TestAStreamThatStandsStillEnds(t *testing.T) {
	one := newService(t)
	r := newRelay(t, one, one, nil)
	const idle = time.Second
	r.router.give(exchange.Timeouts{FirstByte: time.Millisecond, Idle: idle})
	c := r.dial(t)
	c.send(exchange.RPCOpen, streams, 5, 0, "")
	for began := time.Now(); time.Since(began) < 2*idle; {
		c.send(exchange.RPCMessage, 0, 5, 0, "m") // it lives while something moves
		c.expect("4 5 0 m")
	}
	c.expect("2 5 " + lateAnswer)
	one.await(t, "the service to be told of the end", func() bool { return one.ends == 1 })
}

func TestCallsWithoutATimeoutWait(t *testing.T) {
	one := newService(t)
	r := newRelay(t, one, one, nil)
	c := r.dial(t)
	c.send(exchange.RPCRequest, waits, 1, 0, "")
	one.await(t, "the call", func() bool { return len(one.ids) == 1 })
	r.mu.Lock()
	for c := range r.conns {
		c.mu.Lock()
		if c.clock != nil {
			t.Error("a clock runs for a call that may wait for ever")
		}
		c.mu.Unlock()
	}
	r.mu.Unlock()
	close(one.goOn)
	c.expect("2 1 200 at last")
}

func TestIdleConnectionsToServicesAreClosed(t *testing.T) {
	one := newService(t)
	r := newRelay(t, one, one, nil)
	r.router.one.s.Idle = 20 * time.Millisecond
	c := r.dial(t)
	c.send(exchange.RPCRequest, echoes, 1, 0, "x")
	c.expect("2 1 200 x|cap")
	c.w.close()
	one.await(t, "no connection to be left", func() bool {
		r.router.one.mu.Lock()
		defer r.router.one.mu.Unlock()
		return len(r.router.one.live) == 0 && len(r.router.one.idle[0]) == 0
	})
	if one.seen != 1 {
		t.Errorf("%d connections", one.seen)
	}
}
