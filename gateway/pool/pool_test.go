package pool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server dials conns of its own for a test.
type server struct {
	protocol exchange.Protocol
	capacity atomic.Int32
	delay    time.Duration
	fail     atomic.Bool
	dials    atomic.Int32
	open     atomic.Int32
	mu       sync.Mutex
	conns    []*conn
}

type conn struct {
	exchange.ClientConn
	s      *server
	info   exchange.Conn
	dead   atomic.Bool
	closed atomic.Bool
}

var errDown = errors.New("down")

func (s *server) Dial(ctx context.Context) (exchange.ClientConn, error) {
	s.dials.Add(1)
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.fail.Load() {
		return nil, errDown
	}
	c := &conn{s: s, info: exchange.Conn{Protocol: s.protocol}}
	s.open.Add(1)
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	return c, nil
}

func (c *conn) Capacity() int        { return int(c.s.capacity.Load()) }
func (c *conn) Usable() bool         { return !c.dead.Load() && !c.closed.Load() }
func (c *conn) Info() *exchange.Conn { return &c.info }
func (c *conn) Close() {
	if !c.closed.Swap(true) {
		c.s.open.Add(-1)
	}
}

func endpoint(s *server, settings Settings) *Endpoint {
	if s.capacity.Load() == 0 {
		s.capacity.Store(1)
	}
	if settings.Connect == 0 {
		settings.Connect = 5 * time.Second
	}
	m := telemetry.NewMetrics(telemetry.Build{})
	return NewEndpoint("http://a:1", s, settings, m.Upstreams.Series("u"), m.Endpoints.Series("u", "http://a:1"))
}

// bubble runs f with a clock of its own, and sees that Close leaves nothing.
func bubble(t *testing.T, s *server, settings Settings, f func(*Endpoint)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := endpoint(s, settings)
		f(e)
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := s.open.Load(); n != 0 {
			t.Errorf("%d connections left open", n)
		}
		if a, i := e.Series.Active.Load(), e.Series.Idle.Load(); a != 0 || i != 0 {
			t.Errorf("counted as open: %d active, %d idle", a, i)
		}
	})
}

