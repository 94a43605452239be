package http3

import (
	"errors"
	"fmt"

	"github.com/quic-go/quic-go"
)

// ErrCode is an error code of HTTP/3 (RFC 9114, section 8.1; RFC 9204, section 6).
type ErrCode uint64

// The error codes.
const (
	NoError              ErrCode = 0x100
	GeneralProtocolError ErrCode = 0x101
	InternalError        ErrCode = 0x102
	StreamCreationError  ErrCode = 0x103
	ClosedCriticalStream ErrCode = 0x104
	FrameUnexpected      ErrCode = 0x105
	FrameError           ErrCode = 0x106
	ExcessiveLoad        ErrCode = 0x107
	IDError              ErrCode = 0x108
	SettingsError        ErrCode = 0x109
	MissingSettings      ErrCode = 0x10a
	RequestRejected      ErrCode = 0x10b
	RequestCancelled     ErrCode = 0x10c
	RequestIncomplete    ErrCode = 0x10d
	MessageError         ErrCode = 0x10e
	ConnectError         ErrCode = 0x10f
	VersionFallback      ErrCode = 0x110
	DecompressionFailed  ErrCode = 0x200
)

var codeNames = map[ErrCode]string{
	NoError: "H3_NO_ERROR", GeneralProtocolError: "H3_GENERAL_PROTOCOL_ERROR", InternalError: "H3_INTERNAL_ERROR",
	StreamCreationError: "H3_STREAM_CREATION_ERROR", ClosedCriticalStream: "H3_CLOSED_CRITICAL_STREAM",
	FrameUnexpected: "H3_FRAME_UNEXPECTED", FrameError: "H3_FRAME_ERROR", ExcessiveLoad: "H3_EXCESSIVE_LOAD",
	IDError: "H3_ID_ERROR", SettingsError: "H3_SETTINGS_ERROR", MissingSettings: "H3_MISSING_SETTINGS",
	RequestRejected: "H3_REQUEST_REJECTED", RequestCancelled: "H3_REQUEST_CANCELLED",
	RequestIncomplete: "H3_REQUEST_INCOMPLETE", MessageError: "H3_MESSAGE_ERROR", ConnectError: "H3_CONNECT_ERROR",
	VersionFallback: "H3_VERSION_FALLBACK", DecompressionFailed: "QPACK_DECOMPRESSION_FAILED",
}

// String is the name that the RFC gives the code.
func (c ErrCode) String() string {
	if s, ok := codeNames[c]; ok {
		return s
	}
	return fmt.Sprintf("%#x", uint64(c))
}

// ConnError is why a connection ended: by us or, with Remote, by the peer (RFC
// 9114, section 8).
type ConnError struct {
	Code   ErrCode
	Reason string
	Remote bool
}

func (e *ConnError) Error() string {
	if e.Remote {
		return "http3: the peer ended the connection: " + e.Code.String() + " " + e.Reason
	}
	return "http3: " + e.Code.String() + ": " + e.Reason
}

// StreamError is why a stream ended: by us or, with Remote, by the peer.
type StreamError struct {
	Code   ErrCode
	Remote bool
}

func (e *StreamError) Error() string {
	if e.Remote {
		return "http3: stream reset by the peer: " + e.Code.String()
	}
	return "http3: stream reset: " + e.Code.String()
}

func connErr(code ErrCode, reason string) error { return &ConnError{Code: code, Reason: reason} }

// fromQUIC gives an error of quic-go our types, where it is one of HTTP/3's.
func fromQUIC(err error) error {
	var s *quic.StreamError
	if errors.As(err, &s) {
		return &StreamError{Code: ErrCode(s.ErrorCode), Remote: s.Remote}
	}
	var a *quic.ApplicationError
	if errors.As(err, &a) {
		return &ConnError{Code: ErrCode(a.ErrorCode), Reason: a.ErrorMessage, Remote: a.Remote}
	}
	return err
}

var (
	errBodyClosed = errors.New("http3: body closed")
	errAnswered   = errors.New("http3: the exchange was answered already")
	errTooLong    = errors.New("http3: the body is longer than its Content-Length")
	errTooShort   = errors.New("http3: the body is shorter than its Content-Length")
	errTruncated  = errors.New("http3: the stream ends within a frame")
)
