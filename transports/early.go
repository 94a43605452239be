package transports

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"sync"
	"time"
)

// EarlyGuard sees to it that a flight of early data is served at most once by
// this process: a session ticket opens the door to 0-RTT one single time
// (RFC 8446, section 8.1). A ticket that is older than the guard can remember, or than
// itself, and one that comes while its memory is full, only resume.
type EarlyGuard struct {
	now func() time.Time

	mu       sync.Mutex
	began    time.Time // of this process, as far as tickets are concerned
	turned   time.Time
	cur, old map[ticketKey]struct{}
}

type ticketKey [16]byte

// earlyWindow is for how long a ticket is good for early data.
const earlyWindow = time.Hour

// earlyTickets bounds what is remembered, twice: some 10 MB in all. Clients that come beyond
// it within the window do without early data.
const earlyTickets = 100_000

// NewEarlyGuard makes one; all listeners of a process share it, as they may share
// ticket keys.
func NewEarlyGuard() *EarlyGuard { return newEarlyGuard(time.Now) }

func newEarlyGuard(now func() time.Time) *EarlyGuard {
	g := &EarlyGuard{now: now, cur: map[ticketKey]struct{}{}}
	g.began = now()
	g.turned = g.began
	return g
}

// first tells whether a ticket, given at that time, comes for the first time.
func (g *EarlyGuard) first(ticket []byte, given time.Time) bool {
	sum := sha256.Sum256(ticket)
	key := ticketKey(sum[:16])
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if given.Before(g.began) || now.Sub(given) > earlyWindow {
		return false
	}
	if now.Sub(g.turned) > earlyWindow {
		g.old, g.cur, g.turned = g.cur, map[ticketKey]struct{}{}, now
	}
	_, seen := g.cur[key]
	if !seen {
		_, seen = g.old[key]
	}
	if seen || len(g.cur) >= earlyTickets {
		return false
	}
	g.cur[key] = struct{}{}
	return true
}

// givenMark begins our entry among a session's extra data, which says when the ticket
// was given.
const givenMark = "pqgw given "

// guard lets a configuration's tickets open the door to early data once.
func (g *EarlyGuard) guard(c *tls.Config, base *tls.Config) {
	if base.SessionTicketsDisabled {
		return
	}
	wrap, unwrap := base.WrapSession, base.UnwrapSession
	c.WrapSession = func(cs tls.ConnectionState, ss *tls.SessionState) ([]byte, error) {
		given := binary.BigEndian.AppendUint64([]byte(givenMark), uint64(g.now().UnixNano()))
		ss.Extra = append(ss.Extra, given)
		return wrap(cs, ss)
	}
	c.UnwrapSession = func(ticket []byte, cs tls.ConnectionState) (*tls.SessionState, error) {
		ss, err := unwrap(ticket, cs)
		if ss != nil && ss.EarlyData && !g.first(ticket, givenAt(ss.Extra)) {
			ss.EarlyData = false
		}
		return ss, err
	}
}

func givenAt(extra [][]byte) time.Time {
	for _, e := range extra {
		if len(e) == len(givenMark)+8 && string(e[:len(givenMark)]) == givenMark {
			return time.Unix(0, int64(binary.BigEndian.Uint64(e[len(givenMark):])))
		}
	}
	return time.Time{}
}
