package scenario

import (
	"fmt"
	"slices"
	"testing"
)

func TestLinesAreWholeHoweverTheyAreWritten(t *testing.T) {
	var l Lines
	for _, piece := range []string{"on", "e\ntwo\nthr", "ee\n", "rest"} {
		if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", piece, n, err)
		}
	}
	if got := l.All(); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("lines %q", got)
	}
	if got := l.String(); got != "one\ntwo\nthree\nrest" {
		t.Errorf("text %q", got)
	}
}

func TestAwaitSeesLinesBeforeAndAfterItsCall(t *testing.T) {
	var l Lines
	fmt.Fprintln(&l, "early")
	l.AwaitText(t, "early")
	go fmt.Fprintln(&l, "late")
	if got := l.AwaitText(t, "late"); got != "late" {
		t.Errorf("Await gave %q", got)
	}
}

// stopper takes the failure of an Await, which must not return after it.
type stopper struct {
	testing.TB
	failed string
}

func (s *stopper) Helper() {}

func (s *stopper) Fatalf(format string, args ...any) {
	s.failed = fmt.Sprintf(format, args...)
	panic(s)
}

func TestAwaitFailsAtOnceWhenTheProcessHasEnded(t *testing.T) {
	var l Lines
	fmt.Fprintln(&l, "the last words")
	l.end()
	s := new(stopper)
	defer func() {
		if recover() != s || s.failed == "" {
			t.Errorf("Await did not fail; it said %q", s.failed)
		}
	}()
	l.AwaitText(s, "anything else")
}
