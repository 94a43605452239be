package serialtest

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

// AClientThatTakesNothingIsCut has a client leave its answer where it is, whole or in pieces;
// start's server has a short limit on writes and a long one on idle streams. request is
// one without a body.
func AClientThatTakesNothingIsCut(t *testing.T, start Starter, request []byte) {
	EachMode(t, func(t *testing.T, m Mode) {
		for name, body := range map[string]exchange.Source{
			"whole":     exchange.NewBytes(make([]byte, 64<<20)),
			"in pieces": &endless{piece: make([]byte, 64<<10)},
		} {
			failed := make(chan error, 1)
			s := start(t, m, func(x *exchange.Exchange) {
				x.Response.Reset(nil)
				x.Response.Status = 200
				failed <- x.Responder.Respond(&x.Response, body)
			})
			if _, err := s.Dial().Write(request); err != nil {
				t.Fatal(err)
			}
			var client *exchange.ClientError
			select {
			case err := <-failed:
				if !errors.As(err, &client) {
					t.Errorf("%s: the answer ended with %v, want the client's fault", name, err)
				}
			case <-time.After(20 * time.Second):
				t.Errorf("%s: the answer still waits for its client", name)
			}
		}
	})
}

// AClientThatTakesItsTimeIsNot has something move all the time, while the whole of a write takes
// longer than the limit. answer reads an answer to its end and gives the length of its body.
func AClientThatTakesItsTimeIsNot(t *testing.T, start Starter, request []byte, answer func(r io.Reader) (int64, error)) {
	const size = 32 << 20
	EachMode(t, func(t *testing.T, m Mode) {
		s := start(t, m, func(x *exchange.Exchange) { Answer(x, 200, make([]byte, size)) })
		c := s.Dial()
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		if n, err := answer(&slow{r: c}); err != nil || n != size {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// slow lets 50 ms pass before each MiB.
type slow struct {
	r    io.Reader
	left int
}

func (s *slow) Read(p []byte) (int, error) {
	if s.left <= 0 {
		time.Sleep(50 * time.Millisecond)
		s.left = 1 << 20
	}
	n, err := s.r.Read(p)
	s.left -= n
	return n, err
}

// endless is a body that never ends.
type endless struct {
	exchange.Source
	piece []byte
}

func (*endless) Length() int64                { return -1 }
func (*endless) Whole() ([]byte, bool)        { return nil, false }
func (*endless) Buffered() int                { return 0 }
func (e *endless) Next() ([]byte, error)      { return e.piece, nil }
func (e *endless) Read(p []byte) (int, error) { return copy(p, e.piece), nil }
func (*endless) Trailers() *exchange.Head     { return nil }
func (*endless) Close(error)                  {}
