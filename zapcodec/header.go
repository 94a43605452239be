package zapcodec

import (
	"encoding/binary"
	"strconv"
)

// HeaderLen is the length in bytes of the header of every message.
const HeaderLen = 16

// Versions of the message header. Readers take both; HTTP frames and plain
// messages are written as Version1, RPC envelopes as Version2.
const (
	Version1 = 1
	Version2 = 2
)

// Message types, the high byte of the header's flags.
const (
	TypePlain        = 0   // a message of an application's own
	TypeRequest      = 1   // HTTP request
	TypeResponse     = 2   // HTTP response
	TypeResponseHead = 3   // HTTP response whose body follows in data frames
	TypeData         = 4   // a piece of a body
	TypeEnd          = 5   // end of a body, with its trailers
	TypeRequestHead  = 6   // extension: HTTP request whose body follows in data frames
	TypeRPC          = 200 // RPC envelope
)

// Bits of the low byte of the header's flags.
const (
	flagCompressed = 0x0001
	flagEncrypted  = 0x0002
	flagSigned     = 0x0004
	flagsRefused   = flagCompressed | flagEncrypted | flagSigned

	// FlagExtended says that the sender understands the streamed request
	// (type 6, then data frames and an end).
	FlagExtended = 0x0080
)

// magic is the first four bytes of every message, as a little-endian integer.
const magic = 'Z' | 'A'<<8 | 'P'<<16

// Header is the header of a message.
type Header struct {
	Version uint16
	Flags   uint16 // message type in the high byte, flag bits in the low one
	Root    uint32 // offset in bytes of the root object from the message's start
	Size    uint32 // bytes of the whole message, header included
}

// Type returns the message type.
func (h Header) Type() byte { return byte(h.Flags >> 8) }

// Extended reports whether the sender understands the streamed request.
func (h Header) Extended() bool { return h.Flags&FlagExtended != 0 }

// A first word w is sound when (w - soundBase) & soundMask is 0: the magic is
// right, the version 1 or 2, and no refused flag is set.
const (
	soundBase = magic | Version1<<32
	soundMask = 0x0000_fffe_ffff_ffff | uint64(flagsRefused)<<48
)

// ParseHeader reads and checks a header from the first bytes of a message,
// without regard to how many bytes follow it.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderLen {
		return Header{}, fail(errShort, 0, "header", strconv.Itoa(len(b))+" bytes, fewer than the 16 of the header")
	}
	first, second := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	h := Header{
		Version: uint16(first >> 32), Flags: uint16(first >> 48),
		Root: uint32(second), Size: uint32(second >> 32),
	}
	if (first-soundBase)&soundMask != 0 || h.Size < HeaderLen || h.Root < HeaderLen || h.Root >= h.Size || h.Root&7 != 0 {
		return Header{}, headerError(h, uint32(first))
	}
	return h, nil
}

// headerError says which rule the header breaks.
func headerError(h Header, m uint32) error {
	switch {
	case m != magic:
		return fail(errMagic, 0, "magic", "0x"+strconv.FormatUint(uint64(m), 16)+" is not that of ZAP; does the peer speak another protocol?")
	case h.Version != Version1 && h.Version != Version2:
		return fail(errVersion, 4, "version", strconv.Itoa(int(h.Version))+" is neither 1 nor 2")
	case h.Flags&flagsRefused != 0:
		return fail(errFlags, 6, "flags", "0x"+strconv.FormatUint(uint64(h.Flags), 16)+" asks for compression, encryption or a signature")
	case h.Size < HeaderLen:
		return fail(errSize, 12, "size", strconv.Itoa(int(h.Size))+" is less than the header")
	case h.Root < HeaderLen:
		return fail(errRoot, 8, "root", strconv.Itoa(int(h.Root))+" lies inside the header")
	case h.Root >= h.Size:
		return fail(errRoot, 8, "root", strconv.Itoa(int(h.Root))+" lies outside the message of "+strconv.Itoa(int(h.Size))+" bytes")
	default:
		return fail(errRoot, 8, "root", strconv.Itoa(int(h.Root))+" is not 8-aligned")
	}
}
