package section

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/hanzoai/pqgw/exchange"
)

// The examples of RFC 7541, appendix C.1, and the edges.
func TestIntegersAreWrittenAndReadAsTheRFCSays(t *testing.T) {
	for _, q := range []struct {
		prefix uint
		n      uint64
		want   []byte
	}{
		{5, 10, []byte{10}},
		{5, 1337, []byte{31, 154, 10}},
		{8, 42, []byte{42}},
		{5, 30, []byte{30}},
		{5, 31, []byte{31, 0}},
		{7, 127 + 127, []byte{127, 127}},
		{7, 127 + 128, []byte{127, 128, 1}},
	} {
		got := AppendInteger(nil, 0, q.prefix, q.n)
		if !bytes.Equal(got, q.want) {
			t.Errorf("%d with %d bits is %v, want %v", q.n, q.prefix, got, q.want)
		}
		n, rest, err := Integer(append(got, 'x'), q.prefix)
		if err != nil || n != q.n || string(rest) != "x" {
			t.Errorf("%v reads as %d, rest %q, %v", got, n, rest, err)
		}
		for cut := range got {
			if _, _, err := Integer(got[:cut], q.prefix); !errors.Is(err, ErrEnd) {
				t.Errorf("%v cut to %d bytes: %v", got, cut, err)
			}
		}
	}
	if _, _, err := Integer(AppendInteger(nil, 0, 7, math.MaxUint64), 7); !errors.Is(err, ErrInteger) {
		t.Errorf("an integer of 64 bits: %v", err)
	}
}

func TestFieldsOfAHopDoNotTravelAndSecretsAreTold(t *testing.T) {
	for id, want := range map[exchange.Name]bool{
		exchange.Connection: false, exchange.TransferEncoding: false, exchange.ContentLength: false, exchange.Host: false,
		exchange.ContentType: true, exchange.Cookie: true, exchange.Unknown: true,
	} {
		if Travels(id) != want {
			t.Errorf("field %d travels: %v", id, !want)
		}
	}
	if !Secret(exchange.Authorization) || Secret(exchange.ContentType) {
		t.Error("secrets are not told apart")
	}
}
