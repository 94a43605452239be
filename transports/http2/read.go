package http2

import (
	"errors"
	"io"

	"github.com/hanzoai/pqgw/exchange"
)

// peek gives the next n bytes, reading until they are there. Before it waits, what
// the reader has left to be sent is passed on.
func (c *conn) peek(n int) ([]byte, error) {
	for c.in.w-c.in.r < n {
		c.flushSoon()
		if err := c.in.fill(n); err != nil {
			if errors.Is(err, io.EOF) && c.in.w > c.in.r {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return c.in.b[c.in.r : c.in.r+n], nil
}

// readFrame reads one frame and acts on it.
func (c *conn) readFrame() error {
	b, err := c.peek(frameHeaderLen)
	if err != nil {
		return err
	}
	f := parseFrameHeader(b)
	switch {
	case f.length > minMaxFrame:
		return connErr(FrameSizeError, "a frame is larger than SETTINGS_MAX_FRAME_SIZE")
	case !c.settled && f.typ != frameSettings:
		return connErr(ProtocolError, "the first frame is not SETTINGS")
	case c.blockID != 0 && (f.typ != frameContinuation || f.stream != c.blockID):
		return connErr(ProtocolError, "a field section is interrupted by another frame")
	case f.typ == frameData:
		c.in.r += frameHeaderLen
		return c.readData(f)
	}
	c.startPartial(f)
	b, err = c.peek(frameHeaderLen + f.length)
	if err != nil {
		return err
	}
	c.in.r += frameHeaderLen + f.length
	err = c.frame(f, b[frameHeaderLen:])
	c.endPartial()
	return err
}

// startPartial notes the time where a frame has begun and not all of it has come:
// heads must not trickle.
func (c *conn) startPartial(f frameHeader) {
	if c.in.w-c.in.r < frameHeaderLen+f.length {
		c.notePartial()
	}
}

func (c *conn) notePartial() {
	if c.partial.Load() != 0 {
		return
	}
	c.mu.Lock()
	c.rouse()
	c.mu.Unlock()
	c.partial.Store(c.clock.Load())
}

func (c *conn) endPartial() {
	if c.blockID != 0 {
		c.notePartial()
	} else if c.partial.Load() != 0 {
		c.partial.Store(0)
	}
}

// frame acts on a complete frame other than DATA.
func (c *conn) frame(f frameHeader, p []byte) error {
	switch f.typ {
	case frameHeaders:
		return c.readHeaders(f, p)
	case frameContinuation:
		return c.readContinuation(f, p)
	case framePriority:
		return c.readPriority(f, p)
	case frameReset:
		return c.readReset(f, p)
	case frameSettings:
		return c.readSettings(f, p)
	case framePing:
		return c.readPing(f, p)
	case frameGoAway:
		return c.readGoAway(f, p)
	case frameWindowUpdate:
		return c.readWindowUpdate(f, p)
	case framePushPromise:
		return connErr(ProtocolError, "PUSH_PROMISE, which was not allowed")
	}
	return c.budget.spend(1) // unknown types are ignored
}

// readData takes in a DATA frame, piece by piece as it comes.
func (c *conn) readData(f frameHeader) error {
	if f.stream == connectionStream {
		return connErr(ProtocolError, "DATA on stream 0")
	}
	if c.recvWindow.Add(-int64(f.length)) < 0 {
		return connErr(FlowControlError, "more DATA than the connection's window")
	}
	pad, n, err := c.readPadLength(f)
	if err != nil {
		return err
	}
	s := c.lookup(f.stream)
	if s == nil {
		return c.discardData(f, n+pad)
	}
	defer s.unref()
	if s.remoteEnd || s.headless {
		code := StreamClosed
		if s.headless {
			code = ProtocolError
		}
		c.fault(s, &StreamError{Code: code}, code)
		return c.skip(n+pad, f.length)
	}
	if !s.in.take(f.length, f.length-n) {
		c.fault(s, &StreamError{Code: FlowControlError}, FlowControlError)
		return c.skip(n+pad, f.length)
	}
	if f.length > n {
		c.giveBack(f.length - n)
	}
	if n == 0 && !f.has(flagEndStream) {
		if err := c.budget.spend(1); err != nil {
			return err
		}
	}
	if err := c.readBody(s, n); err != nil {
		return err
	}
	if err := c.skip(pad, 0); err != nil {
		return err
	}
	if f.has(flagEndStream) {
		c.bodyEnd(s)
	}
	c.end.tookData()
	return nil
}

// readPadLength reads the length of the padding, and gives that of the data.
func (c *conn) readPadLength(f frameHeader) (pad, n int, err error) {
	if !f.has(flagPadded) {
		return 0, f.length, nil
	}
	if f.length == 0 {
		return 0, 0, connErr(FrameSizeError, "a padded frame without the length of the padding")
	}
	b, err := c.peek(1)
	if err != nil {
		return 0, 0, err
	}
	pad = int(b[0])
	c.in.r++
	if pad > f.length-1 {
		return 0, 0, connErr(ProtocolError, "padding is longer than its frame")
	}
	return pad, f.length - 1 - pad, nil
}

// readBody hands n bytes to the stream.
func (c *conn) readBody(s *stream, n int) error {
	if n > 0 {
		s.active.Store(c.clock.Load())
	}
	for n > 0 {
		if _, err := c.peek(1); err != nil {
			return err
		}
		p := c.in.buffered()
		p = p[:min(n, len(p))]
		c.in.r += len(p)
		n -= len(p)
		kept, err := s.in.write(p)
		if !kept {
			c.giveBack(len(p))
		}
		if err != nil {
			c.fault(s, err, ProtocolError)
		}
	}
	return nil
}

// bodyEnd notes END_STREAM.
func (c *conn) bodyEnd(s *stream) {
	if err := s.in.finish(); err != nil {
		c.fault(s, err, ProtocolError)
		return
	}
	c.endRemote(s)
	c.end.bodyEnded(s)
}

// discardData throws the rest of a DATA frame away that belongs to no open stream.
func (c *conn) discardData(f frameHeader, rest int) error {
	c.mu.Lock()
	idle, recent := c.end.idle(f.stream), c.recent.has(f.stream)
	c.mu.Unlock()
	if idle {
		return connErr(ProtocolError, "DATA on an idle stream")
	}
	if !recent {
		if err := c.budget.spendReset(); err != nil {
			return err
		}
		if err := c.control(func(b []byte) []byte { return appendReset(b, f.stream, StreamClosed) }); err != nil {
			return err
		}
	}
	return c.skip(rest, f.length)
}

// skip throws n bytes away and gives credit back to the connection.
func (c *conn) skip(n, credit int) error {
	if credit > 0 {
		c.giveBack(credit)
	}
	for n > 0 {
		if _, err := c.peek(1); err != nil {
			return err
		}
		have := min(n, len(c.in.buffered()))
		c.in.r += have
		n -= have
	}
	return nil
}

// giveBack returns credit for what the reader throws away.
func (c *conn) giveBack(n int) {
	if c.credit(0, 0, n) {
		c.added = true
	}
}

// fault ends a stream for a fault of the peer's. What that costs the peer is
// noted by readers that can fail: see budget.
func (c *conn) fault(s *stream, err error, code ErrCode) {
	c.budget.resets++
	c.added = true
	var r *exchange.Refusal
	if errors.As(err, &r) && c.end.refuseBody(s, r) {
		return
	}
	c.lose(s, err, code)
}

// control adds a frame on behalf of the reader.
func (c *conn) control(add func([]byte) []byte) error {
	c.added = true
	b := c.out.begin()
	c.out.control++
	over := c.out.control > maxControl
	if err := c.out.end(add(b)); err != nil {
		return err
	}
	if over {
		return connErr(EnhanceYourCalm, "too many frames wait to be answered")
	}
	return nil
}

// readHeaders begins a field section.
func (c *conn) readHeaders(f frameHeader, p []byte) error {
	if f.stream == connectionStream {
		return connErr(ProtocolError, "HEADERS on stream 0")
	}
	if f.has(flagPadded) {
		if len(p) == 0 || int(p[0]) > len(p)-1 {
			return connErr(ProtocolError, "padding is longer than its frame")
		}
		p = p[1 : len(p)-int(p[0])]
	}
	c.selfDep = false
	if f.has(flagPriority) {
		if len(p) < priorityLen {
			return connErr(FrameSizeError, "HEADERS is too short for its priority")
		}
		c.selfDep = be32(p)&^highBit == f.stream
		p = p[priorityLen:]
	}
	c.blockEnd = f.has(flagEndStream)
	if f.has(flagEndHeaders) {
		return c.end.headers(f.stream, p, c.blockEnd, c.selfDep)
	}
	c.blockID = f.stream
	c.block = append(c.block[:0], p...)
	return nil
}

// maxBlock bounds a field section as it is sent. A head within the limits is never
// longer than it is decoded, but for a few bytes per field.
func (c *conn) maxBlock() int { return 2*c.limits.HeadBytes + minMaxFrame }

// readContinuation goes on with a field section.
func (c *conn) readContinuation(f frameHeader, p []byte) error {
	if c.blockID == 0 {
		return connErr(ProtocolError, "CONTINUATION without HEADERS")
	}
	if err := c.budget.spend(4); err != nil {
		return err
	}
	if len(c.block)+len(p) > c.maxBlock() {
		return connErr(EnhanceYourCalm, exchange.RefuseHeadSize.Text)
	}
	c.block = append(c.block, p...)
	if !f.has(flagEndHeaders) {
		return nil
	}
	c.blockID = 0
	block := c.block
	if cap(block) > minMaxFrame {
		c.block = nil
	}
	return c.end.headers(f.stream, block, c.blockEnd, c.selfDep)
}
