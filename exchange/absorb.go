package exchange

import (
	"errors"
	"io"
)

// absorbBytes is how much of an unwanted body is read: an answer that needs none of
// it is better given at its end than against its stream, up to here.
const absorbBytes = 64 << 10

// Absorb reads the request's body to its end where it is small, so that an
// answer which does not depend on it finds the request whole: a body that is
// malformed is then refused, and the connection goes on behind it. It returns
// the refusal, or nil where the answer may be given; a client that waits for 100,
// or sends much, is answered early.
func (x *Exchange) Absorb() *Refusal {
	b := x.Body
	if b == nil || x.Request.ExpectContinue || b.Length() > absorbBytes {
		return nil
	}
	if _, whole := b.Whole(); whole {
		return nil
	}
	for total := 0; total <= absorbBytes; {
		p, err := b.Next()
		total += len(p)
		if err == nil {
			continue
		}
		var r *Refusal
		if err != io.EOF && errors.As(err, &r) { //nolint:errorlint // the end is this value
			return r
		}
		return nil
	}
	return nil
}
