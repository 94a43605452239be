// Package zap is the wire side of HTTP over ZAP on byte streams: a server's
// loop and a client's, over streams that may live inside a read callback; and,
// for use without a gateway, a Server, a Client and an http.RoundTripper.
//
// # What ZAP cannot carry
//
// Interim answers (1xx) are dropped: the client learns the final answer. An
// upgrade (WebSocket) is refused by exchange.ErrTunnel. A request body whose
// length is unknown, towards a peer that is not known to speak our extension,
// is gathered up to the limit of one message; one that is larger is refused
// with an exchange.BodyLimitError, which becomes 413. A body of known length
// within the limit is never gathered: its message begins to leave when the
// first bytes are there.
//
// # The extension
//
// A peer is known to speak the extension where ALPN zap-http/1 was agreed on,
// or once a message of it carried zapcodec.FlagExtended on this connection. It
// adds, towards such peers only:
//
//   - the streamed request: type 6, data frames, an end;
//   - the pair Zap-Body-Length on a head without a body cell (types 3 and 6, an
//     answer to HEAD, a 304): the Content-Length of the message, which never
//     travels as such. It is taken off on arrival, and a streamed body is held to it;
//   - FlagLast (0x0040) in the low byte of an answer's flags: the sender closes
//     the connection after this message, so that no request is lost on it.
//
// A client that has a long body of unknown length for an endpoint of which it
// does not know yet asks first, by "OPTIONS *", what the answer's flags say.
package zap

import (
	"errors"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/zapcodec"
)

// ALPN is the protocol id of HTTP over ZAP on TLS and QUIC.
const ALPN = "zap-http/1"

// FlagLast is the bit of our extension that says that the sender closes the
// connection after this message.
const FlagLast = 0x0040

// bodyLengthName is the pair of our extension that stands for Content-Length.
const bodyLengthName = "Zap-Body-Length"

var bodyLength = []byte(bodyLengthName)

// DefaultMessageBytes is the most bytes of one message unless told otherwise.
const DefaultMessageBytes = zapcodec.DefaultLimit

// prefix is the length before each message.
const prefix = 4

// RefuseFrame and RefuseMessageSize are the verdicts that only ZAP knows.
var (
	RefuseFrame = &exchange.Refusal{
		Status: 400, Reason: "bad_frame", Text: "this is not a valid ZAP message", Close: true,
	}
	RefuseMessageSize = &exchange.Refusal{
		Status: 413, Reason: "message_too_large", Text: "the ZAP message is larger than this server allows", Close: true,
	}
)

// verdicts maps the codec's kinds of error to the refusals that other protocols
// give for the same fault.
var verdicts = [...]struct {
	kind    error
	refusal *exchange.Refusal
}{
	{zapcodec.ErrTooLarge, RefuseMessageSize},
	{zapcodec.ErrMethod, exchange.RefuseMethod},
	{zapcodec.ErrTarget, exchange.RefuseTarget},
	{zapcodec.ErrProto, exchange.RefuseRequestLine},
	{zapcodec.ErrStatus, exchange.RefuseStatus},
	{zapcodec.ErrReason, exchange.RefuseStatus},
	{zapcodec.ErrName, exchange.RefuseFieldName},
	{zapcodec.ErrValue, exchange.RefuseFieldValue},
	{zapcodec.ErrHost, exchange.RefuseHost},
	{zapcodec.ErrTransferEncoding, exchange.RefuseEncoding},
	{zapcodec.ErrContentLength, exchange.RefuseBodyLength},
	{zapcodec.ErrConnection, exchange.RefuseFieldValue},
}

// refusalOf is the verdict on a message that the codec did not take.
func refusalOf(err error) *exchange.Refusal {
	for i := range verdicts {
		if errors.Is(err, verdicts[i].kind) {
			return verdicts[i].refusal
		}
	}
	return RefuseFrame
}
