// Package zapcodec reads and writes the ZAP wire: messages, HTTP over ZAP, RPC
// envelopes and the framings that carry them on a byte stream.
//
// Everything here is a pure function on byte slices: no socket, no goroutine,
// no dependency beyond the standard library. Views alias the frame that they
// were parsed from and are valid only as long as it is left alone; encoders
// append to a buffer of the caller's. Neither allocates once the caller's
// buffers have grown.
//
// A frame that breaks the format, or HTTP's grammar where it carries HTTP, is
// refused with a *[FrameError]; nothing malformed is read as an empty field.
// Encoders refuse to write what the readers here refuse.
//
// All integers are little-endian but the length before an HTTP frame on a byte
// stream, which is big-endian (see [FramingHTTP]).
package zapcodec
