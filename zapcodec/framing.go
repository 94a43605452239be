package zapcodec

import (
	"encoding/binary"
	"strconv"
)

// DefaultLimit is the most bytes of one message that readers take unless told
// otherwise: 64 MiB.
const DefaultLimit = 64 << 20

// Framing is a way to put messages on a byte stream: a length before each,
// and a tag on some.
type Framing uint8

const (
	// FramingHTTP is HTTP over ZAP on TCP, TLS, unix sockets and QUIC: the
	// length of the message, big-endian.
	FramingHTTP Framing = iota
	// FramingRPC is RPC on TCP, TLS and unix sockets: a little-endian length
	// that counts the direction byte after it (one of the Direction
	// constants).
	FramingRPC
	// FramingRPCOpen begins a QUIC stream of RPC: a little-endian length that
	// counts the tag byte after it (TagCall or TagStream).
	FramingRPCOpen
	// FramingRPCNext is what follows on a QUIC stream of RPC, both ways: a
	// little-endian length, then a reply or a stream message.
	FramingRPCNext
)

// Directions of FramingRPC.
const (
	DirectionRequest       = 1
	DirectionResponse      = 2
	DirectionStreamOpen    = 3 // a request envelope whose promise becomes the stream's id
	DirectionStreamMessage = 4 // id u32, then bytes
	DirectionStreamEnd     = 5 // id u32, then bytes
)

// Tags of FramingRPCOpen.
const (
	TagCall   = 1
	TagStream = 2
)

// Frame is what a framing carries.
type Frame struct {
	Tag   byte // direction or tag; 0 where the framing has none
	Bytes []byte
}

// PrefixLen is the number of bytes before the message: length and tag.
func (f Framing) PrefixLen() int {
	if f == FramingRPC || f == FramingRPCOpen {
		return prefixLen + 1
	}
	return prefixLen
}

// lastTag is the highest tag of the framing, 0 where it has none.
func (f Framing) lastTag() byte {
	switch f {
	case FramingRPC:
		return DirectionStreamEnd
	case FramingRPCOpen:
		return TagStream
	}
	return 0
}

// carriesMessage reports whether the bytes behind the tag are a message, not
// a stream's own bytes.
func (f Framing) carriesMessage(tag byte) bool {
	return f != FramingRPCNext && (f != FramingRPC || tag <= DirectionStreamOpen)
}

// Next looks at the bytes at hand of a stream, which begin with a frame, and
// tells how long that frame is, prefix included: call it again with more bytes
// when n is 0 or more than there are. It never waits and keeps nothing, so it
// serves readers that do not block. A frame that cannot be right is refused as
// early as its bytes show it: over limit (DefaultLimit when 0) by the prefix
// alone, no ZAP message by its first 16 bytes.
func (f Framing) Next(b []byte, limit int) (n int, err error) {
	prefix := f.PrefixLen()
	if len(b) < prefixLen {
		return 0, nil
	}
	size, err := f.size(b, limit)
	if err != nil {
		return 0, err
	}
	if len(b) < prefix {
		return 0, nil
	}
	var tag byte
	if prefix > prefixLen {
		tag = b[prefixLen]
	}
	if err := f.checkTag(tag, size); err != nil {
		return 0, err
	}
	if f.carriesMessage(tag) && len(b) >= prefix+HeaderLen {
		if err := checkAnnounced(b[prefix:], size); err != nil {
			return 0, err
		}
	}
	return prefix + size, nil
}

// Cut splits the frame that Next found whole at the start of b: b must hold
// its n bytes.
func (f Framing) Cut(b []byte, n int) (frame Frame, rest []byte) {
	prefix := f.PrefixLen()
	if prefix > prefixLen {
		frame.Tag = b[prefixLen]
	}
	frame.Bytes = b[prefix:n:n]
	return frame, b[n:]
}