func acquire(t *testing.T, e *Endpoint) *Conn {
	t.Helper()
	c, err := e.Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLastUsedConnectionIsUsedFirst(t *testing.T) {
	s := &server{}
	bubble(t, s, Settings{MaxIdle: 10}, func(e *Endpoint) {
		if e.TryAcquire() != nil {
			t.Error("a connection out of nothing")
		}
		a, b := acquire(t, e), acquire(t, e)
		if a.Reused() {
			t.Error("a new connection has been used")
		}
		e.Release(a, true, time.Now())
		e.Release(b, true, time.Now())
		if c := e.TryAcquire(); c != b || !c.Reused() {
			t.Error("not the last one")
		} else {
			e.Release(c, true, time.Now())
		}
		b.ClientConn.(*conn).dead.Store(true)
		if c := e.TryAcquire(); c != a {
			t.Error("not the one that still lives")
		} else {
			e.Release(c, true, time.Now())
		}
		if n := s.dials.Load(); n != 2 {
			t.Errorf("%d dials", n)
		}
	})
}

func TestNoMoreIdleConnectionsThanAllowed(t *testing.T) {
	s := &server{}
	bubble(t, s, Settings{MaxIdle: 2}, func(e *Endpoint) {
		var held []*Conn
		for range 5 {
			held = append(held, acquire(t, e))
		}
		for _, c := range held {
			e.Release(c, true, time.Now())
		}
		synctest.Wait()
		if n := s.open.Load(); n != 2 {
			t.Errorf("%d kept", n)
		}
	})
}

func TestUnusedConnectionsAreClosedInTime(t *testing.T) {
	for _, protocol := range []exchange.Protocol{exchange.HTTP1, exchange.HTTP2} {
		s := &server{protocol: protocol}
		bubble(t, s, Settings{MaxIdle: 10, Idle: time.Minute}, func(e *Endpoint) {
			c, busy := acquire(t, e), acquire(t, e)
			e.Release(c, true, time.Now())
			time.Sleep(time.Minute - time.Millisecond)
			e.Sweep(time.Now())
			synctest.Wait()
			if n := s.open.Load(); n != 2 {
				t.Errorf("%s: %d open before the time", protocol, n)
			}
			time.Sleep(time.Millisecond)
			e.Sweep(time.Now())
			synctest.Wait()
			if n := s.open.Load(); n != 1 {
				t.Errorf("%s: %d open after it; one is in use", protocol, n)
			}
			e.Release(busy, true, time.Now())
		})
	}
}

func TestOneDialServesAllThatWaitForASharedConnection(t *testing.T) {
	s := &server{protocol: exchange.HTTP2, delay: time.Second}
	s.capacity.Store(100)
	bubble(t, s, Settings{MaxIdle: 10}, func(e *Endpoint) {
		hold := make(chan bool)
		var wg sync.WaitGroup
		for range 250 {
			wg.Go(func() {
				c, err := e.Acquire(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				<-hold
				e.Release(c, true, time.Now())
			})
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if n := s.dials.Load(); n != 2 {
			t.Errorf("%d dials under way or done; they go one at a time", n)
		}
		time.Sleep(10 * time.Second)
		if n := s.dials.Load(); n != 3 {
			t.Errorf("%d dials for 250 calls of 100 each", n)
		}
		close(hold)
		wg.Wait()
	})
}

func TestConnectionsOfOneCallAreDialledAsManyAsWait(t *testing.T) {
	s := &server{delay: time.Second}
	bubble(t, s, Settings{MaxIdle: 1000}, func(e *Endpoint) {
		e.Release(acquire(t, e), true, time.Now()) // it is known now what they are
		var wg sync.WaitGroup
		start := time.Now()
		hold := make(chan bool)
		for range 101 {
			wg.Go(func() {
				c := acquire(t, e)
				<-hold
				e.Release(c, true, time.Now())
			})
		}
		synctest.Wait()
		if n := s.dials.Load(); n != 1+maxDials {
			t.Errorf("%d dials at once", n)
		}
		time.Sleep(3 * time.Second)
		if n := s.dials.Load(); n != 101 {
			t.Errorf("%d dials in all, after %v", n, time.Since(start))
		}
		close(hold)
		wg.Wait()
	})
}

func TestWaitingEndsWithTheRequestNotTheDial(t *testing.T) {
	s := &server{delay: time.Second}
	bubble(t, s, Settings{MaxIdle: 10}, func(e *Endpoint) {
		gone := errors.New("client gone")
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() {
			time.Sleep(time.Millisecond)
			cancel(gone)
		}()
		if _, err := e.Acquire(ctx); !errors.Is(err, gone) {
			t.Errorf("%v", err)
		}
		time.Sleep(2 * time.Second)
		if c := e.TryAcquire(); c == nil {
			t.Error("the connection was not kept for others")
		} else {
			e.Release(c, true, time.Now())
		}
	})
}

func TestMaxConnections(t *testing.T) {
	s := &server{}
	bubble(t, s, Settings{MaxIdle: 10, MaxConnections: 2, Connect: time.Second}, func(e *Endpoint) {
		a, b := acquire(t, e), acquire(t, e)
		start := time.Now()
		if _, err := e.Acquire(context.Background()); !errors.Is(err, ErrExhausted) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		go func() {
			time.Sleep(time.Millisecond)
			e.Release(a, true, time.Now())
		}()
		if c := acquire(t, e); c != a {
			t.Error("not the one that came free")
		}
		go func() {
			time.Sleep(time.Millisecond)
			e.Release(b, false, time.Now()) // broken: another may be dialled
		}()
		c := acquire(t, e)
		if c == b || s.dials.Load() != 3 {
			t.Errorf("%d dials", s.dials.Load())
		}
		e.Release(c, true, time.Now())
		// A fresh one is wanted while the other is idle: that gives way.
		f, err := e.AcquireFresh(context.Background())
		if err != nil || f == c {
			t.Fatalf("%v", err)
		}
		e.Release(f, true, time.Now())
		e.Release(a, true, time.Now())
	})
}

func TestWhoWaitsIsNotGivenAConnectionThatHasEnded(t *testing.T) {
	s := &server{}
	bubble(t, s, Settings{MaxIdle: 10, MaxConnections: 1}, func(e *Endpoint) {
		a := acquire(t, e)
		go func() {
			time.Sleep(time.Millisecond)
			s.conns[0].dead.Store(true)
			e.Release(a, true, time.Now())
		}()
		c := acquire(t, e)
		if c == a || s.dials.Load() != 2 {
			t.Errorf("%d dials, want another connection", s.dials.Load())
		}
		e.Release(c, true, time.Now())
	})
}

func TestDialsThatFail(t *testing.T) {
	s := &server{}
	s.fail.Store(true)
	bubble(t, s, Settings{MaxIdle: 10}, func(e *Endpoint) {
		var dial *DialError
		if _, err := e.Acquire(context.Background()); !errors.As(err, &dial) || !errors.Is(err, errDown) || dial.Reason != "connect" {
			t.Errorf("%v", err)
		}
		if e.State(time.Now()) != "ejected" {
			t.Error("still up")
		}
		s.fail.Store(false)
		e.Release(acquire(t, e), true, time.Now())
		if e.State(time.Now()) != "up" {
			t.Error("still ejected")
		}
	})
	slow := &server{delay: time.Hour}
	bubble(t, slow, Settings{Connect: time.Second}, func(e *Endpoint) {
		var dial *DialError
		if _, err := e.Acquire(context.Background()); !errors.As(err, &dial) || dial.Reason != "connect_timeout" {
			t.Errorf("%v", err)
		}
	})
}

func TestEjectionGrowsAndOneRequestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h health
		if !h.try(time.Now) {
			t.Fatal("a new endpoint is not well")
		}
		last := time.Duration(0)
		for n := range 10 {
			h.failed(time.Now())
			h.failed(time.Now()) // of the same outage
			away := time.Until(h.until)
			if away <= last && last < ejectMost || away > ejectMost*5/4 {
				t.Errorf("ejection %d: %v after %v", n, away, last)
			}
			last = away
			if h.try(time.Now) {
				t.Error("tried while ejected")
			}
			time.Sleep(away)
			if !h.try(time.Now) || h.try(time.Now) {
				t.Error("not exactly one probes")
			}
		}
		h.succeeded()
		if !h.try(time.Now) || !h.try(time.Now) || h.state(time.Now()) != "up" {
			t.Error("not well again")
		}
	})
}

