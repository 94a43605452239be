package handshake

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestTheLimiterCountsByAddressAndInAll(t *testing.T) {
	l := NewLimiter(Limits{Total: 4, PerAddress: 2})
	take := func(a string, want Reason) Permit {
		t.Helper()
		p, err := l.Acquire(addr(a))
		var got Reason
		var refused *RefusedError
		if errors.As(err, &refused) {
			got = refused.Reason
		}
		if got != want {
			t.Fatalf("%s: %q, want %q", a, got, want)
		}
		return p
	}
	one := take("192.0.2.1", "")
	take("::ffff:192.0.2.1", "")
	take("192.0.2.1", TooManyFromAddress)
	two := take("2001:db8::1", "")
	take("2001:db8::2", "")
	take("198.51.100.1", TooManyHandshakes)
	two.Release()
	take("2001:db8:0:0:ffff::", "")
	one.Release()
	take("2001:db8::3", TooManyFromAddress)
	take("2001:db8:0:1::", "")
	if n := l.UnderWay(); n != 4 {
		t.Errorf("%d under way", n)
	}
}

func TestAUnixSocketCountsInTheTotalOnly(t *testing.T) {
	l := NewLimiter(Limits{Total: 3, PerAddress: 1})
	for range 3 {
		if _, err := l.Acquire(netip.Addr{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Acquire(netip.Addr{}); err == nil {
		t.Error("a fourth was let in")
	}
}

func TestTheLimiterForgetsAddressesAndAllocatesNothing(t *testing.T) {
	l := NewLimiter(Limits{Total: 100, PerAddress: 10})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 1000 {
				p, err := l.Acquire(netip.AddrFrom4([4]byte{10, 0, byte(i), byte(j)}))
				if err != nil {
					t.Error(err)
				}
				p.Release()
			}
		})
	}
	wg.Wait()
	for i := range l.shards {
		if n := len(l.shards[i].held); n != 0 {
			t.Errorf("%d addresses kept", n)
		}
	}
	a := addr("2001:db8::1")
	if n := testing.AllocsPerRun(1000, func() {
		p, _ := l.Acquire(a)
		p.Release()
	}); n != 0 || l.UnderWay() != 0 {
		t.Errorf("%v allocations, %d under way", n, l.UnderWay())
	}
	Permit{}.Release()
}

func BenchmarkLimiter(b *testing.B) {
	l := NewLimiter(Limits{Total: 1 << 20, PerAddress: 100})
	a := addr("192.0.2.1")
	b.ReportAllocs()
	for b.Loop() {
		p, err := l.Acquire(a)
		if err != nil {
			b.Fatal(err)
		}
		p.Release()
	}
}
