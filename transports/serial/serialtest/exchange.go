package serialtest

import (
	"io"
	"strings"

	"github.com/hanzoai/pqgw/exchange"
)

// HandlerFunc is an exchange.Handler.
type HandlerFunc func(x *exchange.Exchange)

// Serve implements exchange.Handler.
func (f HandlerFunc) Serve(x *exchange.Exchange) { f(x) }

// Echo answers with the request's body, or with its target where it has none; a
// refused request with the reason.
func Echo(x *exchange.Exchange) {
	h := &x.Response
	h.Reset(nil)
	h.Status = 200
	if r := x.Refusal; r != nil {
		h.Status = r.Status
		_ = x.Responder.Respond(h, exchange.NewBytes([]byte(r.Reason)))
		return
	}
	if x.Body != nil {
		_ = x.Responder.Respond(h, x.Body)
		return
	}
	_ = x.Responder.Respond(h, exchange.NewBytes(x.Request.Target()))
}

// Answer gives a handler's answer.
func Answer(x *exchange.Exchange, status int, body []byte) {
	x.Response.Reset(nil)
	x.Response.Status = status
	var src exchange.Source
	if body != nil {
		src = exchange.NewBytes(body)
	}
	_ = x.Responder.Respond(&x.Response, src)
}

// NewExchange is a request to be sent; fields are of the form "Name: value".
func NewExchange(method, target string, fields ...string) *exchange.Exchange {
	x := &exchange.Exchange{}
	x.Reset(&exchange.Conn{})
	x.Request.Reset(nil)
	x.Request.SetMethod([]byte(method))
	x.Request.SetTarget([]byte(target))
	x.Request.SetAuthority([]byte("up.example"))
	for _, f := range fields {
		n, v, _ := strings.Cut(f, ": ")
		x.Request.AddString(n, v)
	}
	return x
}

// Pieces is a body that comes piece by piece.
type Pieces struct {
	List []string
	// Announced is its length, or -1.
	Announced int64
	Trailer   *exchange.Head
	// Err comes behind the pieces in place of the end.
	Err error
}

// Length implements exchange.Source.
func (p *Pieces) Length() int64 { return p.Announced }

// Whole implements exchange.Source.
func (p *Pieces) Whole() ([]byte, bool) { return nil, false }

// Buffered implements exchange.Source.
func (p *Pieces) Buffered() int { return 0 }

// Close implements exchange.Source.
func (p *Pieces) Close(error) {}

// Trailers implements exchange.Source.
func (p *Pieces) Trailers() *exchange.Head { return p.Trailer }

// Next implements exchange.Source.
func (p *Pieces) Next() ([]byte, error) {
	if len(p.List) == 0 {
		if p.Err != nil {
			return nil, p.Err
		}
		return nil, io.EOF
	}
	s := p.List[0]
	p.List = p.List[1:]
	return []byte(s), nil
}

// Read implements exchange.Source.
func (p *Pieces) Read(b []byte) (int, error) {
	s, err := p.Next()
	return copy(b, s), err
}
