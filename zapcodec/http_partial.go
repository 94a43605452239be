package zapcodec

import (
	"encoding/binary"
	"math"
)

// Layout tells where a request or a response keeps what follows its head, for
// readers that pass a long body on before all of the message has come.
type Layout struct {
	Body     Span
	Trailers Span
	// InOrder is set where the body follows all of the head and the trailers
	// follow the body, as encoders here write it: the message can be read as it
	// comes.
	InOrder bool
}

// LayoutOf looks at the beginning of a request or response of size bytes. ok
// is false where b does not reach to the end of the fixed section yet. Nothing
// is checked but the order: ParseHead does that.
func LayoutOf(b []byte, size int) (l Layout, ok bool) {
	if len(b) < HeaderLen {
		return Layout{}, false
	}
	root := uint64(binary.LittleEndian.Uint32(b[8:]))
	if root+httpFixed > uint64(len(b)) {
		return Layout{}, false
	}
	headEnd := root + httpFixed
	first := uint64(requestMethod)
	if b[7] == TypeResponse || b[7] == TypeResponseHead {
		first = responseReason
	}
	for cell := first; cell <= httpHeaders; cell += 8 {
		if _, end := target(b, root+cell); end > headEnd {
			headEnd = end
		}
	}
	body, bodyEnd := target(b, root+httpBody)
	trailers, trailersEnd := target(b, root+httpTrailers)
	most := uint64(size)
	if bodyEnd > most || trailersEnd > most {
		return l, true
	}
	l.Body = Span{uint32(body), uint32(bodyEnd - body)}
	l.Trailers = Span{uint32(trailers), uint32(trailersEnd - trailers)}
	l.InOrder = l.Body.Len > 0 && headEnd <= body && (l.Trailers.Len == 0 || trailers >= bodyEnd)
	return l, true
}

// target is where the cell at pos points to; 0 and 0 where it is null.
func target(b []byte, pos uint64) (start, end uint64) {
	cell := binary.LittleEndian.Uint64(b[pos : pos+8])
	if cell == 0 {
		return 0, 0
	}
	start = pos + cell&math.MaxUint32
	return start, start + cell>>32
}

// ParseHead is Parse for the beginning of a request of size bytes: head ends
// where the body begins, as LayoutOf tells of one that is InOrder. Only the body's
// place and length are known then; neither Body nor Trailers may be asked.
func (v *RequestView) ParseHead(head []byte, size int) error {
	if err := checkBeginning(head, size); err != nil {
		return err
	}
	return v.parseRequest(head, uint64(size))
}

// ParseHead is Parse for the beginning of a response; see RequestView.
func (v *ResponseView) ParseHead(head []byte, size int) error {
	if err := checkBeginning(head, size); err != nil {
		return err
	}
	return v.parseResponse(head, uint64(size))
}

func checkBeginning(head []byte, size int) error {
	if len(head) < HeaderLen {
		_, err := ParseHeader(head)
		return err
	}
	return checkAnnounced(head, size)
}

// ParseBlock makes v the view of an end whose trailers are the header block in
// b, as the trailers cell of a message points to it: for readers that have passed a long
// body on and hold only what came behind it.
func (v *EndView) ParseBlock(b []byte) error {
	v.frame = b
	return v.trailers.parseTrailers(b, Span{0, uint32(len(b))})
}

// DataLayout looks at the beginning of a data frame of size bytes and tells
// where its chunk lies; ok is false while b is too short to tell.
func DataLayout(b []byte, size int) (chunk Span, ok bool, err error) {
	if len(b) < HeaderLen {
		return Span{}, false, nil
	}
	if err := checkAnnounced(b, size); err != nil {
		return Span{}, false, err
	}
	if b[7] != TypeData {
		return Span{}, false, typeError(b[7], "data")
	}
	root := uint64(binary.LittleEndian.Uint32(b[8:]))
	if root+8 > uint64(size) {
		return Span{}, false, fixedError("root", uint32(root), 8, size)
	}
	if root+8 > uint64(len(b)) {
		return Span{}, false, nil
	}
	chunk, err = spanWithin(b, uint64(size), root, "chunk")
	return chunk, err == nil, err
}
