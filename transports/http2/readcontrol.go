package http2

// readPriority ignores what RFC 9113 has deprecated, once it is well formed.
func (c *conn) readPriority(f frameHeader, p []byte) error {
	if f.stream == connectionStream {
		return connErr(ProtocolError, "PRIORITY on stream 0")
	}
	if err := c.budget.spend(1); err != nil {
		return err
	}
	if len(p) != priorityLen {
		return connErr(FrameSizeError, "PRIORITY is not of five bytes")
	}
	if be32(p)&^highBit != f.stream {
		return nil
	}
	if err := c.budget.spendReset(); err != nil {
		return err
	}
	if s := c.lookup(f.stream); s != nil {
		defer s.unref()
		c.added = true
		c.lose(s, &StreamError{Code: ProtocolError}, ProtocolError)
		return nil
	}
	return c.control(func(b []byte) []byte { return appendReset(b, f.stream, ProtocolError) })
}

func (c *conn) readReset(f frameHeader, p []byte) error {
	if f.stream == connectionStream {
		return connErr(ProtocolError, "RST_STREAM on stream 0")
	}
	if len(p) != resetLen {
		return connErr(FrameSizeError, "RST_STREAM is not of four bytes")
	}
	s := c.lookup(f.stream)
	if s == nil {
		c.mu.Lock()
		idle := c.end.idle(f.stream)
		c.mu.Unlock()
		if idle {
			return connErr(ProtocolError, "RST_STREAM on an idle stream")
		}
		return c.budget.spend(1)
	}
	defer s.unref()
	if err := c.budget.spendReset(); err != nil {
		return err
	}
	c.added = true
	c.lose(s, &StreamError{Code: ErrCode(be32(p)), Remote: true}, noReset)
	return nil
}

func (c *conn) readSettings(f frameHeader, p []byte) error {
	if f.stream != connectionStream {
		return connErr(ProtocolError, "SETTINGS on a stream")
	}
	if f.has(flagAck) {
		if len(p) > 0 {
			return connErr(FrameSizeError, "an acknowledgement of SETTINGS with a payload")
		}
		return c.budget.spend(1)
	}
	if len(p)%settingLen != 0 {
		return connErr(FrameSizeError, "SETTINGS is not of whole settings")
	}
	if err := c.budget.spend(1 + len(p)/settingLen/4); err != nil {
		return err
	}
	// The output stays locked, so that no frame that needs the new values goes before
	// their acknowledgement.
	var err error
	if e := c.control(func(b []byte) []byte {
		for ; len(p) > 0 && err == nil; p = p[settingLen:] {
			err = c.setting(settingID(uint16(p[0])<<8|uint16(p[1])), be32(p[2:]))
		}
		if err != nil {
			return b
		}
		return appendFrameHeader(b, 0, frameSettings, flagAck, connectionStream)
	}); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if !c.settled {
		c.settled = true
		c.end.settled()
	}
	return nil
}

// setting obeys one of the peer's settings (RFC 9113, section 6.5.2).
func (c *conn) setting(id settingID, v uint32) error {
	switch id {
	case settingHeaderTableSize:
		// Our encoder uses no table; a peer that wants less than the default waits
		// to hear that we know.
		if v < defaultTableSize {
			c.tableCut.Store(true)
		}
	case settingEnablePush:
		if v > 1 || v == 1 && !c.server {
			return connErr(ProtocolError, "SETTINGS_ENABLE_PUSH is not valid")
		}
	case settingInitialWindow:
		if v > maxWindow {
			return connErr(FlowControlError, "SETTINGS_INITIAL_WINDOW_SIZE is too large")
		}
		if !c.setPeerWindow(int64(v)) {
			return connErr(FlowControlError, "SETTINGS_INITIAL_WINDOW_SIZE makes a window too large")
		}
	case settingMaxFrameSize:
		// We never send more than the least that it may be.
		if v < minMaxFrame || v > maxMaxFrame {
			return connErr(ProtocolError, "SETTINGS_MAX_FRAME_SIZE is not valid")
		}
	case settingEnableConnect:
		if v > 1 {
			return connErr(ProtocolError, "SETTINGS_ENABLE_CONNECT_PROTOCOL is not valid")
		}
	}
	c.mu.Lock()
	c.end.setting(id, v)
	c.mu.Unlock()
	return nil
}

func (c *conn) readPing(f frameHeader, p []byte) error {
	if f.stream != connectionStream {
		return connErr(ProtocolError, "PING on a stream")
	}
	if len(p) != pingLen {
		return connErr(FrameSizeError, "PING is not of eight bytes")
	}
	if err := c.budget.spend(1); err != nil {
		return err
	}
	if f.has(flagAck) {
		c.end.pong(p)
		return nil
	}
	return c.control(func(b []byte) []byte { return appendPing(b, flagAck, p) })
}

func (c *conn) readGoAway(f frameHeader, p []byte) error {
	if f.stream != connectionStream {
		return connErr(ProtocolError, "GOAWAY on a stream")
	}
	if len(p) < goAwayLen {
		return connErr(FrameSizeError, "GOAWAY is too short")
	}
	if err := c.budget.spend(1); err != nil {
		return err
	}
	c.end.goAway(be32(p)&^highBit, ErrCode(be32(p[4:])), string(p[goAwayLen:min(len(p), goAwayLen+128)]))
	return nil
}

func (c *conn) readWindowUpdate(f frameHeader, p []byte) error {
	if len(p) != windowUpdateLen {
		return connErr(FrameSizeError, "WINDOW_UPDATE is not of four bytes")
	}
	if err := c.budget.spend(1); err != nil {
		return err
	}
	n := int64(be32(p) &^ highBit)
	if f.stream == connectionStream {
		if n == 0 {
			return connErr(ProtocolError, "WINDOW_UPDATE of nothing")
		}
		if !c.widen(nil, n) {
			return connErr(FlowControlError, "the connection's window is too large")
		}
		return nil
	}
	s := c.lookup(f.stream)
	if s == nil {
		c.mu.Lock()
		idle := c.end.idle(f.stream)
		c.mu.Unlock()
		if idle {
			return connErr(ProtocolError, "WINDOW_UPDATE on an idle stream")
		}
		return nil
	}
	defer s.unref()
	if n == 0 {
		c.fault(s, &StreamError{Code: ProtocolError}, ProtocolError)
	} else if !c.widen(s, n) {
		c.fault(s, &StreamError{Code: FlowControlError}, FlowControlError)
	}
	return nil
}
