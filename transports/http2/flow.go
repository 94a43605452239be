package http2

// reserve takes up to want bytes from the windows of s and of the connection,
// waiting while there is nothing to take. It flushes before it waits. Taking
// nothing for an empty frame never waits.
func (c *conn) reserve(s *stream, want int) (int, error) {
	n, err := c.tryReserve(s, want)
	if n > 0 || err != nil || want == 0 {
		return n, err
	}
	c.out.flush()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if s.err != nil {
			c.ungrant(s)
			return 0, s.err
		}
		if n := c.taken(s, want); n > 0 {
			return n, nil
		}
		if s.blocked == 0 {
			s.blocked = c.clock.Load()
		}
		if s.window > 0 && !s.queued {
			s.queued, s.want = true, int64(want)
			c.queue = append(c.queue, s)
		}
		s.wake.Wait()
	}
}

// tryReserve is reserve without waiting.
func (c *conn) tryReserve(s *stream, want int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	return c.taken(s, want), nil
}

// taken takes what a waiting stream was granted, or what there is while nobody waits.
func (c *conn) taken(s *stream, want int) int {
	n := s.granted
	s.granted = 0
	if n == 0 && len(c.queue) == 0 {
		n = max(0, min(int64(want), s.window, c.sendWindow))
		s.window -= n
		c.sendWindow -= n
	}
	if n > 0 {
		s.blocked = 0
	}
	return int(n)
}

// grant hands the connection's window to the streams that wait for it, in the
// order in which they came.
func (c *conn) grant() {
	for len(c.queue) > 0 && c.sendWindow > 0 {
		s := c.queue[0]
		c.dequeue(s)
		if s.err == nil {
			s.granted = max(0, min(s.want, s.window, c.sendWindow, outHigh))
			s.window -= s.granted
			c.sendWindow -= s.granted
		}
		s.wake.Signal()
	}
}

func (c *conn) dequeue(s *stream) {
	for i, q := range c.queue {
		if q == s {
			c.queue = append(c.queue[:i], c.queue[i+1:]...)
			c.queue[:len(c.queue)+1][len(c.queue)] = nil
			break
		}
	}
	s.queued = false
}

// ungrant takes a stream that will send no more out of the queue, and passes on what it
// was granted.
func (c *conn) ungrant(s *stream) {
	if s.queued {
		c.dequeue(s)
	}
	if s.granted > 0 {
		c.sendWindow += s.granted
		s.granted = 0
		c.grant()
	}
}

// unreserve gives back what was taken of the connection's window for a stream that
// has died since.
func (c *conn) unreserve(n int) {
	if n <= 0 {
		return
	}
	c.mu.Lock()
	c.sendWindow += int64(n)
	c.grant()
	c.mu.Unlock()
}

// widen adds to the window of s, or of the connection where s is nil; false
// where that is more than a window may be (RFC 9113, section 6.9.1).
func (c *conn) widen(s *stream, n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s == nil {
		c.sendWindow += n
		c.grant()
		return c.sendWindow <= maxWindow
	}
	s.window += n
	if s.window > 0 {
		s.wake.Signal()
	}
	return s.window <= maxWindow
}

// setPeerWindow changes the initial window of the peer's streams, and that of those
// that are open; false where one becomes too large.
func (c *conn) setPeerWindow(n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	delta := n - c.peerWindow
	c.peerWindow = n
	for _, s := range c.streams {
		s.window += delta
		if s.window > maxWindow {
			return false
		}
		if s.window > 0 {
			s.wake.Signal()
		}
	}
	return true
}

// credit gives back what was received and is no longer held: on the stream
// give, and n on the connection, there half a window at a time. It tells
// whether a frame waits to be sent.
func (c *conn) credit(id uint32, give uint32, n int) bool {
	whole := int64(0)
	if n > 0 && c.owed.Add(int64(n)) >= c.connWindow/2 {
		whole = c.owed.Swap(0)
	}
	if whole == 0 && give == 0 {
		return false
	}
	c.recvWindow.Add(whole)
	b := c.out.begin()
	if whole > 0 {
		b = appendWindowUpdate(b, connectionStream, uint32(whole))
	}
	if give > 0 {
		b = appendWindowUpdate(b, id, give)
	}
	return c.out.end(b) == nil
}
