package http2

import (
	"strings"

	"golang.org/x/net/http2/hpack"
)

// huffmanShort resolves the codes of up to eight bits, which is what text is
// made of, by one look at the next byte of input.
var huffmanShort [256]struct{ sym, bits uint8 }

// huffmanLong resolves the longer ones. The code is canonical (RFC 7541,
// appendix B): the codes of a length follow one another, and, written from the top
// bit of a word, shorter ones are smaller.
var huffmanLong [maxHuffmanBits + 1]struct {
	end   uint64 // above the last code of this length, from bit 32 down
	first uint64 // the first code of this length
	syms  []byte // in the order of their codes
}

const (
	minHuffmanLong = 9
	maxHuffmanBits = 30
)

// The tables are made from what the library's encoder writes: eight times a
// symbol takes as many bytes as its code has bits.
func init() {
	var bySize [maxHuffmanBits + 1][]byte
	code := func(c byte, bits int) uint64 {
		b := append(hpack.AppendHuffmanString(nil, string([]byte{c})), 0, 0, 0, 0)
		return uint64(be32(b)) >> (32 - bits)
	}
	for c := range 256 {
		n := int(hpack.HuffmanEncodeLength(strings.Repeat(string([]byte{byte(c)}), 8)))
		bySize[n] = append(bySize[n], byte(c))
		if n > 8 {
			continue
		}
		first := code(byte(c), n) << (8 - n)
		for i := range uint64(1) << (8 - n) {
			huffmanShort[first+i].sym, huffmanShort[first+i].bits = byte(c), uint8(n)
		}
	}
	for n := minHuffmanLong; n <= maxHuffmanBits; n++ {
		l := &huffmanLong[n]
		if len(bySize[n]) == 0 {
			continue
		}
		l.first = ^uint64(0)
		for _, c := range bySize[n] {
			l.first = min(l.first, code(c, n))
		}
		l.syms = make([]byte, len(bySize[n]))
		for _, c := range bySize[n] {
			l.syms[code(c, n)-l.first] = c
		}
		l.end = (l.first + uint64(len(l.syms))) << (32 - n)
	}
}

// appendHuffman appends what src stands for. The end of src may be padded with
// up to seven bits of ones, and not with a whole EOS (RFC 7541, section 5.2).
func appendHuffman(dst, src []byte) ([]byte, error) {
	acc, have := uint64(0), uint(0)
	for {
		for have <= 56 && len(src) > 0 {
			acc = acc<<8 | uint64(src[0])
			src = src[1:]
			have += 8
		}
		if have < maxHuffmanBits {
			return appendHuffmanTail(dst, acc, have)
		}
		for have >= maxHuffmanBits {
			if e := huffmanShort[uint8(acc>>(have-8))]; e.bits != 0 {
				dst = append(dst, e.sym)
				have -= uint(e.bits)
				continue
			}
			sym, bits := longHuffman(acc << (64 - have) >> 32)
			if bits == 0 {
				return dst, hpack.ErrInvalidHuffman
			}
			dst = append(dst, sym)
			have -= bits
		}
	}
}

// appendHuffmanTail decodes the last bits.
func appendHuffmanTail(dst []byte, acc uint64, have uint) ([]byte, error) {
	for have > 0 {
		ones := uint64(1)<<have - 1
		if have < 8 && acc&ones == ones {
			return dst, nil
		}
		// What is missing behind the end counts as ones.
		word := (acc<<(32-have) | (1<<(32-have) - 1)) & (1<<32 - 1)
		e := huffmanShort[uint8(word>>24)]
		sym, bits := e.sym, uint(e.bits)
		if bits == 0 {
			sym, bits = longHuffman(word)
		}
		if bits == 0 || bits > have {
			return dst, hpack.ErrInvalidHuffman
		}
		dst = append(dst, sym)
		have -= bits
	}
	return dst, nil
}

// longHuffman finds the symbol whose code of nine bits or more begins a word of
// 32; bits is 0 where there is none.
func longHuffman(word uint64) (sym byte, bits uint) {
	for n := minHuffmanLong; n <= maxHuffmanBits; n++ {
		if l := &huffmanLong[n]; word < l.end {
			return l.syms[word>>(32-n)-l.first], uint(n)
		}
	}
	return 0, 0
}
