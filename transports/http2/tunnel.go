package http2

// tunnel is the byte stream of an extended CONNECT (RFC 8441), of either end.
type tunnel struct{ s *stream }

// Read implements exchange.Tunnel.
func (t *tunnel) Read(p []byte) (int, error) { return t.s.in.Read(p) }

// Write implements exchange.Tunnel: every write is flushed.
func (t *tunnel) Write(p []byte) (int, error) {
	if err := t.s.sendData(p, false); err != nil {
		return 0, err
	}
	t.s.c.out.flush()
	return len(p), nil
}

// CloseWrite implements exchange.Tunnel.
func (t *tunnel) CloseWrite() error {
	err := t.s.sendData(nil, true)
	t.s.c.out.flush()
	return err
}

// Close implements exchange.Tunnel. Both ends at rest, it is only the end; else
// RST_STREAM.
func (t *tunnel) Close() error {
	if t.s.c.kill(t.s, errStreamClosed, Cancel) {
		t.s.c.out.flush()
	}
	return nil
}
