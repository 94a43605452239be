package handshake

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Limits bound the handshakes under way; zero means no limit.
type Limits struct {
	Total      int // in all
	PerAddress int // from one IPv4 address, or one IPv6 /64, which is what one subscriber has
}

// limiterShards spreads the lock of the addresses' counts.
const limiterShards = 16

// Limiter counts handshakes under way and refuses those beyond its limits. It
// allocates nothing in the steady state and is safe for concurrent use.
type Limiter struct {
	limits Limits
	total  atomic.Int64
	seed   maphash.Seed
	shards [limiterShards]struct {
		sync.Mutex
		held map[netip.Addr]int
	}
}

// NewLimiter makes a limiter.
func NewLimiter(l Limits) *Limiter {
	lim := &Limiter{limits: l, seed: maphash.MakeSeed()}
	for i := range lim.shards {
		lim.shards[i].held = make(map[netip.Addr]int)
	}
	return lim
}

var (
	errTooMany            = &RefusedError{Reason: TooManyHandshakes, Err: errString("limit on handshakes under way reached")}
	errTooManyFromAddress = &RefusedError{Reason: TooManyFromAddress, Err: errString("limit on handshakes under way from one address reached")}
)

// Permit is the leave to run one handshake. The zero value holds nothing.
type Permit struct {
	limiter *Limiter
	addr    netip.Addr
}

// Acquire asks for leave to run a handshake with addr. The error is a
// *[RefusedError] that must not be changed. An invalid address (a unix
// socket) counts in the total only. A granted permit must be released.
func (l *Limiter) Acquire(addr netip.Addr) (Permit, error) {
	if n := l.total.Add(1); l.limits.Total > 0 && n > int64(l.limits.Total) {
		l.total.Add(-1)
		return Permit{}, errTooMany
	}
	addr = subscriber(addr)
	if l.limits.PerAddress <= 0 || !addr.IsValid() {
		return Permit{limiter: l}, nil
	}
	s := &l.shards[maphash.Comparable(l.seed, addr)%limiterShards]
	s.Lock()
	defer s.Unlock()
	n := s.held[addr]
	if n >= l.limits.PerAddress {
		l.total.Add(-1)
		return Permit{}, errTooManyFromAddress
	}
	s.held[addr] = n + 1
	return Permit{limiter: l, addr: addr}, nil
}

// Release gives the permit back. Releasing the zero Permit does nothing;
// releasing one twice is a mistake of the caller.
func (p Permit) Release() {
	l := p.limiter
	if l == nil {
		return
	}
	l.total.Add(-1)
	if !p.addr.IsValid() {
		return
	}
	s := &l.shards[maphash.Comparable(l.seed, p.addr)%limiterShards]
	s.Lock()
	defer s.Unlock()
	if n := s.held[p.addr]; n > 1 {
		s.held[p.addr] = n - 1
	} else {
		delete(s.held, p.addr)
	}
}

// UnderWay is how many permits are held.
func (l *Limiter) UnderWay() int { return int(l.total.Load()) }

// subscriber is the address as limits count it: IPv4 whole, IPv6 by its /64.
func subscriber(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is6() {
		return a
	}
	b := a.As16()
	clear(b[8:])
	return netip.AddrFrom16(b)
}