func TestPickPrefersTheLighterThatIsWell(t *testing.T) {
	var list []*Endpoint
	for range 4 {
		list = append(list, endpoint(&server{}, Settings{}))
	}
	list[0].Series.InFlight.Store(1000)
	counts := map[*Endpoint]int{}
	for range 4000 {
		counts[Pick(list, nil)]++
	}
	// The heaviest of four is never chosen; of the rest each about a third.
	for i, e := range list {
		if i == 0 && counts[e] != 0 || i > 0 && (counts[e] < 1000 || counts[e] > 1700) {
			t.Errorf("endpoint %d was picked %d times", i, counts[e])
		}
	}
	list[1].health.failed(time.Now())
	for range 100 {
		if e := Pick(list, list[2:3]); e == list[1] || e == list[2] {
			t.Fatal("picked one that is ejected, or tried")
		}
	}
	for _, e := range list {
		e.health.failed(time.Now())
	}
	if e := Pick(list, list[:3]); e != list[3] {
		t.Error("where none is well, what was not tried is tried")
	}
	if Pick(list, list) != nil || Pick(nil, nil) != nil || Pick(list[:1], list[:1]) != nil {
		t.Error("picked from nothing")
	}
	for _, e := range list {
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestSharedConnectionThatBreaksEndsWithItsCalls(t *testing.T) {
	s := &server{protocol: exchange.HTTP2}
	s.capacity.Store(10)
	bubble(t, s, Settings{MaxIdle: 10}, func(e *Endpoint) {
		a, b := acquire(t, e), acquire(t, e)
		if a != b {
			t.Fatal("not shared")
		}
		e.Release(a, false, time.Now())
		synctest.Wait()
		if s.open.Load() != 1 {
			t.Error("closed under the other call")
		}
		if c := acquire(t, e); c == b {
			t.Error("it got another call")
		} else {
			e.Release(c, true, time.Now())
		}
		e.Release(b, true, time.Now())
		synctest.Wait()
		if s.open.Load() != 1 {
			t.Errorf("%d open", s.open.Load())
		}
	})
}

func TestRetireClosesWhatIsUnusedAndThenTheRest(t *testing.T) {
	s := &server{}
	bubble(t, s, Settings{MaxIdle: 10}, func(e *Endpoint) {
		a, b := acquire(t, e), acquire(t, e)
		e.Release(a, true, time.Now())
		e.Retire()
		synctest.Wait()
		if s.open.Load() != 1 || e.Drained() {
			t.Errorf("%d open, drained %v", s.open.Load(), e.Drained())
		}
		e.Release(acquire(t, e), true, time.Now()) // a straggler is still served
		e.Release(b, true, time.Now())
		synctest.Wait()
		if s.open.Load() != 0 || !e.Drained() {
			t.Errorf("%d open, drained %v", s.open.Load(), e.Drained())
		}
	})
}

func TestCloseEndsWaitingAndDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: time.Hour}
		e := endpoint(s, Settings{Connect: time.Hour})
		failed := make(chan error)
		go func() {
			_, err := e.Acquire(context.Background())
			failed <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		closed := make(chan error, 1)
		go func() { closed <- e.Close(ctx) }()
		if err := <-failed; !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
		if err := <-closed; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if _, err := e.Acquire(context.Background()); !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}

// Everything at once, for the race detector and the counters.
func TestManyGoroutines(t *testing.T) {
	for _, protocol := range []exchange.Protocol{exchange.HTTP1, exchange.HTTP2} {
		s := &server{protocol: protocol}
		s.capacity.Store(4)
		if protocol == exchange.HTTP1 {
			s.capacity.Store(1)
		}
		e := endpoint(s, Settings{MaxIdle: 4, MaxConnections: 8})
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				for n := range 50 {
					c, err := e.Acquire(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					if n%10 == i%10 {
						c.ClientConn.(*conn).dead.Store(true)
					}
					e.Release(c, n%7 != 0, time.Now())
					if n%20 == 0 {
						e.Sweep(time.Now())
					}
				}
			})
		}
		wg.Wait()
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if s.open.Load() != 0 || e.Series.Active.Load() != 0 || e.Series.Idle.Load() != 0 {
			t.Errorf("%s: %d open, %d active, %d idle", protocol, s.open.Load(), e.Series.Active.Load(), e.Series.Idle.Load())
		}
	}
}

