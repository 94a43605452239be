package bench

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Bench is a subject of its own, with a command of its own, that `bench all`
// runs as well.
type Bench struct {
	Name  string // "handshake"; the name of its command and in results
	Title string // "What a handshake costs"
	Order int    // place in the report
	// Quick and Full are how long it takes; experiments share this out.
	Quick, Full time.Duration
	// Run measures. An error ends the bench; an arm that fails does not.
	Run func(ctx context.Context, s *Session) error
}

var benches []Bench

// Register adds a bench to `bench all`; subpackages call it in an init
// function.
func Register(b Bench) { benches = append(benches, b) }

// All are the registered benches in the order of the report.
func All() []Bench {
	return slices.SortedStableFunc(slices.Values(benches), func(a, b Bench) int { return cmp.Compare(a.Order, b.Order) })
}
