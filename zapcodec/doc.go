// Package zapcodec reads and writes the ZAP wire: messages, HTTP over ZAP, RPC
// envelopes and the framings that carry them on a byte stream.
//
//   - HTTP: [Request] and [Response] write a message that is whole, [Encoder]
//     one that is kept in another form; [RequestView] and [ResponseView] read.
//     A body in pieces goes by [AppendData], [ParseData] and [EndView].
//   - RPC: [AppendRPCRequest], [ParseRPCRequest] and their kin.
//   - Records of an application: [Schema]; below it [Build], [Open] and [Object].
//   - A byte stream: [Framing] splits it into messages, with or without waiting.
//
// Everything here is a pure function on byte slices: no socket, no goroutine,
// no dependency beyond the standard library. Views alias the frame that they
// were parsed from and are valid only as long as it is left alone; until then
// any number of goroutines may read them. Encoders append to a buffer of the
// caller's as append does; what they are given to write must not lie in the part
// of it that is still to be filled. Neither allocates once the caller's buffers
// have grown.
//
// A frame that breaks the format, or HTTP's grammar where it carries HTTP (RFC
// 9110, section 5), is refused with a *[FrameError]; nothing malformed is read as
// an empty field. Encoders refuse to write what the readers here refuse, and
// return no buffer then: the caller's own is as long as it was.
//
// All integers are little-endian but the length before an HTTP frame on a byte
// stream, which is big-endian (see [FramingHTTP]). Lengths and offsets count
// bytes.
package zapcodec
