package http2

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// outHigh is how much output waits at most before those who add to it wait for
	// the peer: eight full TLS records, which one system call takes.
	outHigh = 8 * minMaxFrame
	// outCap leaves room for one head beyond that, so that a buffer seldom grows.
	outCap = outHigh + minMaxFrame
	// maxControl is how many frames that the reader adds may wait; a peer that
	// makes us answer and does not read is cut off.
	maxControl = 1000
)

// corker is what a connection beneath TLS may offer: to keep what is written until
// Uncork, so that several records leave in one system call.
type corker interface {
	Cork()
	Uncork() error
}

type outBuf struct{ b []byte }

var outPool = sync.Pool{New: func() any { return &outBuf{b: make([]byte, 0, outCap)} }}

// output gathers the frames of a connection and sends them. Anyone may add
// frames under mu; who holds the token writes.
type output struct {
	nc   net.Conn
	cork corker

	mu      sync.Mutex
	buf     *outBuf // what waits; nil for nothing
	control int     // frames in buf that the reader added
	err     error   // of the connection; nothing is sent after it

	pending atomic.Bool // buf is not nil
	token   sync.Mutex
	writes  atomic.Int64 // begun and ended: odd while one is under way
}

func (o *output) init(nc net.Conn) {
	o.nc = nc
	under := nc
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		under = t.NetConn()
	}
	o.cork, _ = under.(corker)
}

// begin locks the output and gives the bytes to append to; end takes them back.
func (o *output) begin() []byte {
	o.mu.Lock()
	if o.buf == nil {
		o.buf = outPool.Get().(*outBuf)
	}
	return o.buf.b
}

func (o *output) end(b []byte) error {
	o.buf.b = b
	err := o.err
	if err != nil || len(b) == 0 {
		o.drop()
	} else if !o.pending.Load() {
		o.pending.Store(true)
	}
	o.mu.Unlock()
	return err
}

// drop forgets what waits.
func (o *output) drop() {
	if o.buf != nil {
		o.recycle(o.buf)
		o.buf = nil
	}
	o.control = 0
	o.pending.Store(false)
}

func (o *output) recycle(b *outBuf) {
	if cap(b.b) <= 2*outCap {
		b.b = b.b[:0]
		outPool.Put(b)
	}
}

// beginRoom is begin for n bytes; where much is waiting already, it waits for
// the peer first.
func (o *output) beginRoom(n int) []byte {
	b := o.begin()
	for len(b) > 0 && len(b)+n > outHigh && o.err == nil {
		// The error, if any, is told by the caller's end.
		_ = o.end(b)
		o.flushWait()
		b = o.begin()
	}
	return b
}

// data adds DATA frames, waiting for the peer where much is waiting already. It
// gives how much of p it took; less than all only with an error.
func (o *output) data(s *stream, p []byte, fin bool) (taken int, err error) {
	for {
		n := len(p)
		if n > minMaxFrame {
			n = recordPayload
		}
		b := o.beginRoom(frameHeaderLen + n)
		if s.cut.Load() { // RST_STREAM has gone before
			_ = o.end(b)
			return taken, errStreamClosed
		}
		if err := o.end(appendData(b, s.id, p[:n], fin && n == len(p))); err != nil {
			return taken, err
		}
		taken += n
		if p = p[n:]; len(p) == 0 {
			return taken, nil
		}
	}
}

func appendData(b []byte, id uint32, p []byte, fin bool) []byte {
	var flags uint8
	if fin {
		flags = flagEndStream
	}
	return append(appendFrameHeader(b, len(p), frameData, flags, id), p...)
}

// flush sends what waits, unless another is at it: that one will send it all. Before it
// writes it lets other goroutines run, whose frames then share the write.
func (o *output) flush() {
	for o.pending.Load() {
		if !o.token.TryLock() {
			return
		}
		runtime.Gosched()
		o.write()
		o.token.Unlock()
	}
}

// flushWait sends what waits and returns once it has been written.
func (o *output) flushWait() {
	o.token.Lock()
	o.write()
	o.token.Unlock()
	o.flush()
}

// write sends until nothing waits. The caller holds the token.
func (o *output) write() {
	for {
		o.mu.Lock()
		if o.buf == nil || o.err != nil {
			o.drop()
			o.mu.Unlock()
			return
		}
		b := o.buf
		o.buf, o.control = nil, 0
		o.pending.Store(false)
		o.mu.Unlock()
		o.writes.Add(1)
		err := o.send(b.b)
		o.writes.Add(1)
		o.recycle(b)
		if err != nil {
			o.fail(err)
		}
	}
}

func (o *output) send(b []byte) error {
	if o.cork == nil || len(b) <= minMaxFrame {
		_, err := o.nc.Write(b)
		return err
	}
	o.cork.Cork()
	_, err := o.nc.Write(b)
	if e := o.cork.Uncork(); err == nil {
		err = e
	}
	return err
}

// busy tells whether a write is under way.
func (o *output) busy() bool { return o.writes.Load()&1 == 1 }

// fail lets every later frame be refused with err.
func (o *output) fail(err error) {
	o.mu.Lock()
	if o.err == nil {
		o.err = err
	}
	o.drop()
	o.mu.Unlock()
}
