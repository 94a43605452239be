package http3

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
	"github.com/hanzoai/pqgw/transports/section"
)

// Settings (RFC 9114, section 7.2.4.1; RFC 9204, section 5; RFC 9220, section 5).
const (
	settingMaxSection    = 0x6
	settingEnableConnect = 0x8
)

// maxSettings bounds the SETTINGS frame that we read.
const maxSettings = 4 << 10

// appendSettings writes our SETTINGS. Without the settings of QPACK the peer may
// use no dynamic table.
func appendSettings(b []byte, lim *exchange.Limits, server bool) []byte {
	var room [32]byte
	p := quicvarint.Append(append(room[:0], settingMaxSection), sectionSize(lim))
	if server {
		p = append(p, settingEnableConnect, 1)
	}
	return append(appendFrameHeader(b, frameSettings, int64(len(p))), p...)
}

// sectionSize is our limit on heads as HTTP/3 counts it, which is 32 bytes a
// field where HTTP/1 takes four.
func sectionSize(lim *exchange.Limits) uint64 {
	if lim.HeadBytes <= 0 {
		return 1<<62 - 1
	}
	return uint64(lim.HeadBytes + (entryOverhead-section.FieldOverhead)*lim.Fields)
}

// settings are the peer's that mean something to us.
type settings struct {
	maxSection uint64
	connect    bool
}

// readSettings takes a SETTINGS frame's payload apart.
func readSettings(p []byte) (s settings, err error) {
	s.maxSection = 1<<62 - 1
	seen := make(map[uint64]struct{}, 8)
	for len(p) > 0 {
		id, n, err := quicvarint.Parse(p)
		if err != nil {
			return s, connErr(FrameError, "SETTINGS ends within a setting")
		}
		v, m, err := quicvarint.Parse(p[n:])
		if err != nil {
			return s, connErr(FrameError, "SETTINGS ends within a setting")
		}
		p = p[n+m:]
		if _, twice := seen[id]; twice {
			return s, connErr(SettingsError, "a setting is given twice")
		}
		seen[id] = struct{}{}
		switch {
		case id >= 0x2 && id <= 0x5:
			return s, connErr(SettingsError, "a setting of HTTP/2")
		case id == settingMaxSection:
			s.maxSection = v
		case id == settingEnableConnect && v > 1:
			return s, connErr(SettingsError, "ENABLE_CONNECT_PROTOCOL is neither 0 nor 1")
		case id == settingEnableConnect:
			s.connect = v == 1
		}
	}
	return s, nil
}

// peerStreams notes which of its unidirectional streams the peer has opened.
type peerStreams struct{ control, encoder, decoder atomic.Bool }

// acceptUni reads the client's unidirectional streams until the connection ends.
func (c *Conn) acceptUni() {
	for {
		str, err := c.qc.AcceptUniStream(context.Background())
		if err != nil {
			return
		}
		c.work.Go(func() {
			if err := c.peer.read(str, true, c.controlFrame); err != nil {
				c.fail(err)
			}
		})
	}
}

// controlFrame acts on a frame of the client's control stream. Priorities and pushes,
// which we do not offer, mean nothing to us.
func (c *Conn) controlFrame(frame uint64, _ []byte) error {
	if frame == framePushPromise {
		return connErr(FrameUnexpected, "PUSH_PROMISE from a client")
	}
	return nil
}

// read reads one unidirectional stream (RFC 9114, section 6.2). handle is given
// the frames of the control stream; frames that are longer than settings may
// be without their payload. The error ends the connection.
func (ps *peerStreams) read(str *quic.ReceiveStream, server bool, handle func(frame uint64, payload []byte) error) error {
	// It waits for as long as the connection lasts, mostly for nothing.
	r := reader{str: str, buf: &buffer.Buffer{B: make([]byte, 64)}}
	defer r.free()
	kind, err := r.integer()
	if err != nil {
		return nil // the stream or the connection ended: no type, no harm
	}
	switch kind {
	case streamControl:
		if ps.control.Swap(true) {
			return connErr(StreamCreationError, "a second control stream")
		}
		return readControl(&r, handle)
	case streamQPACKEncoder, streamQPACKDecoder:
		seen := &ps.encoder
		if kind == streamQPACKDecoder {
			seen = &ps.decoder
		}
		if seen.Swap(true) {
			return connErr(StreamCreationError, "a second QPACK stream")
		}
		// Without a dynamic table nothing of meaning can come, and flow control bounds the rest.
		return nil
	case streamPush:
		if server {
			return connErr(StreamCreationError, "a push stream from a client")
		}
		return connErr(IDError, "a push that was not allowed")
	}
	str.CancelRead(quic.StreamErrorCode(StreamCreationError))
	str.ReleaseStreamCredit()
	return nil
}

// readControl reads the peer's control stream until the connection ends.
func readControl(r *reader, handle func(frame uint64, payload []byte) error) error {
	first := true
	for {
		frame, n, err := r.header()
		if err != nil {
			return controlEnd(err)
		}
		if first != (frame == frameSettings) {
			if first {
				return connErr(MissingSettings, "the control stream does not begin with SETTINGS")
			}
			return connErr(FrameUnexpected, "SETTINGS twice")
		}
		first = false
		if frame == frameData || frame == frameHeaders || fromHTTP2(frame) {
			return connErr(FrameUnexpected, "a frame of request streams on the control stream")
		}
		if n > maxSettings {
			if frame <= frameMaxPushID {
				return connErr(ExcessiveLoad, "a frame on the control stream is too long")
			}
			if err := r.skip(n); err != nil {
				return controlEnd(err)
			}
			continue
		}
		payload, err := r.payload(int(n))
		if err != nil {
			return controlEnd(err)
		}
		if frame == frameSettings {
			if _, err := readSettings(payload); err != nil {
				return err
			}
		}
		if err := handle(frame, payload); err != nil {
			return err
		}
	}
}

// controlEnd is what the end of a control stream means: it must not end before
// the connection does (RFC 9114, section 6.2.1).
func controlEnd(err error) error {
	switch e := fromQUIC(err).(type) { //nolint:errorlint // fromQUIC gives these themselves
	case *StreamError:
		return connErr(ClosedCriticalStream, "the control stream was reset")
	case *ConnError:
		return nil
	default:
		if e == io.EOF || e == errTruncated { //nolint:errorlint // values of our own
			return connErr(ClosedCriticalStream, "the control stream ended")
		}
	}
	return nil
}
