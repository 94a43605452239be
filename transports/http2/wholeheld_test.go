package http2

import (
	"bytes"
	"testing"

	"github.com/hanzoai/pqgw/exchange"
)

// TestAWholeBodyStaysWhileItIsWritten: who writes a body that is whole may still be at it when the
// call is cancelled, from elsewhere, and must not find another's bytes there.
func TestAWholeBodyStaysWhileItIsWritten(t *testing.T) {
	ours, others := bytes.Repeat([]byte{'a'}, 3<<10), bytes.Repeat([]byte{'b'}, 3<<10)
	for range 50 {
		var in inbound
		in.init(new(stream), initialWindow)
		if _, err := in.write(ours); err != nil {
			t.Fatal(err)
		}
		if err := in.finish(); err != nil {
			t.Fatal(err)
		}
		p, ok := in.Whole()
		if !ok {
			t.Fatal("the body is not whole")
		}
		in.breakOff(exchange.ErrClientGone)
		for range 4 {
			c := getChunk(len(others))
			c.b = append(c.b, others...)
		}
		if !bytes.Equal(p, ours) {
			t.Fatal("the body's memory was given to another while it was held")
		}
	}
}
