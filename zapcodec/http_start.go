package zapcodec

import "encoding/binary"

// putStart writes what a request or a response begins with: the header but for
// its size, the fixed section with the cells of the texts, and the texts, which
// fill msg to its end. word is the first half of the header.
//
// Of a request, method and second, the target, are given; of a response, method
// is nil, and status and second, the reason phrase, are given. The texts come by
// pointer, so that all arguments fit into registers. A start that is refused is
// written all the same, so that an Encoder can go on and keep the error.
func putStart(msg []byte, word uint64, status int, method, second, proto *[]byte) error {
	fixed := (*[httpTexts]byte)(msg)
	binary.LittleEndian.PutUint64(fixed[:], word)
	binary.LittleEndian.PutUint64(fixed[8:], HeaderLen)
	at, first, ok, least := uint(httpTexts), uint64(status), statusOK(status), uint64(printable)
	if method != nil {
		n := len(*method)
		switch {
		case n >= 8:
			copy(msg[httpTexts:], *method)
		case n >= 4:
			copy4(msg, httpTexts, *method)
		case n > 0:
			copy1(msg, httpTexts, *method)
		}
		at += uint(n)
		first, ok, least = cell(httpFixed-requestMethod, n), methodOK(*method) && len(*second) != 0, visible
	}
	binary.LittleEndian.PutUint64(fixed[HeaderLen+requestMethod:], first)
	binary.LittleEndian.PutUint64(fixed[HeaderLen+requestTarget:], cell(int(at)-HeaderLen-requestTarget, len(*second)))
	odd := copyText(msg, at, *second, least)
	at += uint(len(*second))
	binary.LittleEndian.PutUint64(fixed[HeaderLen+requestProto:], cell(int(at)-HeaderLen-requestProto, len(*proto)))
	if p := *proto; len(p) == 8 { // HTTP/1.1 and its like
		w := binary.LittleEndian.Uint64(p)
		binary.LittleEndian.PutUint64(msg[at:at+8], w)
		odd |= oddText(w, visible)
	} else {
		odd |= copyText(msg, at, p, visible)
	}
	binary.LittleEndian.PutUint64(fixed[HeaderLen+httpHeaders:], 0)
	binary.LittleEndian.PutUint64(fixed[HeaderLen+httpBody:], 0)
	binary.LittleEndian.PutUint64(fixed[HeaderLen+httpTrailers:], 0)
	if ok && odd&highs == 0 {
		return nil
	}
	return startError(status, method, second, proto)
}

// startError has an exact look at what a message begins with, and says what of
// it is refused, if anything is.
func startError(status int, method, second, proto *[]byte) error {
	at := httpTexts
	if method != nil {
		if !methodOK(*method) {
			return methodError(at, *method)
		}
		if at += len(*method); !targetExact(*second) {
			return targetErrorHTTP(at, *second)
		}
	} else {
		if !statusOK(status) {
			return statusError(HeaderLen, status)
		}
		if !reasonExact(*second) {
			return reasonError(at)
		}
	}
	if at += len(*second); !protoExact(*proto) {
		return protoError(at, *proto)
	}
	return nil
}

// word is the first half of the header of a frame.
func (opt Options) word(kind byte) uint64 {
	w := magic | Version1<<32 | uint64(kind)<<56
	if opt&Extended != 0 {
		w |= FlagExtended << 48
	}
	return w
}

// cell is a cell that points to n bytes at rel from its own place; null for
// none.
func cell(rel, n int) uint64 {
	if n == 0 {
		return 0
	}
	return uint64(uint32(rel)) | uint64(n)<<32
}

// orDefault is proto, or the default where it is empty.
func orDefault(proto *[]byte) *[]byte {
	if len(*proto) == 0 {
		return &defaultProto
	}
	return proto
}
