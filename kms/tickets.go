package kms

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// How session-ticket roots overlap.
const (
	// TicketLead is how long a new root is accepted before tickets are made
	// with it: time for each gateway of the fleet to read it.
	TicketLead = time.Hour
	// TicketOverlap is how long an old root is accepted after the next one
	// took over: a ticket is good until the end of the hour after the one it
	// was made in, and clocks differ.
	TicketOverlap = 3 * time.Hour

	ticketRootSize = 32
	maxRing        = 64 // keys in one ring: what a reader takes
)

// TicketRoot is a secret that hourly ticket keys are derived from.
type TicketRoot struct {
	Created time.Time `json:"created"`
	First   time.Time `json:"first"`          // when new tickets are made with it
	Until   time.Time `json:"until,omitzero"` // when it is no longer accepted; zero while it is the newest
	Root    []byte    `json:"root"`
}

// TicketRing are the roots of a fleet, oldest first.
type TicketRing struct {
	Roots []TicketRoot `json:"roots"`
}

// ParseTicketRing reads the value of an entry of KindTicketRoot.
func ParseTicketRing(value *Secret) (TicketRing, error) {
	var ring TicketRing
	err := value.Use(func(b []byte) error { return json.Unmarshal(b, &ring) })
	if err != nil {
		return TicketRing{}, fail("read ticket roots", "", ErrCorrupt, "")
	}
	if len(ring.Roots) == 0 || len(ring.Roots) > maxRing {
		return TicketRing{}, fail("read ticket roots", "", ErrCorrupt, "")
	}
	for _, r := range ring.Roots {
		if len(r.Root) != ticketRootSize {
			return TicketRing{}, fail("read ticket roots", "", ErrCorrupt, "")
		}
	}
	return ring, nil
}

// At returns the roots in force: the first makes new tickets, tickets of all
// are accepted. It is what handshake.Tickets takes.
func (r TicketRing) At(now time.Time) [][]byte {
	var out [][]byte
	for _, root := range slices.Backward(r.Roots) {
		switch {
		case !root.Until.IsZero() && !now.Before(root.Until):
		case len(out) > 0 || !now.Before(root.First):
			out = append(out, root.Root)
		}
	}
	// Those whose time has not come are accepted behind the one in force.
	for _, root := range r.Roots {
		if now.Before(root.First) {
			out = append(out, root.Root)
		}
	}
	return out
}

// Next is when At will answer differently; zero for never.
func (r TicketRing) Next(now time.Time) time.Time {
	var next time.Time
	for _, root := range r.Roots {
		for _, t := range []time.Time{root.First, root.Until} {
			if t.After(now) && (next.IsZero() || t.Before(next)) {
				next = t
			}
		}
	}
	return next
}

// String says how many roots there are and shows none.
func (r TicketRing) String() string { return fmt.Sprintf("%d ticket roots", len(r.Roots)) }

// GoString says how many roots there are and shows none.
func (r TicketRing) GoString() string { return r.String() }

// rotate adds a root and drops those that nobody has tickets of any more.
func (r TicketRing) rotate(now time.Time) TicketRing {
	roots := slices.DeleteFunc(slices.Clone(r.Roots), func(t TicketRoot) bool {
		return !t.Until.IsZero() && !now.Before(t.Until)
	})
	fresh := TicketRoot{Created: now, First: now, Root: make([]byte, ticketRootSize)}
	_, _ = rand.Read(fresh.Root)
	if n := len(roots); n > 0 {
		fresh.First = now.Add(TicketLead)
		roots[n-1].Until = fresh.First.Add(TicketOverlap)
	}
	return TicketRing{Roots: append(roots, fresh)}
}

// RotateTicketRoot adds a root to the ring of name, which it makes when there
// is none. Tickets that are about stay good.
func (s *Store) RotateTicketRoot(ctx context.Context, name string) (Info, error) {
	return s.rotateTicketRoot(ctx, name, func(TicketRing, time.Time) bool { return true })
}

// RotateTicketRootAfter is RotateTicketRoot where the newest root is older than
// age, and does nothing otherwise: of a fleet that all call it, one rotates.
// An age of zero only makes the ring when there is none.
func (s *Store) RotateTicketRootAfter(ctx context.Context, name string, age time.Duration) (rotated bool, err error) {
	_, err = s.rotateTicketRoot(ctx, name, func(r TicketRing, now time.Time) bool {
		n := len(r.Roots)
		rotated = n == 0 || age > 0 && !now.Before(r.Roots[n-1].Created.Add(age))
		return rotated
	})
	return rotated && err == nil, err
}

// rotateTicketRoot adds a root where due says so.
func (s *Store) rotateTicketRoot(ctx context.Context, name string, due func(TicketRing, time.Time) bool) (Info, error) {
	return s.Update(ctx, name, KindTicketRoot, "rotate", func(old *Secret) (*Secret, []byte, error) {
		var ring TicketRing
		if old != nil {
			var err error
			if ring, err = ParseTicketRing(old); err != nil {
				return nil, nil, err
			}
		}
		now := s.opts.Now().UTC()
		if !due(ring, now) {
			return nil, nil, nil
		}
		ring = ring.rotate(now)
		if len(ring.Roots) > maxRing {
			return nil, nil, fail("rotate", name, ErrTooLarge, "it was rotated too often within a few hours")
		}
		value, err := json.Marshal(ring)
		return NewSecret(value), nil, err
	})
}

// TicketRoots reads the ring of name.
func (s *Store) TicketRoots(ctx context.Context, name, purpose string) (TicketRing, error) {
	value, info, err := s.Get(ctx, name, purpose)
	if err != nil {
		return TicketRing{}, err
	}
	defer value.Close()
	if info.Kind != KindTicketRoot {
		return TicketRing{}, fail("read ticket roots", name, ErrKind, "it is "+string(info.Kind))
	}
	return ParseTicketRing(value)
}
