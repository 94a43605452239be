package zapcodec

// HeadSize adds up how many bytes an Encoder writes before the body, exactly,
// so that a head can be written right before a body that lies in a buffer
// already:
//
//	size := zapcodec.RequestHeadSize(opt, method, target, proto)
//	size.Field(name, value) // for each
//	from := bodyAt - size.Len()
//	enc.Request(buf[from:from], opt, method, target, proto)
//	enc.Field(name, value) // for each
//	enc.BodyInPlace(bodyLen)
//	frame, err := enc.Finish() // lies in buf unless trailers outgrew it
//
// The zero value is of no use.
type HeadSize struct {
	n     int
	pairs bool
}

// RequestHeadSize begins with what a request's head takes without fields.
func RequestHeadSize(opt Options, method, target, proto []byte) HeadSize {
	return headSize(opt, len(method)+len(target), proto)
}

// ResponseHeadSize begins with what a response's head takes without fields.
func ResponseHeadSize(opt Options, reason, proto []byte) HeadSize {
	return headSize(opt, len(reason), proto)
}

func headSize(opt Options, texts int, proto []byte) HeadSize {
	return HeadSize{n: opt.prefixSize() + httpTexts + texts + len(*orDefault(&proto))}
}

func (opt Options) prefixSize() int {
	if opt&Prefix != 0 {
		return prefixLen
	}
	return 0
}

// Field adds a header field, if it is one that is written.
func (h *HeadSize) Field(name, value []byte) {
	if class := classify(name); class != fieldPasses && class != fieldHost {
		return
	}
	if !h.pairs {
		h.pairs = true
		h.n += 4
	}
	h.n += pairSize(name, value)
}

// Len is the length of the head in bytes, prefix included where the options
// ask for it.
func (h *HeadSize) Len() int { return h.n }

// pairSize is how many bytes a pair takes.
func pairSize(name, value []byte) int { return 8 + len(name) + len(value) }

// pairsSize is how many bytes a block takes with the pairs that follow its
// count, if all of them are written.
func pairsSize(list []Pair) int {
	n := 4
	for i := range list {
		n += pairSize(list[i].Name, list[i].Value)
	}
	return n
}
