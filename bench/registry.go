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
	// Linkable benches can run across a link lab.
	Linkable bool
	// Link is the lab that it runs across, "" for the loopback: see Across.
	Link string
	// Run measures. An error ends the bench; an arm that fails does not.
	Run func(ctx context.Context, s *Session) error
}

// LinkSuffix ends the name of a bench that runs across a link, in results too:
// its cells are none of those of the loopback.
const LinkSuffix = "-link"

// Across is the bench across the link lab of a name. Beside the one over the
// loopback it takes half the time, for the rows that a link changes.
func (b Bench) Across(lab string) Bench {
	b.Name, b.Title, b.Link = b.Name+LinkSuffix, b.Title+", across a link", lab
	b.Quick, b.Full = b.Quick/2, b.Full/2
	return b
}

// length is how long the bench takes unless there is less time.
func (b Bench) length(quick bool) time.Duration {
	if quick {
		return b.Quick
	}
	return b.Full
}

var benches []Bench

// Register adds a bench to `bench all`; subpackages call it in an init
// function.
func Register(b Bench) { benches = append(benches, b) }

// All are the registered benches in the order of the report.
func All() []Bench {
	return slices.SortedStableFunc(slices.Values(benches), func(a, b Bench) int { return cmp.Compare(a.Order, b.Order) })
}
