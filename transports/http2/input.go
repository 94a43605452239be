package http2

import (
	"io"
	"net"
	"sync"
)

const (
	// bigInput holds the largest frame that we accept, and what a TLS record brings.
	bigInput = 2 * minMaxFrame
	// smallInput is what a connection reads into while little comes: it is all
	// that an idle one keeps.
	smallInput = 512
)

var inputPool = sync.Pool{New: func() any { return new([bigInput]byte) }}

// input is the reader's buffer.
type input struct {
	nc    net.Conn
	b     []byte // small or big
	r, w  int
	small [smallInput]byte
	big   *[bigInput]byte
	busy  bool // the last read brought much
	first []byte
}

func (in *input) init(nc net.Conn) {
	in.nc = nc
	in.b = in.small[:]
}

func (in *input) buffered() []byte { return in.b[in.r:in.w] }

// fill reads more, with room for n bytes from the read position on.
func (in *input) fill(n int) error {
	in.makeRoom(n)
	var got int
	var err error
	if len(in.first) > 0 {
		got = copy(in.b[in.w:], in.first)
		if in.first = in.first[got:]; len(in.first) == 0 {
			in.first = nil
		}
	} else {
		got, err = in.nc.Read(in.b[in.w:])
	}
	in.busy = got >= smallInput
	in.w += got
	if got > 0 {
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// makeRoom chooses the buffer and moves what is unread to its front.
func (in *input) makeRoom(n int) {
	unread := in.b[in.r:in.w]
	switch {
	case len(unread) == 0 && !in.busy && n <= smallInput:
		in.releaseBig()
	case in.big == nil && (in.busy || n > smallInput):
		in.big = inputPool.Get().(*[bigInput]byte)
		in.b = in.big[:]
	case len(unread) > 0 && len(in.b)-in.r >= max(n, len(unread)+1):
		return
	}
	in.w = copy(in.b, unread)
	in.r = 0
}

func (in *input) releaseBig() {
	if in.big != nil {
		inputPool.Put(in.big)
		in.big = nil
	}
	in.b = in.small[:]
}
