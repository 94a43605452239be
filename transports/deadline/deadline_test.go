package deadline

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnEntryExpiresOnceItsTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New()
		defer w.Close()
		var calls atomic.Int32
		e := &Entry{Expire: func() { calls.Add(1) }, FD: -1}
		w.Add(e)
		w.Set(e, time.Second)
		time.Sleep(900 * time.Millisecond)
		if calls.Load() != 0 || e.Expired() {
			t.Fatal("expired early")
		}
		if !w.Set(e, time.Second) {
			t.Fatal("a deadline that has not passed could not be moved")
		}
		time.Sleep(900 * time.Millisecond)
		if calls.Load() != 0 {
			t.Fatal("the deadline was not moved")
		}
		time.Sleep(time.Second)
		if calls.Load() != 1 || !e.Expired() || w.Set(e, time.Second) {
			t.Errorf("%d calls, expired %v", calls.Load(), e.Expired())
		}
		w.Remove(e)
		if w.Len() != 0 {
			t.Error("still watched")
		}
	})
}

func TestAStallIsNotPutOffByTheOtherDirection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New()
		defer w.Close()
		e := &Entry{Expire: func() {}, FD: -1}
		w.Add(e)
		defer w.Remove(e)
		w.Stall(e, time.Second)
		e.Unstall()
		w.Set(e, time.Hour)
		time.Sleep(time.Minute)
		if e.Expired() {
			t.Fatal("a stall that had ended")
		}
		w.Stall(e, time.Second)
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			w.Set(e, time.Hour)
			w.Set(e, 0)
		}
		if !e.Expired() {
			t.Error("a stall went on")
		}
	})
}

func TestRemovingKeepsTheOthers(t *testing.T) {
	w := New()
	defer w.Close()
	var e [5]Entry
	for i := range e {
		e[i].FD = -1
		w.Add(&e[i])
	}
	w.Remove(&e[0])
	w.Remove(&e[0])
	w.Remove(&e[3])
	if w.Len() != 3 {
		t.Errorf("%d entries, want 3", w.Len())
	}
}

func TestAPeerThatClosesIsNoticedBehindUnreadBytes(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	raw, _ := c.(*net.TCPConn).SyscallConn()
	w := New()
	defer w.Close()
	gone := make(chan struct{}, 2)
	e := &Entry{Gone: func() { gone <- struct{}{} }}
	_ = raw.Control(func(fd uintptr) { e.FD = int(fd) })
	if e.FD < 0 {
		t.Skip("no descriptor here")
	}
	w.Add(e)
	defer w.Remove(e)
	w.AskOnce(e)
	for e.ask.Load() != 0 { // it was asked, and was still there
		time.Sleep(time.Millisecond)
	}
	w.Ask(e)
	_, _ = client.Write([]byte("unread"))
	_ = client.Close()
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Fatal("nobody noticed")
	}
	if len(gone) != 0 {
		t.Error("told twice")
	}
}

func TestThePeerIsAskedAfterNotBeforeAWholeTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New()
		defer w.Close()
		const phases, rounds = 10, 3
		waits := make(chan time.Duration, phases*rounds)
		for range phases * rounds {
			e := &Entry{FD: -1, Expire: func() {}, Poll: func() bool { return true }}
			asked := time.Now()
			e.Gone = func() { waits <- time.Since(asked) }
			w.Add(e)
			w.Ask(e)
			time.Sleep(Tick / phases) // at every phase of the watch's clock
		}
		for range phases * rounds {
			if d := <-waits; d < Tick || d > 3*Tick {
				t.Errorf("asked after %v, want %v to %v", d, Tick, 3*Tick)
			}
		}
	})
}
