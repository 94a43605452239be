package http3

import (
	"io"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

// TestARequestThatComesBeforeTheLastGoAwayIsServed: between the two GOAWAYs the connection may have
// been without a request for a moment, which is no reason to close it under the next one.
func TestARequestThatComesBeforeTheLastGoAwayIsServed(t *testing.T) {
	for range 50 {
		if drainBetween(t) {
			return
		}
	}
	t.Fatal("no request came between the two")
}

// drainBetween is false where the second request came too late.
func drainBetween(t *testing.T) bool {
	entered, goOn := make(chan struct{}, 2), make(chan struct{})
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		entered <- struct{}{}
		<-goOn
		text(x, 200, "served")
	})})
	defer close(goOn)
	r := dialRaw(t, s, emptySettings)
	first := r.open(request(), true)
	<-entered
	c := s.conn(t)
	c.Shutdown()
	goOn <- struct{}{}
	if h, _ := readAnswer(t, first); h.Status != 200 {
		t.Fatal(h.Status)
	}
	second := r.open(request(), true)
	answer := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(second)
		answer <- err
	}()
	select {
	case <-entered:
	case <-answer: // rejected
		return false
	}
	select {
	case err := <-answer:
		t.Fatal("closed under a request that was taken: ", err)
	case <-time.After(1500 * time.Millisecond): // more than the quiet behind which it would be
	}
	goOn <- struct{}{}
	if err := <-answer; err != nil {
		t.Error(err)
	}
	return true
}