// acquireFresh begins to wait, and gives what comes of it.
func acquireFresh(t *testing.T, e *Endpoint) <-chan *Conn {
	t.Helper()
	got := make(chan *Conn, 1)
	go func() {
		c, err := e.AcquireFresh(context.Background())
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	synctest.Wait()
	return got
}

// After a restart of the origin connections come back that look as well as ever.
func TestFreshIsNotWhatOthersGiveBack(t *testing.T) {
	for name, most := range map[string]int{"as many connections as it takes": 0, "one connection at most": 1} {
		t.Run(name, func(t *testing.T) {
			s := &server{delay: time.Second}
			bubble(t, s, Settings{MaxIdle: 10, MaxConnections: most}, func(e *Endpoint) {
				old := acquire(t, e)
				fresh := acquireFresh(t, e)
				e.Release(old, true, time.Now())
				c := <-fresh
				if c == old || c.Reused() {
					t.Error("one who needs a fresh connection got a used one")
				}
				e.Release(c, true, time.Now())
			})
		})
	}
}

func TestFreshIsNotWhatWasDialledBefore(t *testing.T) {
	s := &server{delay: time.Second}
	bubble(t, s, Settings{MaxIdle: 10}, func(e *Endpoint) {
		first := acquire(t, e) // it is known now that each call needs a connection of its own
		loose := make(chan *Conn, 1)
		go func() { loose <- acquire(t, e) }()
		synctest.Wait() // a dial is under way
		e.Release(first, true, time.Now())
		if c := <-loose; c != first {
			t.Error("what comes free does not serve one who takes any")
		}
		fresh := acquireFresh(t, e)
		began := time.Now()
		c := <-fresh
		if waited := time.Since(began); waited <= time.Second {
			t.Errorf("a connection whose dial was under way before was taken for fresh, after %v", waited)
		}
		e.Release(c, true, time.Now())
		e.Release(first, true, time.Now())
	})
}

// A dial that fails is the failure of one whom it would have served.
func TestOlderDialFailsNoneThatNeedsAFreshOne(t *testing.T) {
	s := &server{delay: time.Second}
	bubble(t, s, Settings{MaxIdle: 10}, func(e *Endpoint) {
		e.Release(acquire(t, e), true, time.Now())
		held := e.TryAcquire()
		s.fail.Store(true)
		failed := make(chan error, 1)
		go func() {
			_, err := e.Acquire(context.Background())
			failed <- err
		}()
		time.Sleep(time.Second / 2)
		fresh := acquireFresh(t, e)
		time.Sleep(3 * time.Second / 4) // the first dial has failed, the second has not ended
		s.fail.Store(false)
		if err := <-failed; !errors.Is(err, errDown) {
			t.Errorf("the dial's own waiter got %v", err)
		}
		e.Release(<-fresh, true, time.Now())
		e.Release(held, true, time.Now())
	})
}
