package zapcodec

import (
	"encoding/binary"
	"slices"
)

// The functions here copy texts and have a quick look at them in one pass:
// reading a text twice would cost an encoder a third of its time. They go by
// words of eight bytes, of which the last overlaps the one before, so that
// nothing is written beyond the text; loops are written out where a call for each
// text would cost as much again.

// putPairs writes pairs to buf from at on, each name and each value after its
// length, as long as they are ordinary: names and values that pass a quick look,
// no name with a meaning of its own, and one Host at most, if none came before.
// It returns how many it wrote, where they end, and whether there is a Host now.
// There must be room for all of them.
func putPairs(buf []byte, at uint, pairs []Pair, hasHost bool) (done int, end uint, host bool) {
	for end, host = at, hasHost; done < len(pairs); done++ {
		name := pairs[done].Name
		n := uint(len(name))
		if n == 0 || n < 20 && specialNames[name[0]&31]>>n&1 != 0 {
			break
		}
		binary.LittleEndian.PutUint32(buf[at:at+4], uint32(n))
		at += 4
		var odd uint64 // a high bit: something needs an exact look
		switch {
		case n >= 8:
			w := binary.LittleEndian.Uint64(name[n-8:])
			binary.LittleEndian.PutUint64(buf[at+n-8:at+n], w)
			odd = oddToken(w)
			for ; len(name) > 8; name = name[8:] {
				w := binary.LittleEndian.Uint64(name)
				binary.LittleEndian.PutUint64(buf[at:at+8], w)
				odd |= oddToken(w)
				at += 8
			}
			at += uint(len(name))
		case n >= 4:
			w := copy4(buf, at, name)
			odd = oddToken(w)
			at += n
			if n == 4 && isHost(uint32(w)) {
				if hasHost {
					return done, end, host
				}
				hasHost = true
			}
		default:
			odd = oddToken(copy1(buf, at, name))
			at += n
		}
		value := pairs[done].Value
		n = uint(len(value))
		binary.LittleEndian.PutUint32(buf[at:at+4], uint32(n))
		at += 4
		switch {
		case n >= 8:
			w := binary.LittleEndian.Uint64(value[n-8:])
			binary.LittleEndian.PutUint64(buf[at+n-8:at+n], w)
			odd |= oddValue(w)
			for ; len(value) > 8; value = value[8:] {
				w := binary.LittleEndian.Uint64(value)
				binary.LittleEndian.PutUint64(buf[at:at+8], w)
				odd |= oddValue(w)
				at += 8
			}
			at += uint(len(value))
		case n >= 4:
			odd |= oddValue(copy4(buf, at, value))
			at += n
		case n > 0:
			odd |= oddValue(copy1(buf, at, value))
			at += n
		}
		if odd&highs != 0 {
			break
		}
		end, host = at, hasHost
	}
	return done, end, host
}

// copy4 copies a text of 4 to 7 bytes to buf at at and returns them in a word,
// some of them twice.
func copy4(buf []byte, at uint, s []byte) uint64 {
	n := uint(len(s))
	first, last := binary.LittleEndian.Uint32(s), binary.LittleEndian.Uint32(s[n-4:])
	binary.LittleEndian.PutUint32(buf[at:at+4], first)
	binary.LittleEndian.PutUint32(buf[at+n-4:at+n], last)
	return uint64(first) | uint64(last)<<32
}

// copy1 copies a text of 1 to 3 bytes to buf at at and returns them in a word,
// beside blanks.
func copy1(buf []byte, at uint, s []byte) uint64 {
	n := uint(len(s))
	first, middle, last := s[0], s[n/2], s[n-1]
	buf[at], buf[at+n/2], buf[at+n-1] = first, middle, last
	return uint64(first) | uint64(middle)<<8 | uint64(last)<<16 | blanks&^0xffffff
}

// copyText copies a text to buf at at; a high bit in odd marks what oddText
// marks.
func copyText(buf []byte, at uint, s []byte, least uint64) (odd uint64) {
	n := uint(len(s))
	switch {
	case n >= 8:
		w := binary.LittleEndian.Uint64(s[n-8:])
		binary.LittleEndian.PutUint64(buf[at+n-8:at+n], w)
		odd = oddText(w, least)
		for ; len(s) > 8; s = s[8:] {
			w := binary.LittleEndian.Uint64(s)
			binary.LittleEndian.PutUint64(buf[at:at+8], w)
			odd |= oddText(w, least)
			at += 8
		}
	case n >= 4:
		odd = oddText(copy4(buf, at, s), least)
	case n > 0:
		odd = oddText(copy1(buf, at, s), least)
	}
	return odd
}

// room returns buf with a capacity of n bytes at least.
func room(buf []byte, n int) []byte {
	if cap(buf) < n {
		return grow(buf, n)
	}
	return buf
}

// grow is kept out of line so that its callers stay small.
//
//go:noinline
func grow(buf []byte, n int) []byte { return slices.Grow(buf, n-len(buf)) }