// size reads the length of the message without its tag, and holds it against
// the limit.
func (f Framing) size(b []byte, limit int) (int, error) {
	n := binary.LittleEndian.Uint32(b)
	if f == FramingHTTP {
		n = binary.BigEndian.Uint32(b)
	}
	if limit <= 0 {
		limit = DefaultLimit
	}
	if f.lastTag() != 0 {
		if n == 0 {
			return 0, fail(errShort, -prefixLen, "length", "0 leaves no room for the tag")
		}
		n--
	}
	if uint64(n) > uint64(limit) {
		return 0, fail(errTooLarge, -f.PrefixLen(), "length", strconv.FormatUint(uint64(n), 10)+" is over the limit of "+strconv.Itoa(limit)+" bytes")
	}
	return int(n), nil
}

// checkTag refuses unknown tags, and lengths too short for what the tag says.
func (f Framing) checkTag(tag byte, size int) error {
	if last := f.lastTag(); last != 0 && (tag == 0 || tag > last) {
		return fail(errTag, -1, "tag", strconv.Itoa(int(tag))+" is not in 1.."+strconv.Itoa(int(last)))
	}
	least := 0
	switch {
	case f.carriesMessage(tag):
		least = HeaderLen
	case f == FramingRPC:
		least = streamIDLen
	}
	if size < least {
		return fail(errShort, -f.PrefixLen(), "length", strconv.Itoa(size)+" bytes are fewer than the "+strconv.Itoa(least)+" that must follow")
	}
	return nil
}

// checkAnnounced holds a message's header against the length before it.
func checkAnnounced(header []byte, size int) error {
	h, err := ParseHeader(header)
	switch {
	case err != nil:
		return err
	case uint64(h.Size) > uint64(size):
		return fail(errSize, 12, "size", strconv.FormatUint(uint64(h.Size), 10)+" is more than the "+strconv.Itoa(size)+" bytes announced")
	case uint64(h.Size) < uint64(size):
		return fail(errTrailing, int(h.Size), "frame", strconv.Itoa(size-int(h.Size))+" bytes after the end of the message")
	}
	return nil
}

// AppendPrefix appends what goes before a message of n bytes: its length and,
// where the framing has one, its tag.
func (f Framing) AppendPrefix(dst []byte, tag byte, n int) ([]byte, error) {
	if n < 0 || n > maxMessage {
		return nil, tooLargeToWrite(n)
	}
	if err := f.checkTag(tag, n); err != nil {
		return nil, err
	}
	switch f {
	case FramingHTTP:
		return binary.BigEndian.AppendUint32(dst, uint32(n)), nil
	case FramingRPCNext:
		return binary.LittleEndian.AppendUint32(dst, uint32(n)), nil
	}
	return append(binary.LittleEndian.AppendUint32(dst, uint32(n)+1), tag), nil
}

// streamIDLen is the length of the id before the bytes of a stream message.
const streamIDLen = 4

// AppendStreamFrame appends a whole frame of FramingRPC for the stream id:
// direction is DirectionStreamMessage or DirectionStreamEnd.
func AppendStreamFrame(dst []byte, direction byte, id uint32, payload []byte) ([]byte, error) {
	if direction != DirectionStreamMessage && direction != DirectionStreamEnd {
		return nil, fail(errTag, -1, "tag", strconv.Itoa(int(direction))+" is no direction of a stream's own bytes")
	}
	dst, err := FramingRPC.AppendPrefix(dst, direction, streamIDLen+len(payload))
	if err != nil {
		return nil, err
	}
	return append(binary.LittleEndian.AppendUint32(dst, id), payload...), nil
}

// ParseStreamFrame splits the bytes of a DirectionStreamMessage or
// DirectionStreamEnd into the stream's id and what is its own.
func ParseStreamFrame(b []byte) (id uint32, payload []byte, err error) {
	if len(b) < streamIDLen {
		return 0, nil, fail(errShort, 0, "stream id", strconv.Itoa(len(b))+" bytes hold no id")
	}
	return binary.LittleEndian.Uint32(b), b[streamIDLen:], nil
}
