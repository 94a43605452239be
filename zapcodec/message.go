package zapcodec

import (
	"encoding/binary"
	"strconv"
)

// Message is a view of one message. The zero value is of no use; get one from
// Open. It aliases the frame.
type Message struct {
	b []byte // exactly the message
}

// Open checks the header of a framed message: the frame must be the message,
// the whole message and nothing after it.
func Open(frame []byte) (Message, error) {
	if !sound(frame) {
		return Message{}, openError(frame)
	}
	return Message{frame}, nil
}

// OpenFirst is Open for a message at the start of b that other bytes may
// follow; it returns them as rest.
func OpenFirst(b []byte) (m Message, rest []byte, err error) {
	h, err := ParseHeader(b)
	if err != nil {
		return Message{}, nil, err
	}
	if uint64(h.Size) > uint64(len(b)) {
		return Message{}, nil, openError(b)
	}
	return Message{b[:h.Size:h.Size]}, b[h.Size:], nil
}

// sound reports whether the frame's header is that of a message which fills
// the frame exactly.
func sound(frame []byte) bool {
	if len(frame) < HeaderLen {
		return false
	}
	first, second := binary.LittleEndian.Uint64(frame), binary.LittleEndian.Uint64(frame[8:])
	root := uint32(second)
	return (first-soundBase)&soundMask == 0 && second>>32 == uint64(len(frame)) &&
		root-HeaderLen < uint32(len(frame))-HeaderLen && root&7 == 0
}

// openError says why a frame is not sound.
func openError(frame []byte) error {
	h, err := ParseHeader(frame)
	switch {
	case err != nil:
		return err
	case uint64(h.Size) > uint64(len(frame)):
		return fail(errSize, 12, "size", strconv.FormatUint(uint64(h.Size), 10)+" is more than the "+strconv.Itoa(len(frame))+" bytes at hand")
	default:
		return fail(errTrailing, int(h.Size), "frame", strconv.Itoa(len(frame)-int(h.Size))+" bytes after the end of the message")
	}
}

// Header returns the message's header.
func (m Message) Header() Header {
	first, second := binary.LittleEndian.Uint64(m.b), binary.LittleEndian.Uint64(m.b[8:])
	return Header{
		Version: uint16(first >> 32), Flags: uint16(first >> 48),
		Root: uint32(second), Size: uint32(second >> 32),
	}
}

// Bytes returns the whole message.
func (m Message) Bytes() []byte { return m.b }

// Root returns the root object, whose fixed section is fixed bytes long.
func (m Message) Root(fixed int) (Object, error) {
	off := binary.LittleEndian.Uint32(m.b[8:])
	if fixed < 0 || uint64(off)+uint64(fixed) > uint64(len(m.b)) {
		return Object{}, fixedError("root", off, fixed, len(m.b))
	}
	return Object{msg: m.b, off: off}, nil
}

func fixedError(field string, off uint32, fixed, size int) error {
	return fail(errFixed, int(off), field, "a fixed section of "+strconv.Itoa(fixed)+" bytes does not fit into the message of "+strconv.Itoa(size))
}

// AppendMessage appends a message made of a header and all the bytes that
// follow it; the header's size may be 0 and is then filled in. It refuses what
// Open would refuse.
func AppendMessage(dst []byte, h Header, rest []byte) ([]byte, error) {
	size := HeaderLen + len(rest)
	if size > maxMessage {
		return nil, tooLargeToWrite(size)
	}
	if h.Size == 0 {
		h.Size = uint32(size)
	}
	start := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, magic|uint64(h.Version)<<32|uint64(h.Flags)<<48)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.Root)|uint64(h.Size)<<32)
	dst = append(dst, rest...)
	if !sound(dst[start:]) {
		return nil, openError(dst[start:])
	}
	return dst, nil
}
