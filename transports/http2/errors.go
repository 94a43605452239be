package http2

import "errors"

// ConnError is why a connection ended: GOAWAY of ours or, with Remote, of the
// peer (RFC 9113, section 5.4.1).
type ConnError struct {
	Code   ErrCode
	Reason string
	Remote bool
}

func (e *ConnError) Error() string {
	if e.Remote {
		return "http2: the peer ended the connection: " + e.Code.String() + " " + e.Reason
	}
	return "http2: " + e.Code.String() + ": " + e.Reason
}

// StreamError is why a stream ended: RST_STREAM of ours or, with Remote, of
// the peer (RFC 9113, section 5.4.2).
type StreamError struct {
	Code   ErrCode
	Remote bool
}

func (e *StreamError) Error() string {
	if e.Remote {
		return "http2: stream reset by the peer: " + e.Code.String()
	}
	return "http2: stream reset: " + e.Code.String()
}

func connErr(code ErrCode, reason string) error { return &ConnError{Code: code, Reason: reason} }

var (
	errConnClosed   = errors.New("http2: connection closed")
	errStreamClosed = errors.New("http2: stream closed")
	errBodyClosed   = errors.New("http2: body closed")
	errStalled      = errors.New("http2: the peer has not made room for data in time")
	errIdleStream   = errors.New("http2: stream idle for too long")
	errWriteTimeout = errors.New("http2: the peer has not read in time")
	errTooManyHeads = errors.New("http2: too many interim answers wait to be read")
	errUnfinished   = errors.New("http2: the answer was not finished")
	errTooLong      = errors.New("http2: the body is longer than its Content-Length")
	errTooShort     = errors.New("http2: the body is shorter than its Content-Length")
)
