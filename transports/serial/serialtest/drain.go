package serialtest

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

// Starter starts a server of the protocol under test.
type Starter func(t testing.TB, m Mode, h HandlerFunc) *Server

var errEarly = errors.New("answered early")

// ClosingABodyEndsItsReadingWhileDraining has a handler answer early: that ends the wait for
// a body also where it goes on although the server wants to stop. unfinished is a request
// whose body lacks its end; status reads an answer and gives its status.
func ClosingABodyEndsItsReadingWhileDraining(t *testing.T, start Starter, unfinished []byte, status func(r io.Reader) (int, error)) {
	EachMode(t, func(t *testing.T, m Mode) {
		reading, draining := make(chan struct{}), make(chan struct{})
		s := start(t, m, func(x *exchange.Exchange) {
			body, ended := x.Body, make(chan struct{})
			go func() {
				defer close(ended)
				close(reading)
				_, _ = io.Copy(io.Discard, struct{ io.Reader }{body})
			}()
			<-draining
			body.Close(errEarly)
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Error("the reader still waits")
			}
			Answer(x, 403, nil)
		})
		c := s.Dial()
		_, _ = c.Write(unfinished)
		<-reading
		time.Sleep(50 * time.Millisecond) // for the reader to wait
		s.Shutdown()
		close(draining)
		if got, err := status(c); err != nil || got != 403 {
			t.Errorf("answered %d, %v", got, err)
		}
	})
}

// AClientThatGoesAwayCancelsTheExchange has the handler told, although nobody reads
// from the connection while it works. request is one without a body.
func AClientThatGoesAwayCancelsTheExchange(t *testing.T, start Starter, request []byte) {
	EachMode(t, func(t *testing.T, m Mode) {
		begun, cancelled := make(chan struct{}), make(chan error, 1)
		s := start(t, m, func(x *exchange.Exchange) {
			wait := make(chan error, 1)
			if err := x.OnCancel(&exchange.Canceller{Cancel: func(err error) { wait <- err }}); err != nil {
				wait <- err
			}
			close(begun)
			select {
			case err := <-wait:
				cancelled <- err
			case <-time.After(10 * time.Second):
				cancelled <- nil
			}
			x.Responder.Abort(nil)
		})
		c := s.Dial()
		_, _ = c.Write(request)
		<-begun
		_ = c.Close()
		if err := <-cancelled; !errors.Is(err, exchange.ErrClientGone) {
			t.Errorf("cancelled with %v", err)
		}
	})
}
