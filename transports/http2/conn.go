package http2

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/section"
)

// conn is what both ends of a connection share.
type conn struct {
	nc           net.Conn
	end          endpoint
	out          output
	limits       *exchange.Limits
	streamWindow int64 // receive windows that we give
	connWindow   int64
	writeTimeout time.Duration
	server       bool

	start time.Time
	clock atomic.Int64 // coarse time in nanoseconds since start, at least 1

	// The reader's own.
	in       input
	dec      decoder
	block    []byte // field block under way
	blockID  uint32 // its stream, 0 for none
	blockEnd bool   // with END_STREAM
	selfDep  bool   // its stream depends on itself
	budget   budget
	settled  bool // the peer's first SETTINGS have come
	added    bool // frames wait that the reader added

	partial    atomic.Int64 // coarse time since when a frame or field section is incomplete
	done       atomic.Int64 // streams that came to a proper end
	sentFrames atomic.Int64 // of DATA
	heard      atomic.Int64 // coarse time of the last frame; clients alone keep it

	recvWindow atomic.Int64 // what the peer may still send
	owed       atomic.Int64 // read and not yet given back

	mu         sync.Mutex
	streams    map[uint32]*stream
	queue      []*stream // waiting for the connection's window, in order
	sendWindow int64
	peerWindow int64 // initial window of a stream
	fatal      error // what the reader is to end for
	dead       error // why the connection ended; nil while it lives
	recent     recentStreams
	timer      *time.Timer
	period     time.Duration // between looks at the deadlines
	asleep     bool          // the timer is set for an idle connection
	work       sync.WaitGroup
	stuckWrite int64 // the write that was under way at the last look
	stuckSince int64

	tableCut atomic.Bool // the peer wants a smaller table: say so in the next block
}

// endpoint is the end that a connection belongs to.
type endpoint interface {
	// headers acts on a complete field section in block.
	headers(id uint32, block []byte, end, selfDep bool) error
	// idle tells whether that stream has not been opened yet. Under mu.
	idle(id uint32) bool
	// refuseBody answers a request whose body is at fault; false where it is too late.
	refuseBody(s *stream, r *exchange.Refusal) bool
	// tookData tells that DATA has been taken in.
	tookData()
	// bodyEnded tells that the peer has ended the body of s.
	bodyEnded(s *stream)
	// unlisted tells that s has left the streams. Under mu.
	unlisted(s *stream)
	// setting acts on a setting that means something to this end alone. Under mu.
	setting(id settingID, v uint32)
	settled()
	goAway(last uint32, code ErrCode, text string)
	pong(data []byte)
	// sweep looks at the deadlines, and gives the time until the next look.
	sweep() time.Duration
}

func (c *conn) init(nc net.Conn, end endpoint) {
	c.nc, c.end = nc, end
	c.start = time.Now()
	c.clock.Store(1)
	c.out.init(nc)
	c.in.init(nc)
	c.dec.allowed, c.dec.tab.max = defaultTableSize, defaultTableSize
	c.streams = make(map[uint32]*stream)
	c.sendWindow, c.peerWindow = initialWindow, initialWindow
	c.recvWindow.Store(c.connWindow)
	c.budget.init(c)
}

// tell brings the coarse clock up to date.
func (c *conn) tell() int64 {
	now := max(1, int64(time.Since(c.start)))
	c.clock.Store(now)
	return now
}

// arm starts the look at deadlines.
func (c *conn) arm() {
	c.mu.Lock()
	c.timer = time.AfterFunc(c.period, c.look)
	c.mu.Unlock()
}

// look is the timer's function: one goroutine at a time, for a moment.
func (c *conn) look() {
	if !c.hold() {
		return
	}
	defer c.work.Done()
	c.tell()
	c.checkWrite()
	next := c.end.sweep()
	c.mu.Lock()
	if c.dead == nil {
		c.asleep = next > c.period
		c.timer.Reset(next)
	}
	c.mu.Unlock()
}

// rouse sets the timer of an idle connection for work. Under mu.
func (c *conn) rouse() {
	if c.asleep {
		c.asleep = false
		c.tell()
		c.timer.Reset(c.period)
	}
}

// checkWrite ends the connection where one write has waited for too long.
func (c *conn) checkWrite() {
	now, n := c.clock.Load(), c.out.writes.Load()
	c.mu.Lock()
	if n&1 == 0 || n != c.stuckWrite {
		c.stuckWrite, c.stuckSince = n, now
	}
	stuck := c.writeTimeout > 0 && now-c.stuckSince > int64(c.writeTimeout)
	c.mu.Unlock()
	if stuck {
		c.out.fail(errWriteTimeout)
		c.nc.Close()
	}
}

// abort lets the reader end for err.
func (c *conn) abort(err error) {
	c.mu.Lock()
	if c.fatal == nil {
		c.fatal = err
	}
	c.mu.Unlock()
	c.nc.SetReadDeadline(time.Unix(1, 0))
}

