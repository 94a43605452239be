package zapcodec

import "strconv"

// FrameError says what was wrong with a frame and where. Use errors.Is with
// one of the sentinels of this package to learn the kind.
type FrameError struct {
	// Offset in bytes from the frame's start; negative in the prefix before it. For
	// an error of an encoder, where in the frame the field would have lain.
	Offset int
	// Field at fault, in the words of the format: "size", "method", "headers".
	Field string
	// Reason in words, on one line.
	Reason string

	kind *kind
}

// Error returns one line: the field, where it lies, and what is wrong with it.
func (e *FrameError) Error() string {
	return "zap frame: " + e.Field + " at byte " + strconv.Itoa(e.Offset) + ": " + e.Reason
}

// Unwrap returns the sentinel of the error's kind.
func (e *FrameError) Unwrap() error {
	if e.kind == nil {
		return nil
	}
	return e.kind
}

// kind is the type of the sentinels.
type kind struct {
	text  string
	group *kind
}

func (k *kind) Error() string { return "zap: " + k.text }

// Is makes every violation of HTTP's grammar match ErrGrammar.
func (k *kind) Is(target error) bool { return k.group != nil && target == error(k.group) }

// The groups of kinds.
var grammar = &kind{text: "violates HTTP's grammar"}

// ErrGrammar matches every error about HTTP's grammar: the frame is whole, what
// it says is not HTTP. Such a request is answered with 400, such a response
// with 502.
var ErrGrammar error = grammar

// Kinds of malformed frames.
var (
	errShort    = &kind{text: "frame cut short"}
	errMagic    = &kind{text: "not a ZAP message"}
	errVersion  = &kind{text: "unknown version"}
	errFlags    = &kind{text: "compressed, encrypted or signed message"}
	errSize     = &kind{text: "declared size and bytes at hand disagree"}
	errTrailing = &kind{text: "bytes after the end of the message"}
	errRoot     = &kind{text: "root object out of place"}
	errType     = &kind{text: "unexpected message type"}
	errFixed    = &kind{text: "fixed section does not fit"}
	errPointer  = &kind{text: "target outside the message"}
	errNull     = &kind{text: "null with a length"}
	errAlign    = &kind{text: "list not 8-aligned"}
	errDepth    = &kind{text: "objects nested too deep"}
	errBlock    = &kind{text: "malformed header block"}
	errBody     = &kind{text: "body where none may be"}
	errTag      = &kind{text: "unknown direction or tag"}
	errTooLarge = &kind{text: "frame over the limit"}
	errRPC      = &kind{text: "unknown RPC status"}
	errOrder    = &kind{text: "encoder called out of order"}
)

// Kinds of violations of HTTP's grammar.
var (
	errMethod     = &kind{text: "invalid method", group: grammar}
	errTarget     = &kind{text: "invalid target", group: grammar}
	errProto      = &kind{text: "invalid protocol token", group: grammar}
	errStatus     = &kind{text: "invalid status", group: grammar}
	errReason     = &kind{text: "invalid reason phrase", group: grammar}
	errName       = &kind{text: "invalid field name", group: grammar}
	errValue      = &kind{text: "invalid field value", group: grammar}
	errHost       = &kind{text: "more than one Host", group: grammar}
	errTE         = &kind{text: "Transfer-Encoding", group: grammar}
	errLength     = &kind{text: "Content-Length disagrees with the body", group: grammar}
	errConnection = &kind{text: "Connection field too long", group: grammar}
)

// Sentinels for errors.Is, one for each kind of error.
var (
	ErrShort            error = errShort      // fewer bytes than the header or the prefix needs
	ErrMagic            error = errMagic      // does not begin with "ZAP\0"
	ErrVersion          error = errVersion    // neither version 1 nor 2
	ErrFlags            error = errFlags      // flag 0x1, 0x2 or 0x4 set
	ErrSize             error = errSize       // size below 16 or beyond the bytes at hand
	ErrTrailing         error = errTrailing   // bytes after size in a framed message
	ErrRoot             error = errRoot       // root in the header, outside, or not 8-aligned
	ErrType             error = errType       // a message of another type was due
	ErrFixed            error = errFixed      // a fixed section does not lie inside the message
	ErrPointer          error = errPointer    // a cell's target does not lie inside the message
	ErrNull             error = errNull       // rel 0 with a length
	ErrAlign            error = errAlign      // a list that does not start 8-aligned
	ErrDepth            error = errDepth      // more than MaxDepth objects inside each other
	ErrBlock            error = errBlock      // header block and its count or lengths disagree
	ErrBody             error = errBody       // a body in a head that data frames follow
	ErrTag              error = errTag        // direction or tag of an RPC frame
	ErrTooLarge         error = errTooLarge   // a frame over the limit of its reader, or over 2 GiB
	ErrRPCStatus        error = errRPC        // a status that the RPC envelope does not know
	ErrOrder            error = errOrder      // a mistake of the caller of an encoder
	ErrMethod           error = errMethod     // not a token
	ErrTarget           error = errTarget     // empty, or with a space or control byte
	ErrProto            error = errProto      // with a space or a byte outside visible ASCII
	ErrStatus           error = errStatus     // outside 100..999
	ErrReason           error = errReason     // with a control byte
	ErrName             error = errName       // not a token
	ErrValue            error = errValue      // with CR, LF or NUL
	ErrHost             error = errHost       // more than one Host, or one in trailers
	ErrTransferEncoding error = errTE         // a Transfer-Encoding field
	ErrContentLength    error = errLength     // a Content-Length pair that contradicts the body cell
	ErrConnection       error = errConnection // more in Connection than is followed up
)

// fail makes the error; kept out of line so that its callers stay small.
//
//go:noinline
func fail(k *kind, offset int, field, reason string) *FrameError {
	return &FrameError{Offset: offset, Field: field, Reason: reason, kind: k}
}
