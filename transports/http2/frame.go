package http2

import "strconv"

// frameType is the type of a frame (RFC 9113, section 6).
type frameType uint8

const (
	frameData frameType = iota
	frameHeaders
	framePriority
	frameReset
	frameSettings
	framePushPromise
	framePing
	frameGoAway
	frameWindowUpdate
	frameContinuation
)

// Flags of frames; the same bit means different things on different types.
const (
	flagAck        = 0x1
	flagEndStream  = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

const (
	frameHeaderLen = 9
	// minMaxFrame is the least and the initial SETTINGS_MAX_FRAME_SIZE. It is
	// what we accept, too: larger frames only delay the others on a connection.
	minMaxFrame = 16384
	maxMaxFrame = 1<<24 - 1
	// recordPayload fills, with its frame header, one TLS record.
	recordPayload = minMaxFrame - frameHeaderLen

	initialWindow = 65535
	maxWindow     = 1<<31 - 1
	maxStreamID   = 1<<31 - 1
)

// settingID is the identifier of a setting (RFC 9113, section 6.5.2).
type settingID uint16

const (
	settingHeaderTableSize     settingID = 1
	settingEnablePush          settingID = 2
	settingMaxStreams          settingID = 3
	settingInitialWindow       settingID = 4
	settingMaxFrameSize        settingID = 5
	settingMaxHeaderListSize   settingID = 6
	settingEnableConnect       settingID = 8 // RFC 8441
	settingNoRFC7540Priorities settingID = 9 // RFC 9218
	settingLen                           = 6
	preface                              = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	pingLen                              = 8
	resetLen                             = 4
	priorityLen                          = 5
	goAwayLen                            = 8
	windowUpdateLen                      = 4
	highBit                              = 1 << 31
	connectionStream           uint32    = 0
	defaultTableSize           uint32    = 4096
)

// ErrCode is an error code of RST_STREAM and GOAWAY (RFC 9113, section 7).
type ErrCode uint32

// The error codes.
const (
	NoError            ErrCode = 0x0
	ProtocolError      ErrCode = 0x1
	InternalError      ErrCode = 0x2
	FlowControlError   ErrCode = 0x3
	SettingsTimeout    ErrCode = 0x4
	StreamClosed       ErrCode = 0x5
	FrameSizeError     ErrCode = 0x6
	RefusedStream      ErrCode = 0x7
	Cancel             ErrCode = 0x8
	CompressionError   ErrCode = 0x9
	ConnectError       ErrCode = 0xa
	EnhanceYourCalm    ErrCode = 0xb
	InadequateSecurity ErrCode = 0xc
	HTTP11Required     ErrCode = 0xd
)

var codeNames = [...]string{
	NoError: "NO_ERROR", ProtocolError: "PROTOCOL_ERROR", InternalError: "INTERNAL_ERROR",
	FlowControlError: "FLOW_CONTROL_ERROR", SettingsTimeout: "SETTINGS_TIMEOUT", StreamClosed: "STREAM_CLOSED",
	FrameSizeError: "FRAME_SIZE_ERROR", RefusedStream: "REFUSED_STREAM", Cancel: "CANCEL",
	CompressionError: "COMPRESSION_ERROR", ConnectError: "CONNECT_ERROR", EnhanceYourCalm: "ENHANCE_YOUR_CALM",
	InadequateSecurity: "INADEQUATE_SECURITY", HTTP11Required: "HTTP_1_1_REQUIRED",
}

// String is the code's name in RFC 9113.
func (e ErrCode) String() string {
	if int(e) < len(codeNames) {
		return codeNames[e]
	}
	return "error code " + strconv.FormatUint(uint64(e), 10)
}

// frameHeader is the head of a frame (RFC 9113, section 4.1).
type frameHeader struct {
	length int
	typ    frameType
	flags  uint8
	stream uint32
}

func (f *frameHeader) has(flag uint8) bool { return f.flags&flag != 0 }

func parseFrameHeader(b []byte) frameHeader {
	_ = b[8]
	return frameHeader{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		typ:    frameType(b[3]),
		flags:  b[4],
		stream: be32(b[5:]) &^ highBit,
	}
}

func be32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func appendBE32(b []byte, v uint32) []byte {
	return append(b, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

func appendFrameHeader(b []byte, length int, typ frameType, flags uint8, stream uint32) []byte {
	return append(b, byte(length>>16), byte(length>>8), byte(length), byte(typ), flags,
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

// patchFrameLength writes the length of the frame that begins at off.
func patchFrameLength(b []byte, off, length int) {
	b[off], b[off+1], b[off+2] = byte(length>>16), byte(length>>8), byte(length)
}

func appendReset(b []byte, stream uint32, code ErrCode) []byte {
	return appendBE32(appendFrameHeader(b, resetLen, frameReset, 0, stream), uint32(code))
}

func appendWindowUpdate(b []byte, stream, n uint32) []byte {
	return appendBE32(appendFrameHeader(b, windowUpdateLen, frameWindowUpdate, 0, stream), n)
}

func appendGoAway(b []byte, last uint32, code ErrCode, text string) []byte {
	b = appendFrameHeader(b, goAwayLen+len(text), frameGoAway, 0, connectionStream)
	return append(appendBE32(appendBE32(b, last), uint32(code)), text...)
}

func appendPing(b []byte, flags uint8, data []byte) []byte {
	return append(appendFrameHeader(b, pingLen, framePing, flags, connectionStream), data...)
}

func appendSetting(b []byte, id settingID, v uint32) []byte {
	return appendBE32(append(b, byte(id>>8), byte(id)), v)
}
