package zapcodec

import "encoding/binary"

// DataHeadLen is the length in bytes of a data frame without prefix and chunk.
const DataHeadLen = HeaderLen + 8

// DataHeadSize is how many bytes go before the chunk of a data frame: the
// headroom that AppendDataHead needs.
func DataHeadSize(opt Options) int { return opt.prefixSize() + DataHeadLen }

// AppendData appends a data frame (type 4) to dst.
func AppendData(dst []byte, opt Options, chunk []byte) ([]byte, error) {
	dst, err := AppendDataHead(dst, opt, len(chunk))
	if err != nil {
		return nil, err
	}
	return append(dst, chunk...), nil
}

// AppendDataHead appends a data frame to dst but for its chunk of n bytes,
// which the caller writes next or has in place already.
func AppendDataHead(dst []byte, opt Options, n int) ([]byte, error) {
	size := DataHeadLen + n
	if n < 0 || size > maxMessage {
		return nil, tooLargeToWrite(size)
	}
	if opt&Prefix != 0 {
		dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	}
	dst = binary.LittleEndian.AppendUint64(dst, opt.word(TypeData))
	dst = binary.LittleEndian.AppendUint64(dst, HeaderLen|uint64(size)<<32)
	return binary.LittleEndian.AppendUint64(dst, cell(8, n)), nil
}

// ParseData returns the chunk of a framed data frame, as a place in the frame.
func ParseData(frame []byte) (Span, error) {
	root, err := streamRoot(frame, TypeData, "data")
	if err != nil {
		return Span{}, err
	}
	return span(frame, root, "chunk")
}

// streamRoot checks a frame whose fixed section is one cell.
func streamRoot(frame []byte, kind byte, want string) (uint64, error) {
	if !sound(frame) {
		return 0, openError(frame)
	}
	if frame[7] != kind {
		return 0, typeError(frame[7], want)
	}
	root := binary.LittleEndian.Uint32(frame[8:])
	if uint64(root)+8 > uint64(len(frame)) {
		return 0, fixedError("root", root, 8, len(frame))
	}
	return uint64(root), nil
}

// AppendEnd appends the end of a streamed body (type 5) to dst.
func AppendEnd(dst []byte, opt Options, trailers []Pair) ([]byte, error) {
	var e Encoder
	e.End(dst, opt)
	e.trailers(trailers)
	return e.Finish()
}

// EndView is a view of the end of a streamed body. It aliases the frame. The
// zero value is ready for Parse.
type EndView struct {
	frame    []byte
	trailers block
}

// Parse makes v the view of a framed end. After an error v is of no use.
func (v *EndView) Parse(frame []byte) error {
	root, err := streamRoot(frame, TypeEnd, "an end")
	if err != nil {
		return err
	}
	v.frame = frame
	trailers, err := span(frame, root, trailersField)
	if err != nil {
		return err
	}
	return v.trailers.parseTrailers(frame, trailers)
}

// Trailers walks the trailer fields.
func (v *EndView) Trailers() Pairs { return v.trailers.pairs(v.frame) }

// Frame returns the frame that the view aliases; spans count from its start.
func (v *EndView) Frame() []byte { return v.frame }

// FrameType returns the message type of a framed message: TypeRequest,
// TypeData and so on. It checks the header.
func FrameType(frame []byte) (byte, error) {
	if !sound(frame) {
		return 0, openError(frame)
	}
	return frame[7], nil
}