// hold counts a goroutine that works for the connection; false once it ended.
func (c *conn) hold() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead != nil {
		return false
	}
	c.work.Add(1)
	return true
}

// flushSoon sends what the reader has added.
func (c *conn) flushSoon() {
	if c.added {
		c.added = false
		c.flushBeside()
	}
}

// flushBeside sends what waits from a goroutine of its own, for those who must not wait for the
// peer: the reader, and whoever cancels.
func (c *conn) flushBeside() {
	if c.out.pending.Load() && c.hold() {
		go func() {
			defer c.work.Done()
			c.out.flush()
		}()
	}
}

// lookup finds an open stream and takes a reference to it.
func (c *conn) lookup(id uint32) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.streams[id]
	if s != nil {
		s.refs.Add(1)
	}
	return s
}

// alive tells why nothing can be sent on s.
func (c *conn) alive(s *stream) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.err
}

// endLocal notes that we end s, and gives the code of the RST_STREAM that is to
// follow the answer to a malformed request, or noReset.
func (c *conn) endLocal(s *stream) (after ErrCode, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.err != nil:
		return noReset, s.err
	case s.localEnd:
		return noReset, errStreamClosed
	}
	s.localEnd = true
	if s.after == NoError {
		c.done.Add(1)
	}
	if !s.remoteEnd {
		return noReset, nil // the rest of the request is cut off once the handler has returned
	}
	c.unlist(s)
	if s.after == NoError {
		return noReset, nil
	}
	c.recent.add(s.id)
	return s.after, nil
}

// endRemote notes that the peer has ended s.
func (c *conn) endRemote(s *stream) {
	c.mu.Lock()
	s.remoteEnd = true
	if s.localEnd && s.after == NoError {
		c.unlist(s)
	}
	c.mu.Unlock()
}

// unlist takes s out of the open streams. Under mu.
func (c *conn) unlist(s *stream) {
	if s.closed {
		return
	}
	s.closed = true
	delete(c.streams, s.id)
	c.ungrant(s)
	c.end.unlisted(s)
}

// lose is kill for a reason that the owner of s does not know yet.
func (c *conn) lose(s *stream, err error, code ErrCode) {
	if c.kill(s, err, code) {
		s.own.lost(err)
	}
}

// kill lets s die of err; false where it is over already. With code other than noReset the
// peer is told, though nothing is flushed.
func (c *conn) kill(s *stream, err error, code ErrCode) bool {
	c.mu.Lock()
	if s.closed {
		c.mu.Unlock()
		return false
	}
	s.err = err
	if s.id == 0 {
		code = noReset // a call that has sent nothing
	}
	if code != noReset {
		c.recent.add(s.id)
		s.cut.Store(true)
	}
	c.unlist(s)
	s.wake.Broadcast()
	c.mu.Unlock()
	if code != noReset {
		// The connection's own error is told to whoever uses it next.
		_ = c.appendReset(s.id, code)
	}
	s.in.fail(err)
	return true
}

// noReset stands for: send no RST_STREAM.
const noReset = ^ErrCode(0)

func (c *conn) appendReset(id uint32, code ErrCode) error {
	return c.out.end(appendReset(c.out.begin(), id, code))
}

// appendHead writes HEADERS of what encode appends, cut into frames that the
// peer takes.
func (c *conn) appendHead(b []byte, id uint32, encode func([]byte) []byte, fin bool) []byte {
	flags := uint8(flagEndHeaders)
	if fin {
		flags |= flagEndStream
	}
	off := len(b)
	b = appendFrameHeader(b, 0, frameHeaders, flags, id)
	if c.tableCut.Load() && c.tableCut.CompareAndSwap(true, false) {
		b = section.AppendInteger(b, patternSize, 5, 0)
	}
	b = encode(b)
	n := len(b) - off - frameHeaderLen
	if n <= minMaxFrame {
		patchFrameLength(b, off, n)
		return b
	}
	block := append([]byte(nil), b[off+frameHeaderLen:]...)
	b = appendFrameHeader(b[:off], minMaxFrame, frameHeaders, flags&^flagEndHeaders, id)
	b = append(b, block[:minMaxFrame]...)
	for block = block[minMaxFrame:]; len(block) > 0; {
		n, flags := min(len(block), minMaxFrame), uint8(0)
		if n == len(block) {
			flags = flagEndHeaders
		}
		b = append(appendFrameHeader(b, n, frameContinuation, flags, id), block[:n]...)
		block = block[n:]
	}
	return b
}

// die ends every stream with err.
func (c *conn) die(err error) {
	c.mu.Lock()
	c.dead = err
	if c.timer != nil {
		c.timer.Stop()
	}
	list := make([]*stream, 0, len(c.streams))
	for _, s := range c.streams {
		s.refs.Add(1)
		list = append(list, s)
	}
	c.mu.Unlock()
	for _, s := range list {
		c.lose(s, err, noReset)
		s.unref()
	}
}
